package attention

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Timeline is one test of obligations: the acts on one obligation, and what its host must do
// and when. testdata/README.md documents the format.
type Timeline struct {
	Name       string           `json:"name"`
	Seed       int              `json:"seed"` // the number of the sentence that it checks, in testdata/sentences.md
	Obligation ObligationRecord `json:"owed"`
	Acts       []Moment         `json:"acts"`
	Away       []Moment         `json:"away"`    // pairs of times at which the host stops and returns
	Until      string           `json:"until"`   // length of the test, in the format of time.ParseDuration
	Want       []Moment         `json:"want"`    // what the host does: return, escalate
	State      string           `json:"state"`   // final state of the obligation
	Control    bool             `json:"control"` // it must fail if returns are switched off
}

// A Moment is an act or an action at a time after the creation of the event.
type Moment struct {
	After string `json:"after"`
	Do    string `json:"do,omitempty"` // of Want
	Act          // of Acts
}

// Title names the timeline and the sentence that it checks.
func (t *Timeline) Title() string { return fmt.Sprintf("%s (sentence %d)", t.Name, t.Seed) }

// Timelines returns the published tests of obligations.
func Timelines() ([]Timeline, error) {
	file, err := readVectors("07_obligations.json")
	return file.Timelines, err
}

// created is when the event of every timeline was created.
var created = time.Date(2026, 8, 11, 14, 2, 11, 0, time.UTC)

// parseTimes parses times relative to the creation of the event.
func parseTimes(list []Moment) (times []time.Time, err error) {
	for _, m := range list {
		d, err := time.ParseDuration(m.After)
		if err != nil {
			return nil, err
		}
		times = append(times, created.Add(d))
	}
	return times, nil
}

// Check plays the timeline and returns the differences from the expected actions.
func (t *Timeline) Check(r ReturnIntervals) error {
	did, state, err := t.Play(r)
	switch {
	case err != nil:
		return err
	case !slices.EqualFunc(did, t.Want, func(a, b Moment) bool { return a.After == b.After && a.Do == b.Do }):
		return fmt.Errorf("the host does %s, and should do %s", formatMoments(did), formatMoments(t.Want))
	case string(state) != t.State:
		return fmt.Errorf("the obligation is %s in the end, and should be %s", state, t.State)
	}
	return nil
}

func formatMoments(list []Moment) string {
	said := []string{}
	for _, m := range list {
		said = append(said, m.Do+" at "+m.After)
	}
	return fmt.Sprint(said)
}

// Play returns the actions of a host that follows [ObligationRecord.Next], and the final state.
func (t *Timeline) Play(r ReturnIntervals) (did []Moment, state ObligationState, err error) {
	acted, err := parseTimes(t.Acts)
	away, err2 := parseTimes(t.Away)
	until, err3 := parseTimes([]Moment{{After: t.Until}})
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, "", err
	}
	o, w := t.Obligation, ReturnState{Since: created}
	o.CreatedAt = created
	var acts []Act
	for now := created; !now.After(until[0]); {
		for len(acts) < len(acted) && !acted[len(acts)].After(now) {
			a := t.Acts[len(acts)].Act
			a.At = acted[len(acts)]
			acts = append(acts, a)
		}
		due := o.Next(acts, w, r, now)
		for _, one := range []struct {
			do   string
			mean bool
		}{{"return", due.Return}, {"escalate", due.Escalate}} {
			if one.mean {
				did = append(did, Moment{After: now.Sub(created).String(), Do: one.do})
			}
		}
		w.Slot, w.Missed, w.Escalated = due.Slot, due.Missed, w.Escalated || due.Escalate
		next := until[0].Add(1)
		for _, at := range append(slices.Clone(acted), due.At) {
			if at.After(now) && at.Before(next) {
				next = at
			}
		}
		now = next
		for gone := range slices.Chunk(away, 2) { // the host does nothing until it returns
			if now.After(gone[0]) && now.Before(gone[1]) {
				now, w.Since = gone[1], gone[1]
			}
		}
	}
	return did, o.Status(acts).State, nil
}
