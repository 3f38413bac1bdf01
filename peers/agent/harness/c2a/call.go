package c2a

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/jsonrpc"

	"github.com/rs/zerolog"
)

// callLoop answers the program's requests one after another.
func (s *session) callLoop(ctx context.Context) {
	for f := range s.calls {
		if ctx.Err() != nil {
			return
		}
		s.handleCall(ctx, f)
	}
}

// handleCall answers one request.
func (s *session) handleCall(ctx context.Context, f *frame) {
	defer s.forgetCall(f)
	ready := s.h.supervisor.Current() == s
	tools := s.host.Tools
	switch {
	case *f.Method == "ping":
		s.answer(f.ID, map[string]any{})
	case *f.Method != "tools/list" && *f.Method != "tools/call":
		s.refuse(f.ID, jsonrpc.CodeMethodNotFound, "unknown method; call tools/list or tools/call")
	case !ready:
		s.refuse(f.ID, codeNotInitialized, "answer initialize first")
	case tools == nil:
		s.refuse(f.ID, jsonrpc.CodeMethodNotFound, "this host has no tools")
	case *f.Method == "tools/list":
		s.answer(f.ID, map[string]any{"tools": s.agreed.callableTools(tools.List())})
	default:
		s.callTool(ctx, f, tools)
	}
}

func (s *session) callTool(ctx context.Context, f *frame, tools harness.Tools) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal(f.Params, &params) != nil || params.Name == "" {
		s.refuse(f.ID, jsonrpc.CodeInvalidParams, `tools/call needs {"name","arguments"}`)
		return
	}
	arguments := params.Arguments // needs no trimming, since the whole message is valid JSON
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if arguments[0] != '{' {
		s.refuse(f.ID, jsonrpc.CodeInvalidParams, "arguments must be an object")
		return
	}
	if !s.agreed.mayCall(params.Name) {
		s.answer(f.ID,
			harness.ErrorResult("initialize did not negotiate "+params.Name+"; claim its capability to use it", nil))
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	f.cancel = cancel
	withdrawn := f.withdrawn
	s.mu.Unlock()
	if withdrawn {
		s.answer(f.ID, harness.ErrorResult(errWithdrawn.Error(), nil))
		return
	}
	event := f.event()
	ctx = harness.WithRevision(ctx, f.turn, f.revision)
	ctx = harness.WithStaleCheck(ctx, func() bool { return f.stale || s.h.isStale(event) })
	result := tools.Call(ctx, params.Name, arguments)
	if result.Content == nil {
		result.Content = []harness.Content{}
	}
	s.answer(f.ID, result)
}

// forgetCall forgets a request that was answered.
func (s *session) forgetCall(f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := string(f.ID); s.open[id] == f {
		delete(s.open, id)
	}
}

var errWithdrawn = errors.New("the harness program withdrew the call")

// handleNotification handles a notification. It ignores unknown ones.
func (s *session) handleNotification(method string, params json.RawMessage) {
	switch method {
	case "notifications/progress":
		s.progress(params)
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(params, &p) != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if f := s.open[string(p.RequestID)]; f != nil {
			f.withdrawn = true
			if f.cancel != nil {
				f.cancel(errWithdrawn)
			}
		}
	case "notifications/message":
		s.log(params)
	}
}

// logLevels maps the levels of programs to those of our log.
var logLevels = map[string]zerolog.Level{
	"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "notice": zerolog.InfoLevel, "warning": zerolog.WarnLevel,
	"error": zerolog.ErrorLevel, "critical": zerolog.ErrorLevel, "alert": zerolog.ErrorLevel,
	"emergency": zerolog.ErrorLevel,
}

// log writes a log message from the program, at its level.
func (s *session) log(params json.RawMessage) {
	var p struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	if json.Unmarshal(params, &p) != nil || s.agreed == nil || !s.agreed.has("utilities", "logging") {
		return
	}
	level, known := logLevels[strings.ToLower(p.Level)]
	if !known {
		level = zerolog.InfoLevel
	}
	s.h.opts.Log.WithLevel(level).Str("logger", redact(p.Logger)).Str("data", redact(string(p.Data))).
		Msg("harness program logged")
}

// progress passes on a progress report. Its token may be an event, request or turn ID.
func (s *session) progress(params json.RawMessage) {
	var p struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total"`
		Message  string          `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token := string(p.Token)
	var text string
	if json.Unmarshal(p.Token, &text) == nil {
		token = text
	}
	turn, _ := s.h.tokens.Get(token)
	if report := s.host.Progress; report != nil && s.h.supervisor.Current() == s &&
		s.agreed.has("utilities", "progress") {
		report(harness.Progress{
			TurnID: turn, Kind: harness.ProgressStatus, Token: token,
			Progress: p.Progress, Total: p.Total, Message: redact(p.Message),
		})
	}
}
