package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/rs/zerolog"
)

// answering connects a program to a side that answers each request by a function.
func answering(t *testing.T, answer func(ctx context.Context, method string, params json.RawMessage) (any, *acpsdk.RequestError)) *agentProcess {
	t.Helper()
	log := zerolog.Nop()
	p := &agentProcess{
		h:        &Harness{argv: []string{"program"}, opts: Options{InitTimeout: time.Minute, Log: &log}},
		sessions: harness.NewCache[string, acpsdk.SessionId](10), turns: map[acpsdk.SessionId]*collector{},
	}
	there, here := io.Pipe()
	back, out := io.Pipe()
	p.conn = acpsdk.NewConnection(p.handleRequest, here, back)
	other := acpsdk.NewConnection(answer, out, there)
	for _, c := range []*acpsdk.Connection{p.conn, other} {
		c.SetLogger(slog.New(slog.DiscardHandler))
	}
	t.Cleanup(func() {
		here.Close()
		out.Close()
		<-p.conn.Done()
		<-other.Done()
	})
	return p
}

// TestSession_IsInAModeThatAsks checks that a session is put into a mode that asks if the program
// has one, and that a program that refuses the mode gets no session.
func TestSession_IsInAModeThatAsks(t *testing.T) {
	modes := func(current string, all ...string) *acpsdk.SessionModeState {
		s := &acpsdk.SessionModeState{CurrentModeId: acpsdk.SessionModeId(current)}
		for _, one := range all {
			s.AvailableModes = append(s.AvailableModes, acpsdk.SessionMode{Id: acpsdk.SessionModeId(one), Name: one})
		}
		return s
	}
	for name, c := range map[string]struct {
		modes   *acpsdk.SessionModeState
		refuses bool
		set     string
		says    string
	}{
		"no modes":        {nil, false, "", ""},
		"it asks":         {modes("default", "yolo", "default"), false, "", ""},
		"it reads only":   {modes("read-only", "default", "read-only"), false, "", ""},
		"it does not ask": {modes("yolo", "yolo", "read-only", "default"), false, "read-only", ""},
		"it never asks":   {modes("yolo", "yolo", "plan"), false, "", ""},
		"it refuses":      {modes("yolo", "yolo", "default"), true, "default", `putting the session into the mode "default", in which the program requests permission`},
	} {
		set, opened := "", 0
		p := answering(t, func(_ context.Context, method string, params json.RawMessage) (any, *acpsdk.RequestError) {
			switch method {
			case acpsdk.AgentMethodSessionNew:
				opened++
				return acpsdk.NewSessionResponse{SessionId: acpsdk.SessionId(fmt.Sprint("s", opened)), Modes: c.modes}, nil
			case acpsdk.AgentMethodSessionSetMode:
				var r acpsdk.SetSessionModeRequest
				_ = json.Unmarshal(params, &r)
				if set = string(r.ModeId); c.refuses {
					return nil, acpsdk.NewInternalError("no")
				}
				return acpsdk.SetSessionModeResponse{}, nil
			}
			return nil, acpsdk.NewMethodNotFound(method)
		})
		for range 2 {
			id, err := p.openSession(t.Context(), &harness.Turn{})
			if c.says == "" && (err != nil || id != "s1") || c.says != "" && (err == nil || id != "" || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %q, %v", name, id, err)
			}
		}
		if want := map[bool]int{false: 1, true: 2}[c.refuses]; set != c.set || opened != want {
			t.Errorf("%s: the mode is set to %q, and %d sessions were opened", name, set, opened)
		}
	}
}

