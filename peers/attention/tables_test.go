package attention_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/peers/attention"
)

func TestSignals(t *testing.T) {
	want := map[string]string{
		"seen": "acknowledged", "agree": "acknowledged", "working": "claimed", "queued": "deferred", "claimed": "claimed",
		"done": "responded", "declined": "ignored", "blocked": "deferred", "unclear": "",
	}
	for signal, disposition := range want {
		row, err := attention.ParseSignal(signal)
		if err != nil || string(row.Disposition) != disposition {
			t.Errorf("%s gives %q, %v; want %q", signal, row.Disposition, err, disposition)
		}
	}
	if len(attention.Signals) != len(want) {
		t.Errorf("%d signals; want %d", len(attention.Signals), len(want))
	}
	if _, err := attention.ParseSignal("applause"); err == nil || !strings.Contains(err.Error(), "seen, agree") {
		t.Errorf("an unknown signal gives %v; want a list of the known ones", err)
	}
}

func TestGlyphs(t *testing.T) {
	glyphs := strings.Fields("👀 👍 🔧 🕐 ✋ ✅ 🙅 🚧 ❓")
	signals := strings.Fields("seen agree working queued claimed done declined blocked unclear")
	for i, row := range attention.Signals {
		if row.Glyph != glyphs[i] || string(row.Signal) != signals[i] {
			t.Errorf("%s means %q; want %s for %s", row.Glyph, row.Signal, glyphs[i], signals[i])
		}
	}
}

func TestDispositions(t *testing.T) {
	for _, d := range attention.Dispositions {
		open := d == attention.DispositionClaimed || d == attention.DispositionDeferred
		if d.Final() == open {
			t.Errorf("%s final = %v", d, d.Final())
		}
	}
	if attention.Disposition("").Final() {
		t.Error("no disposition is final")
	}
	if attention.PolicyMustNotRespond.May(attention.DispositionResponded) || attention.PolicyAckOnly.May(attention.DispositionResponded) ||
		!attention.PolicyMustRespond.May(attention.DispositionDeferred) || !attention.PolicyMustNotRespond.May(attention.DispositionSuperseded) {
		t.Error("a policy allows a disposition that it must not, or the other way round")
	}
}

func TestPermitMessage(t *testing.T) {
	ok := attention.ReplyContext{Known: true, Policy: attention.PolicyMustRespond}
	with := func(change func(*attention.ReplyContext)) attention.ReplyContext {
		s := ok
		change(&s)
		return s
	}
	for reason, s := range map[string]attention.ReplyContext{
		"":                 ok,
		"unknown_event":    {},
		"superseded":       with(func(s *attention.ReplyContext) { s.Disposition = attention.DispositionSuperseded }),
		"must_not_respond": with(func(s *attention.ReplyContext) { s.Policy = attention.PolicyMustNotRespond }),
		"ack_only":         with(func(s *attention.ReplyContext) { s.Policy = attention.PolicyAckOnly }),
		"already_answered": with(func(s *attention.ReplyContext) { s.Replied = true }),
		"left":             with(func(s *attention.ReplyContext) { s.Left = true }),
		"event_closed":     with(func(s *attention.ReplyContext) { s.Disposition = attention.DispositionFailed }),
		"claim_needed":     with(func(s *attention.ReplyContext) { s.ClaimNeeded = true }),
		"claimed_by_other": with(func(s *attention.ReplyContext) { s.ClaimNeeded, s.ClaimOwner = true, "agent:w4" }),
		"exchange_held":    with(func(s *attention.ReplyContext) { s.Exchange = attention.ExchangeHold }),
		"nothing_new":      with(func(s *attention.ReplyContext) { s.Repeats = true }),
	} {
		got := attention.PermitMessage(s)
		if got.Reason != reason || got.Refused() && len(got.Advice) < 20 {
			t.Errorf("permission of %+v is %+v; want %q", s, got, reason)
		}
	}
	for _, s := range []attention.ReplyContext{
		with(func(s *attention.ReplyContext) { s.ClaimNeeded, s.ClaimHeld = true, true }),
		with(func(s *attention.ReplyContext) { s.Left, s.LeaveEvent = true, true }),
		with(func(s *attention.ReplyContext) { s.Disposition = attention.DispositionDeferred }),
		with(func(s *attention.ReplyContext) { s.Disposition = attention.DispositionClaimed }),
	} {
		if got := attention.PermitMessage(s); got.Refused() {
			t.Errorf("%+v is refused: %s", s, got.Reason)
		}
	}
}

