package attention_test

import (
	"testing"
	"time"

	"hubbub/peers/attention"

	"pgregory.net/rapid"
)

// TestTimelines checks that each timeline of testdata ends as it says, and that a control does not
// where returns are switched off.
func TestTimelines(t *testing.T) {
	list, err := attention.Timelines()
	if err != nil || len(list) < 30 {
		t.Fatalf("%d timelines: %v", len(list), err)
	}
	controls := 0
	for _, l := range list {
		t.Run(l.Name, func(t *testing.T) {
			if err := l.Check(attention.DefaultReturnIntervals); err != nil {
				t.Error(err)
			}
			if l.Control {
				controls++
				if l.Check(attention.ReturnIntervals{}) == nil {
					t.Error("it passes although nothing returns")
				}
			}
		})
	}
	if controls != 3 {
		t.Errorf("%d controls; want those of A, C and D", controls)
	}
}

// TestNext_IsTheSameForReadAndUnread covers arm D of the draft.
func TestNext_IsTheSameForReadAndUnread(t *testing.T) {
	acts := rapid.SliceOfN(rapid.Custom(anyAct), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		o := attention.ObligationRecord{Author: "tg:77", Recipient: "agent:lead", Delegate: "agent:boss", Mode: attention.ModeBuffered, CreatedAt: time.Unix(0, 0)}
		list := acts.Draw(t, "acts")
		read := []attention.Act{}
		for _, a := range list {
			read = append(read, attention.Act{Kind: attention.ActRead, Actor: "agent:lead"}, a)
		}
		if a, b := o.Status(list), o.Status(read); a != b {
			t.Errorf("unread it is %+v, read %+v", a, b)
		}
	})
}

func anyAct(t *rapid.T) attention.Act {
	return attention.Act{
		Kind:      rapid.SampledFrom([]attention.ActKind{"", attention.ActSignal, attention.ActRemoved, attention.ActEdited, attention.ActRenewed, attention.ActDeleted, attention.ActReplied}).Draw(t, "kind"),
		Actor:     rapid.SampledFrom([]string{"", "tg:77", "agent:lead", "agent:boss", "tg:99"}).Draw(t, "actor"),
		Signal:    rapid.SampledFrom([]attention.Signal{"", "seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear", "applause"}).Draw(t, "signal"),
		Recipient: rapid.SampledFrom([]string{"", "agent:lead", "agent:w3"}).Draw(t, "recipient"),
		At:        time.Unix(int64(rapid.IntRange(0, 9000).Draw(t, "at")), 0),
	}
}

// TestDischarge_NeedsTheAskingSide checks that no action of others, in any order, closes an
// obligation, and that a discharged one stays discharged.
func TestDischarge_NeedsTheAskingSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := attention.ObligationRecord{Author: "tg:77", Recipient: "agent:lead", Delegate: "agent:boss", Mode: attention.ModeBuffered}
		discharged := false
		var acts []attention.Act
		for _, a := range rapid.SliceOfN(rapid.Custom(anyAct), 0, 20).Draw(t, "acts") {
			acts = append(acts, a)
			asking := a.Actor == "tg:77" || a.Actor == "agent:boss"
			said := (a.Kind == "" || a.Kind == attention.ActSignal) && (a.Signal == "done" || a.Signal == "agree") && a.Recipient == "agent:lead"
			discharged = discharged || asking && said || a.Actor == "tg:77" && a.Kind == attention.ActDeleted
			if got := o.Status(acts).State == attention.ObligationDischarged; got != discharged {
				t.Fatalf("after %+v it is discharged: %v; want %v", a, got, discharged)
			}
		}
	})
}

// TestNext_NamesALaterTime checks that no moment is looked at twice, and that no interval ends
// twice, however the host wakes.
func TestNext_NamesALaterTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_000_000, 0)
		o := attention.ObligationRecord{Author: "tg:77", Recipient: "agent:lead", Mode: attention.ModeImmediate, CreatedAt: start}
		w := attention.ReturnState{Since: start}
		returns, last := 0, int64(0)
		now := start
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 400), 0, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Second)
			due := o.Next(nil, w, attention.DefaultReturnIntervals, now)
			if !due.At.IsZero() && !due.At.After(now) {
				t.Fatalf("at %v it looks again at %v", now, due.At)
			}
			if due.Return {
				returns++
				if due.Slot <= last {
					t.Fatalf("interval %d comes back twice", due.Slot)
				}
				last = due.Slot
			}
			w.Slot, w.Missed, w.Escalated = due.Slot, due.Missed, w.Escalated || due.Escalate
		}
		if returns > attention.MaxReturns+1 {
			t.Errorf("it came back %d times", returns)
		}
	})
}
