package mailbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/intake"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/protocol"
)

func TestEndTurn_SetsTheStateOfItsEvent(t *testing.T) {
	for name, c := range map[string]struct {
		policy   attention.Policy
		prepare  func(tx *mailbox.Tx, e *mailbox.Entry)
		mode     attention.Mode
		want     mailbox.State
		deadline bool
	}{
		"an answer was owed":              {attention.PolicyMustRespond, nil, attention.ModeImmediate, mailbox.Failed, false},
		"to be seen":                      {attention.PolicyAckOnly, nil, attention.ModeImmediate, mailbox.Acknowledged, false},
		"nothing was owed":                {attention.PolicyMayRespond, nil, attention.ModeImmediate, mailbox.Ignored, false},
		"another agent has it":            {attention.PolicyMustRespond, func(tx *mailbox.Tx, e *mailbox.Entry) { e.DeadlineAt = time.Now().Add(time.Hour); tx.Save(e) }, attention.ModeImmediate, mailbox.Held, true},
		"claimed and promised":            {attention.PolicyMayRespond, func(tx *mailbox.Tx, e *mailbox.Entry) { tx.Move(e, mailbox.ClaimEvent, "") }, attention.ModeImmediate, mailbox.Held, true},
		"claimed for it, and not used":    {attention.PolicyMayRespond, granted, attention.ModeImmediate, mailbox.Ignored, false},
		"claimed for it, and not yet run": {attention.PolicyMayRespond, granted, attention.ModeNotify, mailbox.Held, true},
		"claimed for it, and acted":       {attention.PolicyMayRespond, func(tx *mailbox.Tx, e *mailbox.Entry) { e.Acted = true; granted(tx, e) }, attention.ModeImmediate, mailbox.Held, true},
		"answered":                        {attention.PolicyMustRespond, func(tx *mailbox.Tx, e *mailbox.Entry) { tx.Move(e, mailbox.Respond, "") }, attention.ModeImmediate, mailbox.Responded, false},
	} {
		box := newMailbox(t)
		if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
			intake.Store(tx, chat("e1", "hello"))
			e := tx.Entry("e1")
			e.Decision.Policy = c.policy
			tx.Move(e, mailbox.Hold, "")
			if c.prepare != nil {
				c.prepare(tx, e)
			}
			turn := &mailbox.Turn{ID: "t1", EventID: "e1", Merged: []string{"e1"}, Chat: e.Chat, Mode: c.mode, State: mailbox.TurnRunning, Times: mailbox.Times{StartedAt: time.Now()}}
			tx.SaveTurn(turn)
			lifecycle.Finish(tx, turn, e, protocol.TurnCost{})
		}); err != nil {
			t.Fatal(name, err)
		}
		v := box.View(t.Context())
		if e := v.Entry("e1"); e.State != c.want || !e.DeadlineAt.IsZero() != c.deadline {
			t.Errorf("%s: %s until %v; want %s", name, e.State, e.DeadlineAt, c.want)
		}
		if turn := v.Turn("t1"); turn == nil || turn.State != mailbox.TurnFinished {
			t.Errorf("%s: the turn is %+v", name, turn)
		}
	}
}

func granted(tx *mailbox.Tx, e *mailbox.Entry) {
	e.Decision.Reason = "claim_granted"
	tx.Move(e, mailbox.ClaimEvent, "")
}

// TestDeadline_EndsWhatIsDue checks that deferred events come back at their time, that others
// end, and that nothing ends earlier.
func TestDeadline_EndsWhatIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration
		deferred bool
		want     mailbox.State
	}{
		"not yet":      {time.Hour, false, mailbox.Held},
		"now":          {-time.Second, false, mailbox.Ignored},
		"a deferral":   {-time.Second, true, mailbox.Turned},
		"not deferred": {0, false, mailbox.Held},
	} {
		box := newMailbox(t)
		if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
			intake.Store(tx, chat("e1", "hello"))
			e := tx.Entry("e1")
			e.Decision.Policy = attention.PolicyMayRespond
			tx.Move(e, mailbox.Hold, "")
			if c.deferred {
				lifecycle.Defer(tx, e, time.Now().Add(5*time.Minute), "later")
			}
			if e.DeadlineAt = time.Now().Add(c.deadline); c.deadline == 0 {
				e.DeadlineAt = time.Time{}
			}
			tx.Save(e)
			lifecycle.Expire(tx, "e1", "too late")
			lifecycle.Expire(tx, "nobody", "too late")
		}); err != nil {
			t.Fatal(name, err)
		}
		if e := box.View(t.Context()).Entry("e1"); e.State != c.want {
			t.Errorf("%s: %s, want %s", name, e.State, c.want)
		}
	}
}

// TestTurnRecord_NamesItsMessages checks that it names all of several messages, or a
// digest of them.
func TestTurnRecord_NamesItsMessages(t *testing.T) {
	for name, c := range map[string]struct {
		merged []string
		mode   attention.Mode
		want   bool
	}{
		"one":         {[]string{"e1"}, attention.ModeImmediate, false},
		"two":         {[]string{"e0", "e1"}, attention.ModeImmediate, true},
		"a digest":    {[]string{"e1"}, attention.ModeDigest, true},
		"many in one": {[]string{"e0", "e00", "e1"}, attention.ModeBuffered, true},
	} {
		box := newMailbox(t)
		if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
			turn := &mailbox.Turn{ID: "t1", EventID: "e1", Merged: c.merged, Chat: "tg:42", Mode: c.mode, State: mailbox.TurnRunning}
			tx.SaveTurn(turn)
			tx.MoveTurn(turn, mailbox.TurnFinished, "", protocol.TurnCost{})
		}); err != nil {
			t.Fatal(name, err)
		}
		items, err := box.Outbox.List(t.Context(), &outbox.Filter{})
		if err != nil || len(items) != 1 {
			t.Fatalf("%s: %d records, %v", name, len(items), err)
		}
		if got := strings.Contains(string(items[0].Body), "mergedEventIds"); got != c.want {
			t.Errorf("%s: %s", name, items[0].Body)
		}
	}
}