func TestPermitReaction(t *testing.T) {
	if r := attention.PermitReaction(attention.ReplyContext{Known: true, Policy: attention.PolicyAckOnly, ClaimNeeded: true}); r.Refused() {
		t.Errorf("a reaction to an acknowledgement is refused: %s", r.Reason)
	}
	if r := attention.PermitReaction(attention.ReplyContext{Known: true, Policy: attention.PolicyMustNotRespond}); r.Reason != "must_not_respond" {
		t.Errorf("a reaction to somebody else's event gives %q", r.Reason)
	}
}

func TestMeansSilence(t *testing.T) {
	for _, s := range []string{"", "  \n", "NO_REPLY", "no_reply.", "(silence)", "*stays silent*"[0:0], "[no response needed]", "...", "…", "---", "<silent>", "`NO_REPLY`", "HEARTBEAT_OK", "No response needed.", "\u200b", "SILENT", "SILENCE.", "(none)",
		"[nothing]", "*(null)*", "*silence*", "— silence —", "\"no comment\"", "```\n```"} {
		if !attention.MeansSilence(s) {
			t.Errorf("%q is sent as text", s)
		}
	}
	for _, s := range []string{"None.", "Nothing is blocked.", "👍", "?", "No", "ok", "pass", "I will not reply to that.", "Silence is golden", "Silent.", "PASS",
		"`None`", "**None**", "`null`", "\"Nothing\"", "'nothing.'", "`pass`", "_none_", "- None", "# None", "`ignored`", "`{}`", "`/`"} {
		if attention.MeansSilence(s) {
			t.Errorf("%q is taken for silence", s)
		}
	}
}

