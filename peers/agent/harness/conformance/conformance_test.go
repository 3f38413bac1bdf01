package conformance_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/conformance"
	"hubbub/peers/agent/harness/harnesstest"

	"go.uber.org/goleak"
	"hubbub/peers/attention"
)

func TestMain(m *testing.M) {
	harnesstest.RunReferenceIfAsked()
	goleak.VerifyTestMain(m)
}

// TestHost_OurRulesConform runs the vectors on this repository's own rules.
func TestHost_OurRulesConform(t *testing.T) {
	n := 0
	err := conformance.Host(nil, func(v conformance.Verdict) {
		n++
		if v.Result != conformance.OK {
			t.Errorf("%s %s: %s", v.Case, v.Title, v.Error)
		}
	})
	vectors, _ := attention.Vectors()
	timelines, _ := attention.Timelines()
	if err != nil || n != 3*len(vectors)+len(timelines)+3 || n == 0 { // three of the timelines are controls, too
		t.Errorf("%d cases of %d vectors, %v", n, len(vectors), err)
	}
}

func TestCheckDecision_FindsWrongDecisions(t *testing.T) {
	vectors, err := attention.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		v := &vectors[i]
		d := attention.Decide(v.Event, v.Self, v.Facts, v.Config)
		for _, version := range conformance.Versions {
			wrong := d
			wrong.Policy = "must_shout"
			if conformance.CheckDecision(v, wrong, version) == nil {
				t.Errorf("%s: a wrong policy conforms", v.Name)
			}
		}
		if d.Knock == nil {
			continue
		}
		leaking, missing := d, d
		knock := *d.Knock
		knock.Topic += v.Event.Text + "a text of more than twenty characters"
		event := *v
		event.Event.Text += "a text of more than twenty characters"
		leaking.Knock, missing.Knock = &knock, nil
		if conformance.CheckDecision(&event, leaking, attention.Version0602) == nil || conformance.CheckDecision(v, missing, attention.Version0602) == nil {
			t.Errorf("%s: a leaking or missing knock conforms", v.Name)
		}
	}
}

// checker checks the reference program with faults.
func checker(t *testing.T, o conformance.Options, faults ...string) map[string]conformance.Verdict {
	t.Helper()
	o.Env = harnesstest.Environ(filepath.Join(t.TempDir(), "state"), faults...)
	if o.Quiet == 0 {
		o.Quiet = 30 * time.Millisecond
	}
	verdicts := map[string]conformance.Verdict{}
	if err := conformance.Program(t.Context(), []string{os.Args[0]}, &o, func(v conformance.Verdict) {
		if _, twice := verdicts[v.Case]; twice {
			t.Errorf("%s was reported twice", v.Case)
		}
		verdicts[v.Case] = v
	}); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func TestProgram_ReferenceConforms(t *testing.T) {
	verdicts := checker(t, conformance.Options{})
	vectors, _ := attention.Vectors()
	if want := 3*(len(vectors)+15) + 1; len(verdicts) != want {
		t.Errorf("%d cases, want %d", len(verdicts), want)
	}
	for _, v := range verdicts {
		if v.Result != conformance.OK {
			t.Errorf("%s %s: %s", v.Case, v.Title, v.Error)
		}
	}
}

// TestProgram_FindsFaults checks that each fault fails its case.
func TestProgram_FindsFaults(t *testing.T) {
	for _, c := range []struct{ fault, only, failed, says string }{
		{"disobey", "thanks", "thanks", "it answered an event with policy"},
		{"disobey", "overheard", "overheard", "it answered an event with policy"},
		{"disobey", "C01", "evt_001", "2 different answers"},
		{"silent-turns", "C01", "evt_001", "was not answered"},
		{"silent:1000", "C01", "evt_001", "not accepted"},
		{"reword", "redelivery", "redelivery", "different answers"},
		{"nameless", "named", "named", ""},
		{"chatty", "unknown", "unknown", "not JSON-RPC"},
		{"mute", "initialize", "initialize", "no answer to initialize"},
	} {
		t.Run(c.fault+" "+c.only, func(t *testing.T) {
			t.Parallel() // some wait for events that never come
			o := conformance.Options{Only: c.only, Versions: []attention.Version{attention.Version0602}, Timeout: 30 * time.Second}
			if strings.HasPrefix(c.fault, "silent") || c.fault == "mute" || c.fault == "nameless" {
				o.Timeout = 8 * time.Second // enough to start the program on a busy machine
			}
			if c.fault == "nameless" {
				o.Only = "C01" // its event is never answered
			}
			verdicts := checker(t, o, c.fault)
			if c.fault == "nameless" {
				if v := verdicts["2026-06-02/evt_001"]; v.Result != conformance.Failed {
					t.Errorf("%+v", v)
				}
				return
			}
			v, ok := verdicts["2026-06-02/"+c.failed]
			if !ok || v.Result != conformance.Failed || !strings.Contains(v.Error, c.says) {
				t.Errorf("%+v, want a failure that says %q; all: %v", v, c.says, verdicts)
			}
		})
	}
}

func TestProgram_SkipsAnotherDraft(t *testing.T) {
	verdicts := checker(t, conformance.Options{Only: "alive"}, "version:2026-06-24")
	if len(verdicts) != 1 || verdicts["2026-06-24/alive"].Result != conformance.OK {
		t.Errorf("%v", verdicts)
	}
	verdicts = checker(t, conformance.Options{Only: "initialize"}, "version:2026-06-24")
	if v := verdicts["2026-06-02/initialize"]; v.Result != conformance.Skipped {
		t.Errorf("%+v", v)
	}
}

func TestProgram_SkipsUnsupportedModes(t *testing.T) {
	verdicts := checker(t, conformance.Options{Only: "C05"}, "lacks:injection.notify")
	for _, v := range verdicts {
		if v.Result != conformance.OK || !strings.Contains(v.Title, "withheld") {
			t.Errorf("%+v", v)
		}
	}
}

func TestProgram_FailsIfMissing(t *testing.T) {
	err := conformance.Program(t.Context(), []string{"/no/such/program"}, nil, func(v conformance.Verdict) { t.Errorf("%+v", v) })
	if !errors.Is(err, harness.ErrPermanent) {
		t.Errorf("err = %v", err)
	}
}