// TestHandleExplanation_EndsWhatWasUnclear checks that only unclear events from the same author
// and thread end.
func TestHandleExplanation_EndsWhatWasUnclear(t *testing.T) {
	events := map[string]struct {
		author, thread string
		asked, live    bool
		want           mailbox.State
	}{
		"unclear":                  {"7", "", true, false, mailbox.Superseded},
		"waits for something else": {"7", "", false, false, mailbox.Turned},
		"of another author":        {"8", "", true, false, mailbox.Turned},
		"in another thread":        {"7", "T1", true, false, mailbox.Turned},
		"in a turn again":          {"7", "", true, true, mailbox.Turned},
	}
	box := newMailbox(t)
	if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		for id, c := range events {
			said := chat(id, "do it")
			said.Content.Author.ID, said.Content.Chat.ThreadID = c.author, c.thread
			intake.Store(tx, said)
			e := tx.Entry(id)
			tx.Move(e, mailbox.Hold, "")
			tx.Compose([]*mailbox.Entry{e})
			e = tx.Entry(id)
			if c.asked {
				lifecycle.AskClarification(tx, e)
			}
			if !c.live {
				tx.CancelTurn(tx.Turn(e.TurnID), "it has ended")
			}
		}
		explanation := chat("more", "I mean the build")
		explanation.Content.Author.ID = "7"
		intake.Store(tx, explanation)
		e := tx.Entry("more")
		e.Decision.Policy = attention.PolicyMustRespond
		lifecycle.HandleExplanation(tx, e)
	}); err != nil {
		t.Fatal(err)
	}
	for id, c := range events {
		if e := box.View(t.Context()).Entry(id); e.State != c.want {
			t.Errorf("the event %q is %s; want %s", id, e.State, c.want)
		}
	}
}

// TestStopChat_EndsAnswersToItsQuestions covers answers that came through the broker: one in a turn of
// the chat, one that its turn deferred, and one to a question of another chat.
func TestStopChat_EndsAnswersToItsQuestions(t *testing.T) {
	box := newMailbox(t)
	if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		for id, asked := range map[string]protocol.Topic{"live": "tg:42", "deferred": "tg:42", "other": "tg:43"} {
			answer := chat(id, "eu-west")
			answer.Chat, answer.Origin.AnsweredID = protocol.TopicBroker, "q-"+id
			tx.RecordQuestion(answer.Origin.AnsweredID, asked, "")
			intake.Store(tx, answer)
			e := tx.Entry(id)
			tx.Move(e, mailbox.Hold, "")
			tx.Compose([]*mailbox.Entry{e})
			if id == "deferred" {
				e = tx.Entry(id)
				tx.CancelTurn(tx.Turn(e.TurnID), "it has ended")
				lifecycle.Defer(tx, e, time.Time{}, "later")
			}
		}
		intake.Store(tx, chat("stop", "stop"))
		lifecycle.StopChat(tx, tx.Entry("stop"))
	}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]mailbox.State{
		"live": mailbox.Superseded, "deferred": mailbox.Superseded, "other": mailbox.Turned,
	} {
		if e := box.View(t.Context()).Entry(id); e.State != want {
			t.Errorf("the answer %q is %s; want %s", id, e.State, want)
		}
	}
}

// TestTurnsIn_ShowsEachThread checks that a thread with very many turns hides no turn of another.
func TestTurnsIn_ShowsEachThread(t *testing.T) {
	box := newMailbox(t)
	if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		for i := range 502 {
			turn := &mailbox.Turn{ID: fmt.Sprint("t", i), Chat: "tg:42", ThreadKey: "42\x00", State: mailbox.TurnQueued,
				Seq: int64(i), Rank: mailbox.RankNormal}
			if i == 501 {
				turn.Chat, turn.ThreadKey = "tg:43", "43\x00"
			}
			tx.SaveTurn(turn)
		}
	}); err != nil {
		t.Fatal(err)
	}
	list := box.View(t.Context()).TurnsIn(mailbox.TurnQueued)
	if len(list) != 500 || list[0].ID != "t0" || list[498].ID != "t498" || list[499].ID != "t501" {
		t.Errorf("%d turns, and the last is %s", len(list), list[len(list)-1].ID)
	}
}

// TestStopChat_KeepsLaterEvents covers events of a restarted chat that are stored before its stop
// is handled.
func TestStopChat_KeepsLaterEvents(t *testing.T) {
	box := newMailbox(t)
	if err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		for _, id := range []string{"before", "stop", "after"} {
			intake.Store(tx, chat(id, id))
		}
		lifecycle.StopChat(tx, tx.Entry("stop"))
	}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]mailbox.State{
		"before": mailbox.Superseded, "stop": mailbox.Stored, "after": mailbox.Stored,
	} {
		if e := box.View(t.Context()).Entry(id); e.State != want {
			t.Errorf("the event %q is %s; want %s", id, e.State, want)
		}
	}
}
