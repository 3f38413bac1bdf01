package program

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type taggedSettings struct {
	Name   string        `flag:"name" default:"ann" usage:"who it is"`
	Loud   bool          `flag:"loud"`
	Rows   int           `flag:"rows" positive:"3"`
	Bytes  int64         `flag:"bytes" positive:"1<<20"`
	Wait   time.Duration `flag:"wait" positive:"2s"`
	Pause  time.Duration `flag:"pause" default:"1s"`
	Users  []int64       `flag:"user"`
	Words  []string      `flag:"word"`
	Hosts  []string      `flag:"host,split"`
	Plain  string
	Nested struct {
		Depth int `flag:"depth" default:"5"`
	}
	Budget *struct {
		Turns int `flag:"turns"`
	}
}

func parseTagged(t *testing.T, args ...string) (*taggedSettings, *pflag.FlagSet) {
	t.Helper()
	s := &taggedSettings{Budget: &struct {
		Turns int `flag:"turns"`
	}{Turns: 9}}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(fs, s)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s, fs
}

func TestAddFlags_TakesDefaultsFromTagsAndFields(t *testing.T) {
	_, fs := parseTagged(t)
	for flag, want := range map[string]string{
		"name": "ann", "loud": "false", "rows": "3", "bytes": "1048576", "wait": "2s", "pause": "1s", "user": "[]", "word": "[]", "host": "[]",
		"depth": "5", "turns": "9",
	} {
		if f := fs.Lookup(flag); f == nil || f.DefValue != want {
			t.Errorf("--%s: %+v; want the default %s", flag, f, want)
		}
	}
	if fs.Lookup("name").Usage != "who it is" {
		t.Errorf("the usage is %q", fs.Lookup("name").Usage)
	}
}

func TestAddFlags_SetsFields(t *testing.T) {
	s, _ := parseTagged(t, "--name=bob", "--loud", "--rows=4", "--bytes=5", "--wait=6s", "--pause=0s", "--user=7", "--user=8", "--word=a,b", "--host=c,d",
		"--depth=0", "--turns=1")
	if s.Name != "bob" || !s.Loud || s.Rows != 4 || s.Bytes != 5 || s.Wait != 6*time.Second || s.Pause != 0 || len(s.Users) != 2 || len(s.Words) != 1 ||
		len(s.Hosts) != 2 || s.Nested.Depth != 0 || s.Budget.Turns != 1 {
		t.Errorf("%+v", s)
	}
}

func TestCheckBounds_RefusesNumbersThatAreTooSmall(t *testing.T) {
	for arg, want := range map[string]string{
		"--rows=0": "--rows must be at least 1", "--rows=-1": "--rows must be at least 1", "--bytes=-5": "--bytes must be at least 1",
		"--wait=0s": "--wait must be longer than 0s", "--wait=-1s": "--wait must be longer than 0s",
		"--rows=1": "", "--bytes=1": "", "--wait=1ns": "", "--pause=0s": "", "--depth=0": "",
		"--pause=-1s": "--pause must not be negative", "--depth=-1": "--depth must not be negative", "--turns=-1": "--turns must not be negative",
	} {
		s, _ := parseTagged(t, arg)
		if err := CheckBounds(s); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", arg, err, want)
		}
	}
}
