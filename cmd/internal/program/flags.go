package program

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// defaultBus is the default address of a bus.
const defaultBus = "ws://127.0.0.1:7892"

// settings has the flags of every program.
type settings struct {
	config    string
	buses     []string
	tokenFile string
	data      string
	logLevel  string
	logFormat string

	tokenFlag bool // --token-file was given on the command line
	ownConfig bool // the program reads the file of --config itself
	noData    bool // the program runs without a data folder, too

	made []string       // folders that root creates for the owner of the data folder
	file map[string]any // content of the file of --config, if ownConfig
}

func addSettings(fs *pflag.FlagSet, bus bool) *settings {
	c := &settings{}
	if bus {
		fs.StringArrayVar(&c.buses, "bus", []string{defaultBus},
			"WebSocket address of the bus (repeatable: tried in turn)")
		fs.StringVar(&c.tokenFile, "token-file", "", "file with the token for the bus (or the variable HUBBUB_TOKEN)")
	}
	fs.StringVar(&c.data, "data", "", "folder for all stored data (default $XDG_DATA_HOME/hubbub)")
	fs.StringVar(&c.config, "config", "", "TOML file with settings; its keys are the names of the flags")
	fs.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&c.logFormat, "log-format", "", "console or json (default console on a terminal)")
	return c
}

// settle completes the parsed flags from the environment and the file, and checks the common
// ones. other, if not nil, reports further keys that the file may have and that are ignored.
func settle(fs *pflag.FlagSet, c *settings, o hostProcess, other func(key string) bool) error {
	if f := fs.Lookup("token-file"); f != nil {
		c.tokenFlag = f.Changed
	}
	if err := fromEnvironment(fs, o.lookupEnv); err != nil {
		return err
	}
	var err error
	switch {
	case c.config == "":
	case c.ownConfig:
		err = c.readOwnFile(fs)
	default:
		err = fromFile(fs, c.config, other)
	}
	if err != nil {
		return err
	}
	return c.check(o.lookupEnv)
}

func (c *settings) check(lookupEnv func(string) (string, bool)) error {
	for _, b := range c.buses {
		u, err := url.Parse(b)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
			return Usage("--bus %q is not an address such as %s", b, defaultBus)
		}
		if u.User != nil {
			return Usage("--bus must not contain a password; give the token with --token-file or HUBBUB_TOKEN")
		}
	}
	share, _ := lookupEnv("XDG_DATA_HOME")
	home, _ := lookupEnv("HOME")
	switch {
	case c.data != "":
	case filepath.IsAbs(share):
		c.data = filepath.Join(share, "hubbub")
	case home != "":
		c.data = filepath.Join(home, ".local", "share", "hubbub")
	case c.noData:
		return nil
	default:
		return Usage("there is no home directory to keep data in; say where with --data")
	}
	data, err := filepath.Abs(c.data)
	if err != nil {
		return fmt.Errorf("finding the folder of --data: %w", err)
	}
	c.data = data
	if info, err := os.Stat(data); err == nil && !info.IsDir() {
		return Usage("--data %s is a file; it must name a folder", data)
	}
	return nil
}

// checkFlag is the flag that makes a program check its settings and exit.
const checkFlag = "check"

// notSettings are the flags that are not settings.
var notSettings = map[string]bool{"help": true, "version": true, "describe": true, checkFlag: true}

// EnvName returns the environment variable of a flag.
func EnvName(flag string) string {
	return "HUBBUB_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets every unset flag from its variable. An empty variable counts as absent.
func fromEnvironment(fs *pflag.FlagSet, lookupEnv func(string) (string, bool)) (err error) {
	fs.VisitAll(func(f *pflag.Flag) {
		value, ok := lookupEnv(EnvName(f.Name))
		if err != nil || f.Changed || notSettings[f.Name] || !ok || value == "" {
			return
		}
		if e := setFlag(f, divide(f, value)); e != nil {
			err = Usage("%s: %s", EnvName(f.Name), e)
		}
	})
	return err
}

// divide returns the values in the variable of a flag. A repeatable flag has several.
func divide(f *pflag.Flag, value string) []string {
	if _, repeatable := f.Value.(pflag.SliceValue); !repeatable {
		return []string{value}
	}
	sep := ","
	if strings.Contains(value, "\n") {
		sep = "\n"
	}
	var list []string
	for part := range strings.SplitSeq(value, sep) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// setFlag sets a flag: to one value, or to several if it is repeatable.
func setFlag(f *pflag.Flag, values []string) (err error) {
	if list, repeatable := f.Value.(pflag.SliceValue); repeatable {
		err = list.Replace(values)
	} else if len(values) == 1 {
		err = f.Value.Set(values[0])
	} else {
		return fmt.Errorf("takes one value, not a list")
	}
	if err != nil {
		return refuseValue(f, strings.Join(values, ","), err)
	}
	f.Changed = true
	return nil
}

// A Description is the answer of a program to the hidden flag --describe, as JSON. Documents are
// generated from it.
type Description struct {
	Name     string    `json:"name"`
	Summary  string    `json:"summary"` // one sentence without its subject
	Settings []Setting `json:"settings"`
}

// A Setting is one flag, which is also a variable and a key of the file.
type Setting struct {
	Name       string `json:"name"`
	Type       string `json:"type"`    // of the value, such as string, int, bool, duration
	Default    string `json:"default"` // as written after the flag
	Usage      string `json:"usage"`
	Repeatable bool   `json:"repeatable,omitempty"`
	Shared     bool   `json:"shared,omitempty"` // every program has it
}

// Settings describes the flags of a set that are settings, in their order.
func Settings(fs *pflag.FlagSet) []Setting {
	var list []Setting
	fs.VisitAll(func(f *pflag.Flag) {
		if notSettings[f.Name] || f.Hidden {
			return
		}
		kind, _ := pflag.UnquoteUsage(f)
		_, repeatable := f.Value.(pflag.SliceValue)
		list = append(list, Setting{
			Name:       f.Name,
			Type:       cmp.Or(f.Value.Type(), kind),
			Default:    f.DefValue,
			Usage:      f.Usage,
			Repeatable: repeatable,
		})
	})
	return list
}

// describe answers --describe.
func describe(w io.Writer, p *Program, fs *pflag.FlagSet) error {
	frame := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettings(frame, true)
	list := Settings(fs)
	for i := range list {
		list[i].Shared = frame.Lookup(list[i].Name) != nil
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(Description{Name: p.Name, Summary: p.Summary, Settings: list})
}