func TestSession_ExplainsWhyItIsNotOpened(t *testing.T) {
	p := answering(t, func(context.Context, string, json.RawMessage) (any, *acpsdk.RequestError) {
		return nil, acpsdk.NewInternalError("no folder")
	})
	if _, err := p.openSession(t.Context(), &harness.Turn{}); err == nil || !strings.HasPrefix(err.Error(), "opening a session: ") {
		t.Errorf("refused: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		slow := answering(t, func(ctx context.Context, _ string, _ json.RawMessage) (any, *acpsdk.RequestError) {
			<-ctx.Done()
			return nil, acpsdk.NewInternalError("late")
		})
		for i, want := range []time.Duration{1, 2, 4, 4} { // minutes, because a program that is always ended too early never starts
			from := time.Now()
			_, err := slow.openSession(t.Context(), &harness.Turn{})
			if i == 0 && (err == nil || err.Error() != "the program did not open a session within 1m0s") || time.Since(from) != want*time.Minute {
				t.Errorf("after %v: %v", time.Since(from), err)
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		other := answering(t, func(ctx context.Context, _ string, _ json.RawMessage) (any, *acpsdk.RequestError) {
			<-ctx.Done()
			return nil, acpsdk.NewInternalError("late")
		})
		if _, err := other.openSession(soon, &harness.Turn{}); err == nil || other.h.extendedTimeout.Load() != 0 {
			t.Errorf("a turn that ended is no slow program: %v, %d", err, other.h.extendedTimeout.Load())
		}
	})
}

// TestInitialize_ChecksTheAnswer checks the program's capabilities and protocol version.
func TestInitialize_ChecksTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer  any
		refusal *acpsdk.RequestError
		says    string
	}{
		"able":            {json.RawMessage(`{"protocolVersion":1,"agentInfo":{"name":"codex-acp","version":"1"},"agentCapabilities":{"mcpCapabilities":{"http":true},"promptCapabilities":{"image":true}}}`), nil, ""},
		"of another time": {json.RawMessage(`{"protocolVersion":2}`), nil, "program speaks version 2 of the Agent Client Protocol, but this program speaks 1"},
		"refusing":        {nil, acpsdk.NewInternalError("no"), "program refused initialize: "},
		"not logged in":   {nil, &acpsdk.RequestError{Code: -32000, Message: "login"}, "log in manually once"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := answering(t, func(_ context.Context, method string, _ json.RawMessage) (any, *acpsdk.RequestError) {
				return c.answer, c.refusal
			})
			err := p.initialize(t.Context())
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil && (p.name != "codex-acp" || !p.http || !p.images) {
				t.Errorf("%s: %q, %v, %v", name, p.name, p.http, p.images)
			}
			if permanent := errors.Is(err, harness.ErrPermanent); permanent != (name == "of another time" || name == "not logged in") {
				t.Errorf("%s: %v is permanent: %v", name, err, permanent)
			}
		})
	}
}

// TestHandleRequest_AnswersOnlyPermissions checks that all other requests are refused, and that
// nothing is permitted outside of a turn.
func TestHandleRequest_AnswersOnlyPermissions(t *testing.T) {
	p := &agentProcess{h: &Harness{opts: Options{Permission: PermitReading}}, turns: map[acpsdk.SessionId]*collector{}}
	for method, c := range map[string]struct {
		params string
		code   int // of the refusal
	}{
		acpsdk.ClientMethodSessionRequestPermission: {`{"sessionId":"s"}`, -32602},
		acpsdk.ClientMethodFsReadTextFile:           {`{}`, -32601},
		acpsdk.ClientMethodTerminalCreate:           {`{}`, -32601},
	} {
		_, refusal := p.handleRequest(t.Context(), method, json.RawMessage(c.params))
		if got := deref(refusal).Code; got != c.code {
			t.Errorf("%s: %v, want %d", method, refusal, c.code)
		}
	}
	// Nothing is permitted for a turn that is not running.
	if got := p.decidePermission(t.Context(), &acpsdk.RequestPermissionRequest{SessionId: "s", Options: []acpsdk.PermissionOption{{OptionId: "once", Kind: acpsdk.PermissionOptionKindAllowOnce}}}); got.Selected != nil || got.Cancelled == nil {
		t.Errorf("a permission outside of a turn: %+v", got)
	}
}

// wordy answers every question with the same words.
type wordy struct {
	harness.Approver
	words string
	asked *string
}

func (w wordy) Ask(_ context.Context, name string, question json.RawMessage) (string, error) {
	*w.asked = name + " " + string(question)
	return w.words, nil
}

func (wordy) ReadTime(string) (time.Time, error) { return time.Time{}, errors.New("no time") }

func (wordy) Read(string) attention.Answer { return attention.AnswerOther }

