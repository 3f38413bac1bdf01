package tools

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

func TestListLimit_IsBounded(t *testing.T) {
	for asked, want := range map[pageSize]int{0: 50, -3: 50, 1: 1, 199: 199, 200: 200, 201: 200} {
		if got := clampLimit(asked); got != want {
			t.Errorf("of %d asked for, %d are listed; want %d", asked, got, want)
		}
	}
}

func TestSince_IsATimeOrANumber(t *testing.T) {
	for since, want := range map[string]struct {
		after int64
		from  string
		fails bool
	}{
		``:                       {},
		`""`:                     {},
		`17`:                     {after: 17},
		`"17"`:                   {after: 17},
		`"2026-06-02T19:10:00Z"`: {from: "2026-06-02T19:10:00Z"},
		`"some day"`:             {fails: true},
		`{}`:                     {fails: true},
		`9999999999999999999999`: {fails: true},
	} {
		after, from, problem := parseSince(json.RawMessage(since), time.UTC)
		if (problem != "") != want.fails || after != want.after {
			t.Errorf("%s is read as %d, %q", since, after, problem)
		}
		if want.from != "" && from.Format(time.RFC3339) != want.from {
			t.Errorf("%s is read as %v", since, from)
		}
	}
}

// TestReplyTarget_IsThatOfItsEvent covers all spellings with which models name it.
func TestReplyTarget_IsThatOfItsEvent(t *testing.T) {
	channel := &mailbox.Entry{Chat: "tg:-100", Content: protocol.ChatMessage{Chat: &protocol.Chat{ID: "-100", Kind: "channel"}}}
	inThread := &mailbox.Entry{Chat: "tg:-100", Content: protocol.ChatMessage{Chat: &protocol.Chat{ID: "-100", Kind: "thread", ThreadID: "7"}}}
	for _, c := range []struct {
		event  *mailbox.Entry
		target string
		want   bool
	}{
		{channel, "-100", true}, {channel, "channel:-100", true}, {channel, "tg:-100", true}, {channel, "dm:-100", false}, {channel, "7", false},
		{channel, "", false}, {channel, "thread:", false}, {channel, "-100:", false},
		{inThread, "-100", true}, {inThread, "thread:7", true}, {inThread, "-100:7", true}, {inThread, "7", true}, {inThread, "8", false},
	} {
		if sameTarget(c.event, c.target) != c.want {
			t.Errorf("%q is where the event was said: %v; want %v", c.target, !c.want, c.want)
		}
	}
}

func TestCheckMessage_NamesTheFault(t *testing.T) {
	for name, c := range map[string]struct {
		args sendArguments
		want string // part of the refusal; "" if the message is valid
	}{
		"a text":              {sendArguments{Text: "hi"}, ""},
		"the longest text":    {sendArguments{Text: strings.Repeat("x", 64<<10)}, ""},
		"a longer one":        {sendArguments{Text: strings.Repeat("x", 64<<10+1)}, "text has 65537 bytes; at most 65536"},
		"no text":             {sendArguments{}, "text is empty"},
		"blank text":          {sendArguments{Text: " \n"}, "text is empty"},
		"the longest key":     {sendArguments{Text: "hi", IdempotencyKey: strings.Repeat("k", 512)}, ""},
		"a key not in text":   {sendArguments{Text: "hi", IdempotencyKey: "k\ufffd"}, "idempotencyKey must be valid Unicode"},
		"a longer key":        {sendArguments{Text: "hi", IdempotencyKey: strings.Repeat("k", 513)}, "idempotencyKey has 513 bytes; at most 512"},
		"to some":             {sendArguments{Text: "hi", Visibility: "ephemeral", Directedness: "to_other"}, ""},
		"to whoever":          {sendArguments{Text: "hi", Visibility: "all"}, "visibility must be one of"},
		"directed at whoever": {sendArguments{Text: "hi", Directedness: "to_all"}, "directedness must be one of"},
	} {
		got := c.args.check()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}

func TestCheckDefer_ByStateAndPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		event mailbox.Status
		want  string
	}{
		"an open event":               {mailbox.Status{State: mailbox.Turned}, ""},
		"one answered":                {mailbox.Status{State: mailbox.Answered}, "already_answered"},
		"one put off four times":      {mailbox.Status{State: mailbox.Turned, Deferrals: 4}, ""},
		"one put off five times":      {mailbox.Status{State: mailbox.Turned, Deferrals: 5}, "deferred_too_often"},
		"one that is put off already": {mailbox.Status{State: mailbox.Deferred, Deferrals: 5}, ""},
	} {
		if got := permitDeferral(&mailbox.Entry{Status: c.event}); got.Reason != c.want {
			t.Errorf("%s is refused for %q; want %q", name, got.Reason, c.want)
		}
	}
	if got := permitSettle(nil); got.Reason != "unknown_event" {
		t.Errorf("no event is settled: %q", got.Reason)
	}
	for state, want := range map[mailbox.State]string{mailbox.Stored: "unknown_event", mailbox.Superseded: "superseded", mailbox.Turned: "", mailbox.Answered: ""} {
		if got := permitSettle(&mailbox.Entry{Status: mailbox.Status{State: state}}); got.Reason != want {
			t.Errorf("settling what is %s is refused for %q; want %q", state, got.Reason, want)
		}
	}
}

// TestDisposition_FitsThePolicy checks that a disposition that a policy lacks becomes the nearest
// one that it has.
func TestDisposition_FitsThePolicy(t *testing.T) {
	for _, c := range []struct {
		policy    attention.Policy
		end, want attention.Disposition
	}{
		{attention.PolicyMustRespond, attention.DispositionResponded, attention.DispositionResponded},
		{attention.PolicyAckOnly, attention.DispositionResponded, attention.DispositionAcknowledged},
		{attention.PolicyMustNotRespond, attention.DispositionResponded, attention.DispositionIgnored},
	} {
		if got := allowedDisposition(&mailbox.Entry{Decision: attention.Decision{Policy: c.policy}}, c.end); got != c.want {
			t.Errorf("%s ends a %s event as %s; want %s", c.end, c.policy, got, c.want)
		}
	}
}

// TestReply_LaterPartsAreNotASecondAnswer checks that the later parts of an answer are judged like
// the first.
func TestReply_LaterPartsAreNotASecondAnswer(t *testing.T) {
	for before, after := range map[attention.Disposition]attention.Disposition{
		attention.DispositionResponded: "", attention.DispositionFailed: "", attention.DispositionSuperseded: attention.DispositionSuperseded, "": "",
	} {
		s := attention.ReplyContext{Replied: true, LeaveEvent: true, Left: true, Disposition: before}
		continueAnswer(&s)
		if s.Replied || s.LeaveEvent || !s.Left || s.Disposition != after {
			t.Errorf("after %q it stands as %+v", before, s)
		}
	}
}
