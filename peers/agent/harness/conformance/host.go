package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/attention"
)

// A Verdict is the result of one case.
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

// A draft runs the cases of one draft.
type draft struct {
	version attention.Version
	opts    Options
	report  func(Verdict)
}

// id returns the name of a case. The cases of vectors are named after their events.
func (d *draft) id(name string) string { return string(d.version) + "/" + name }

// isSelected reports whether a case should run.
func (d *draft) isSelected(name, title string) bool {
	return strings.Contains(d.id(name)+" "+title, d.opts.Only)
}

// reportCase reports a case if it is selected. The case passes if wrong is nil or errWithheld.
func (d *draft) reportCase(name, title string, wrong error) {
	v := Verdict{Case: d.id(name), Title: title, Result: OK}
	if wrong != nil && !errors.Is(wrong, errWithheld) {
		v.Result, v.Error = Failed, wrong.Error()
	}
	if _, skipped := errors.AsType[skipError](wrong); skipped {
		v.Result = Skipped
	}
	if d.isSelected(name, title) {
		d.report(v)
	}
}

// A skipError is the reason for skipping a case.
type skipError string

func (e skipError) Error() string { return string(e) }

// Versions are the drafts to check.
var Versions = attention.Versions

// Host checks our own rules: one case for each vector and draft. It uses only the options Only
// and Versions.
func Host(opts *Options, report func(Verdict)) error {
	o := opts.withDefaults()
	vectors, err := attention.Vectors()
	if err != nil {
		return err
	}
	timelines, err := attention.Timelines()
	if err != nil {
		return err
	}
	for _, version := range o.Versions {
		draft := &draft{version, o, report}
		for i := range timelines {
			if version == attention.Version0811 {
				draft.timeline(&timelines[i], i+1)
			}
		}
		for i := range vectors {
			v := &vectors[i]
			v.Config.Version = version
			draft.reportCase(v.Event.EventID, v.Title(),
				CheckDecision(v, attention.Decide(v.Event, v.Self, v.Facts, v.Config), version))
		}
	}
	return nil
}

// timeline checks one timeline of an obligation. A control timeline must also fail without
// returns.
func (d *draft) timeline(t *attention.Timeline, n int) {
	name := fmt.Sprintf("obligation_%02d", n)
	d.reportCase(name, t.Title(), t.Check(attention.DefaultReturnIntervals))
	if !t.Control {
		return
	}
	var wrong error
	if t.Check(attention.ReturnIntervals{}) == nil {
		wrong = errors.New("it passes without returns")
	}
	d.reportCase(name+"_control", "without returns it fails: "+t.Title(), wrong)
}

// CheckDecision returns how a host's decision differs from a vector, or nil.
func CheckDecision(v *attention.Vector, d attention.Decision, version attention.Version) error {
	var problems []error
	policies, modes, aims := v.Want.Policy, v.Want.Injection, v.Want.Directedness
	if version.Flat() {
		addressed := v.Want.Draft0624.AddressedToMe
		policies = v.Want.Draft0624.Policy
		if now := v.Want.Draft0811; now != nil && version == attention.Version0811 {
			addressed, policies, modes, aims = now.AddressedToMe, now.Policy, now.Injection, attention.Directednesses
		}
		problems = append(problems, oneOf("addressedToMe", d.AddressedToMe(), addressed))
	}
	problems = append(problems, oneOf("directedness", d.Directedness, aims), oneOf("policy", d.Policy, policies),
		oneOf("injection", d.Injection, modes))
	if v.Want.Priority != "" {
		problems = append(problems, oneOf("priority", d.Priority, []attention.Priority{v.Want.Priority}))
	}
	return errors.Join(append(problems, checkKnock(v, d)...)...)
}

// oneOf returns an error if got is not in want.
func oneOf[T comparable](what string, got T, want []T) error {
	if slices.Contains(want, got) {
		return nil
	}
	return fmt.Errorf("%s is %v, want one of %v", what, got, want)
}

// checkKnock finds a knock that is missing, wrong or reveals too much.
func checkKnock(v *attention.Vector, d attention.Decision) (problems []error) {
	switch {
	case d.Injection != attention.ModeNotify && d.Knock != nil:
		return []error{fmt.Errorf("a knock comes with injection %s", d.Injection)}
	case d.Injection != attention.ModeNotify:
		return nil
	case d.Knock == nil:
		return []error{errors.New("injection is notify without a knock")}
	}
	names := []string{"from", "where", "topic", "pullWith"}
	got := []string{d.Knock.From, d.Knock.Where, d.Knock.Topic, d.Knock.PullWith}
	want := []string{"*", "*", "*", "*"}
	if k := v.Want.Knock; k != nil {
		want = []string{k.From, k.Where, k.Topic, k.PullWith}
	}
	for i, name := range names {
		if want[i] != "*" && got[i] != want[i] {
			problems = append(problems, fmt.Errorf("knock.%s is %q, want %q", name, got[i], want[i]))
		}
		if run := sharedRun(v.Event.Text, got[i], 20); run != "" {
			problems = append(problems, fmt.Errorf("knock.%s contains text of the event: %q", name, run))
		}
	}
	return problems
}

// sharedRun returns n consecutive characters that both texts contain, or "".
func sharedRun(text, other string, n int) string {
	runes := []rune(text)
	for i := 0; i+n <= len(runes); i++ {
		if run := string(runes[i : i+n]); strings.Contains(other, run) {
			return run
		}
	}
	return ""
}