// TestElicit_AsksInWords checks that the person of the turn answers a program's question, and
// that a question outside a turn is cancelled.
func TestElicit_AsksInWords(t *testing.T) {
	asked := ""
	turn := &collector{approver: wordy{words: "8080", asked: &asked}, ctx: t.Context()}
	p := &agentProcess{name: "codex-acp", h: &Harness{opts: Options{Permission: PermitReading}}, turns: map[acpsdk.SessionId]*collector{"s": turn}}
	const form = `"message":"Which port?","requestedSchema":{"type":"object","properties":{"port":{"type":"integer"}},"required":["port"]}}`
	for params, want := range map[string]string{
		`{"sessionId":"s","mode":"form",` + form: `{"action":"accept","content":{"port":8080}}`,
		`{"sessionId":"r","mode":"form",` + form: `{"action":"cancel"}`,
		`{"mode":"form",` + form:                 `{"action":"accept","content":{"port":8080}}`,
		`{"requestId":7,"mode":"form",` + form:   `{"action":"cancel"}`,
		`{"sessionId":"s","mode":"url","message":"Log in","url":"https://a.example","elicitationId":"e"}`: `{"action":"cancel"}`,
	} {
		got, refusal := p.handleRequest(t.Context(), acpsdk.ClientMethodElicitationCreate, json.RawMessage(params))
		if raw, err := json.Marshal(got); err != nil || refusal != nil || string(raw) != want {
			t.Errorf("%s: %s, %v; want %s", params, raw, refusal, want)
		}
	}
	if asked != `form:codex-acp {"asks":"Which port?","wants":["port: a whole number"]}` {
		t.Errorf("asked %s", asked)
	}
}

func TestParsePermission(t *testing.T) {
	for word, ok := range map[string]bool{"reading": true, "ask": true, "everything": true, "nothing": true, "": false, "all": false} {
		if p, known := ParsePermission(word); known != ok || string(p) != word {
			t.Errorf("%q: %q, %v", word, p, known)
		}
	}
	for _, kind := range append(slices.Clone(toolKinds), "") {
		reads := kind == "read" || kind == "search" || kind == "think" || kind == "fetch"
		for permission, want := range map[Permission]bool{PermitReading: reads, PermitAsking: reads, PermitEverything: true, PermitNothing: false} {
			if isPermitted(permission, kind, false) != want || !isPermitted(permission, kind, true) {
				t.Errorf("%s of %q: %v, want %v", permission, kind, isPermitted(permission, kind, false), want)
			}
		}
	}
}