func TestIsSilentSentence(t *testing.T) {
	for text, want := range map[string]bool{
		"No action needed.": true, "**No action needed.**": true, "No reply": true, "no response.": true, "Stay silent.": true,
		"\"No comment.\"": true, "Do not respond!": true, "`No response`": true,
		"NO_REPLY": false, "no_reply": false, "NO REPLY": false, "[no reply]": false, "(No response needed.)": false,
		"<no response>": false, "HEARTBEAT OK": false, "noreply": false, "...": false, "": false, "*silence*": false,
		"(none)": false, "None needed.": false, "I see no action.": false,
	} {
		if got := attention.IsSilentSentence(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestExchange(t *testing.T) {
	start := time.Unix(0, 0)
	var x attention.Exchange
	for i := range 10 {
		if v := x.Next(start.Add(time.Duration(i) * time.Second)); v != attention.ExchangeAllow {
			t.Fatalf("message %d: %s", i+1, v)
		}
		x.Sent = append(x.Sent, start.Add(time.Duration(i)*time.Second))
	}
	if v := x.Next(start.Add(10 * time.Second)); v != attention.ExchangeEscalate {
		t.Errorf("message 11: %s; want escalate", v)
	}
	if v := x.Next(start.Add(60 * time.Second)); v != attention.ExchangeAllow {
		t.Errorf("a minute after the first: %s; want allow", v)
	}
	x.Escalated = true
	if v := x.Next(start.Add(time.Hour)); v != attention.ExchangeHold {
		t.Errorf("after the escalation: %s; want hold", v)
	}
}

// TestExchange_EndsAtAnyPace checks that messages seven seconds or a day apart end an exchange alike,
// and that an agent that only repeats itself ends it earlier.
func TestExchange_EndsAtAnyPace(t *testing.T) {
	for _, gap := range []time.Duration{7 * time.Second, 24 * time.Hour} {
		var x attention.Exchange
		now := time.Unix(0, 0)
		for range 5000 {
			if x.Next(now) == attention.ExchangeAllow {
				x.Sent = append(x.Sent, now)
			}
			now = now.Add(gap)
		}
		if len(x.Sent) != attention.ExchangeTotal-1 || x.Next(now) != attention.ExchangeEscalate {
			t.Errorf("every %s: %d messages, then %s; want 11, then one call", gap, len(x.Sent), x.Next(now))
		}
	}
	heard := []string{"Shall we go on, then?", "shall we go on then", "Shall we go on, than?", "Is the deploy blocked?"}
	if v := (attention.Exchange{Received: heard}).Next(time.Unix(0, 0)); v != attention.ExchangeEscalate {
		t.Errorf("the same three times: %s; want escalate", v)
	}
	if v := (attention.Exchange{Received: heard[1:]}).Next(time.Unix(0, 0)); v != attention.ExchangeAllow {
		t.Errorf("the same twice: %s; want allow", v)
	}
}

func TestAddsNothing(t *testing.T) {
	if !attention.IsRepeat("Agreed, let us WAIT!", []string{"x", "agreed let us wait"}) {
		t.Error("the same words are taken for new")
	}
	if !attention.IsRepeat("I fully agree with that plan!", []string{"I fully agree with this plan."}) {
		t.Error("nearly the same words are taken for new")
	}
	if attention.IsRepeat("Agreed, but step 3 fails", []string{"agreed"}) || attention.IsRepeat("👍", []string{"🙂"}) {
		t.Error("new words are taken for old")
	}
}

// TestLabels_FollowTheGrammar checks mentions by the resulting directedness.
func TestLabels_FollowTheGrammar(t *testing.T) {
	for text, want := range map[string]attention.Directedness{
		"@arc": "to_me", "@arc.main": "to_me", "@arc.dev.mini": "to_me", "@arc.profile:dev.main": "to_me", "(@arc)": "to_me", "hi,@arc!": "to_me",
		"@codex-luna": "to_other", "@lattices#codex?5.5": "to_other", "@hudson, then": "to_other",
		"mail bob@arc.dev": "ambient", "a@b": "ambient", "@": "ambient", "@arc@mini": "ambient", "x.com/@arc": "ambient", "@ arc": "ambient",
		"Compare @arc.main.profile:dev-browser with @hudson.": "to_me",
	} {
		e := attention.Event{Conversation: attention.Conversation{ID: "C", Kind: "channel"}, Author: attention.Author{ID: "1"}, Text: text}
		d := attention.Decide(e, attention.Self{ID: "agent:arc"}, attention.Facts{}, attention.Config{})
		if d.Directedness != want {
			t.Errorf("%q is %s; want %s", text, d.Directedness, want)
		}
	}
}

// TestPackage_IsPure checks that the package imports none of ours, and nothing that reads a
// clock, a file or a network.
func TestPackage_IsPure(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"cmp", "embed", "encoding/json", "fmt", "github.com/agnivade/levenshtein", "maps", "path", "regexp", "slices", "strconv", "strings", "sync", "time", "unicode", "unicode/utf8"}
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "Tick"}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if p, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, p) {
				t.Errorf("%s imports %s", name, p)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, sel.Sel.Name) {
					t.Errorf("%s calls time.%s", name, sel.Sel.Name)
				}
				// values computed once from constants are not state
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "sync" && sel.Sel.Name != "OnceValue" {
					t.Errorf("%s uses sync.%s", name, sel.Sel.Name)
				}
			}
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine", name)
			}
			return true
		})
	}
}
