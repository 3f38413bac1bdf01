package conformance

import (
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
)

// A Verdict is the outcome of one case.
type Verdict struct {
	Case   string `json:"case"`
	Title  string `json:"title"`
	Result string `json:"result"` // ok, failed or skipped
	Error  string `json:"error,omitempty"`
}

// The results of a case.
const (
	OK      = "ok"
	Failed  = "failed"
	Skipped = "skipped"
)

func verdict(name, title string, problems []string) Verdict {
	v := Verdict{Case: name, Title: title, Result: OK}
	if len(problems) > 0 {
		v.Result, v.Error = Failed, strings.Join(problems, "\n")
	}
	return v
}

// Versions are the drafts that are checked.
var Versions = []attention.Version{attention.Version0602, attention.Version0624}

// Host checks our own rules: one case for each vector and draft. Of the options
// it takes Only and Versions.
func Host(opts *Options, report func(Verdict)) error {
	o := opts.withDefaults()
	vectors, err := attention.Vectors()
	if err != nil {
		return err
	}
	for _, version := range o.Versions {
		for i := range vectors {
			v := &vectors[i]
			name := caseName(version, v)
			if !strings.Contains(name+" "+v.Name, o.Only) {
				continue
			}
			cfg := v.Config
			cfg.Version = version
			report(verdict(name, v.Name, CheckDecision(v, attention.Decide(v.Event, v.Self, v.Facts, cfg), version)))
		}
	}
	return nil
}

// caseName names a vector's case: its draft and event.
func caseName(version attention.Version, v *attention.Vector) string {
	return fmt.Sprintf("%s/%s", version, v.Event.EventID)
}

// CheckDecision says what of a host's decision does not conform to a vector;
// nil means that it does. It is pure.
func CheckDecision(v *attention.Vector, d attention.Decision, version attention.Version) []string {
	var problems []string
	wrong := func(what string, got, want any) {
		problems = append(problems, fmt.Sprintf("%s is %v, want one of %v", what, got, want))
	}
	policies := v.Want.Policy
	if version == attention.Version0624 {
		policies = v.Want.Draft0624.Policy
		if !slices.Contains(v.Want.Draft0624.AddressedToMe, d.AddressedToMe()) {
			wrong("addressedToMe", d.AddressedToMe(), v.Want.Draft0624.AddressedToMe)
		}
	}
	if !slices.Contains(v.Want.Directedness, d.Directedness) {
		wrong("directedness", d.Directedness, v.Want.Directedness)
	}
	if !slices.Contains(policies, d.Policy) {
		wrong("policy", d.Policy, policies)
	}
	if !slices.Contains(v.Want.Injection, d.Injection) {
		wrong("injection", d.Injection, v.Want.Injection)
	}
	if v.Want.Priority != "" && d.Priority != v.Want.Priority {
		wrong("priority", d.Priority, v.Want.Priority)
	}
	return append(problems, checkKnock(v, d)...)
}

// checkKnock looks for a knock that is missing, wrong or tells too much.
func checkKnock(v *attention.Vector, d attention.Decision) []string {
	if d.Injection != attention.ModeNotify {
		if d.Knock != nil {
			return []string{"a knock comes with injection " + string(d.Injection)}
		}
		return nil
	}
	if d.Knock == nil {
		return []string{"injection is notify without a knock"}
	}
	var problems []string
	got := map[string]string{"from": d.Knock.From, "where": d.Knock.Where, "topic": d.Knock.Topic, "pullWith": d.Knock.PullWith}
	if v.Want.Knock != nil {
		want := map[string]string{"from": v.Want.Knock.From, "where": v.Want.Knock.Where, "topic": v.Want.Knock.Topic, "pullWith": v.Want.Knock.PullWith}
		for _, field := range []string{"from", "where", "topic", "pullWith"} {
			if want[field] != "*" && got[field] != want[field] {
				problems = append(problems, fmt.Sprintf("knock.%s is %q, want %q", field, got[field], want[field]))
			}
		}
	}
	for field, value := range got {
		if run := sharedRun(v.Event.Text, value, 20); run != "" {
			problems = append(problems, fmt.Sprintf("knock.%s holds text of the event: %q", field, run))
		}
	}
	return problems
}

// sharedRun returns a run of n characters that stands in both texts, or "".
func sharedRun(text, other string, n int) string {
	runes := []rune(text)
	for i := 0; i+n <= len(runes); i++ {
		if run := string(runes[i : i+n]); strings.Contains(other, run) {
			return run
		}
	}
	return ""
}