// TestCollector_CollectsATurn checks the last text, the calls and the cost of a turn, all within
// bounds.
func TestCollector_CollectsATurn(t *testing.T) {
	var progress []harness.Progress
	fresh := func() *collector {
		progress = nil
		return &collector{calls: map[acpsdk.ToolCallId]callInfo{}, report: func(p harness.Progress) { progress = append(progress, p) }}
	}
	says := func(s string) *acpsdk.SessionUpdate {
		return &acpsdk.SessionUpdate{AgentMessageChunk: &acpsdk.SessionUpdateAgentMessageChunk{Content: acpsdk.TextBlock(s)}}
	}
	calls := func(id int, input any) *acpsdk.SessionUpdate {
		return &acpsdk.SessionUpdate{ToolCall: &acpsdk.SessionUpdateToolCall{ToolCallId: acpsdk.ToolCallId(fmt.Sprint(id)), Title: "Run", RawInput: input}}
	}
	c := fresh()
	for _, u := range []*acpsdk.SessionUpdate{says("I "), says("look. "), calls(1, "ls"), calls(2, "ls"), says(" Done. "), calls(3, strings.Repeat("x", 64<<10-2)), calls(4, strings.Repeat("x", 64<<10-1)), says("\n")} {
		c.handleUpdate(u)
	}
	c.stop, c.usage = acpsdk.StopReasonMaxTokens, &acpsdk.Usage{InputTokens: 7, OutputTokens: 5, CachedReadTokens: new(3)}
	var o harness.Outcome
	c.writeOutcome(&o)
	if want := (harness.Usage{Model: "acp", Iterations: 1, ToolCalls: 4, InputTokens: 7, OutputTokens: 5, CachedTokens: 3}); o.FinalText != "Done." || !o.Truncated || o.Usage != want {
		t.Errorf("%q, %v, %+v", o.FinalText, o.Truncated, o.Usage)
	}
	if got := len(progress[5].Content); progress[5].CallID != "3" || got != 64<<10 || string(progress[6].Content) != "null" || progress[6].Kind != harness.ProgressToolCall || progress[6].Tool != "Run" {
		t.Errorf("of the large calls is told %d bytes and %s", got, progress[6].Content)
	}
	for status, want := range map[acpsdk.ToolCallStatus]int{acpsdk.ToolCallStatusInProgress: 0, acpsdk.ToolCallStatusCompleted: 1, acpsdk.ToolCallStatusFailed: 1} {
		c := fresh()
		c.handleUpdate(&acpsdk.SessionUpdate{ToolCallUpdate: &acpsdk.SessionToolCallUpdate{ToolCallId: "1", Status: &status, RawOutput: 7}})
		if len(progress) != want || want == 1 && (progress[0].Kind != harness.ProgressToolResult || string(progress[0].Content) != "7") {
			t.Errorf("%s: %+v", status, progress)
		}
		c = fresh() // the call comes with its result
		c.handleUpdate(&acpsdk.SessionUpdate{ToolCall: &acpsdk.SessionUpdateToolCall{ToolCallId: "1", Status: status, RawOutput: 7}})
		if len(progress) != want+1 || want == 1 && (progress[1].Kind != harness.ProgressToolResult || string(progress[1].Content) != "7") {
			t.Errorf("%s: %+v", status, progress)
		}
	}
	c = fresh()
	c.handleUpdate(&acpsdk.SessionUpdate{Plan: &acpsdk.SessionUpdatePlan{Entries: []acpsdk.PlanEntry{{Status: "completed"}, {Status: "pending"}, {Status: "completed"}}}})
	if len(progress) != 1 || progress[0].Message != "plan" || progress[0].Progress != 2 || progress[0].Total != 3 {
		t.Errorf("the plan is %+v", progress)
	}
	c = fresh()
	c.handleUpdate(says(strings.Repeat("x", 256<<10)))
	c.handleUpdate(says("y"))
	o = harness.Outcome{}
	c.writeOutcome(&o)
	if len(o.FinalText) != 256<<10 || o.Truncated || o.Usage != (harness.Usage{Model: "acp", Iterations: 1}) {
		t.Errorf("%d bytes, %v, %+v", len(o.FinalText), o.Truncated, o.Usage)
	}
	c = fresh()
	for i := range 1001 {
		c.handleUpdate(calls(i, nil))
		c.handleUpdate(says("."))
	}
	if len(c.calls) != 1000 || len(c.pieces) != 256 {
		t.Errorf("%d calls and %d pieces are kept", len(c.calls), len(c.pieces))
	}
}

// TestMCPServers_AreConverted checks that servers are converted by the transports that the program
// supports, in a stable order.
func TestMCPServers_AreConverted(t *testing.T) {
	all := []harness.MCPServer{{Command: []string{"run", "a", "b"}, Env: map[string]string{"B": "2", "A": "1"}}, {Name: "web", URL: "https://a.example", Headers: map[string]string{"X": "y"}}}
	var progress []harness.Progress
	for _, http := range []bool{true, false} {
		p := &agentProcess{h: New([]string{"program"}, nil), http: http}
		p.h.Attach(harness.Host{Progress: func(p harness.Progress) { progress = append(progress, p) }})
		got, err := json.Marshal(p.mcpServers(&harness.Turn{ID: "t", MCP: all}))
		want := `[{"args":["a","b"],"command":"run","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"name":"mcp"}`
		if http {
			want += `,{"headers":[{"name":"X","value":"y"}],"name":"web","type":"http","url":"https://a.example"}`
		}
		if err != nil || canonical(t, got) != canonical(t, []byte(want+"]")) {
			t.Errorf("over HTTP %v: %s, %v", http, got, err)
		}
		if left := len(progress) == 1 && progress[0].TurnID == "t" && strings.Contains(progress[0].Message, "runs without the server web"); left == http {
			t.Errorf("over HTTP %v: told %+v", http, progress)
		}
	}
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
