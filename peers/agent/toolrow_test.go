package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
	"hubbub/protocol/redact"
)

// toolRows returns the calls of tools that were recorded.
func (w *fixture) toolRows() (list []protocol.ToolCall) {
	w.t.Helper()
	w.collect()
	for _, r := range w.records {
		if !r.is("tool") {
			continue
		}
		raw, err := json.Marshal(r)
		var c protocol.ToolCall
		if err := json.Unmarshal(raw, &c); err != nil {
			w.t.Fatal(err)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// TestToolCalls_AreOneRowEach covers our tools with every harness, and the tools of programs. A row has
// the arguments without secrets, the result's size and hash, and the event that the call served. A
// call that a program also reports is one row.
func TestToolCalls_AreOneRowEach(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	found := json.RawMessage(`{"content":[{"type":"text","text":"three"}]}`)
	s := newStub(nil)
	s.turn = func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		foreign := func(kind harness.ProgressKind, tool, id string, content json.RawMessage) {
			s.host.Progress(harness.Progress{TurnID: turn.ID, Kind: kind, Tool: tool, CallID: id, Content: content})
		}
		foreign(harness.ProgressToolCall, "search", "1", json.RawMessage(`{"q":"`+secret+`","headers":{"X-Api-Key":"hunter2"}}`))
		foreign(harness.ProgressToolResult, "", "1", found)
		foreign(harness.ProgressToolResult, "", "1", found)
		said := json.RawMessage(`{"text":"three"}`)
		foreign(harness.ProgressToolCall, "mcp__hubbub__chat_send_message", "2", said)
		r := tools.Call(ctx, "chat.send_message", said)
		raw, _ := json.Marshal(r)
		foreign(harness.ProgressToolResult, "mcp__hubbub__chat_send_message", "2", raw)
		tools.Call(ctx, "chat.react", json.RawMessage(`{"signal":"`+strings.Repeat("x", 9000)+`"}`))
		return harness.Outcome{State: harness.Finished}, nil
	}
	withFixture(t, s, &agent.Options{Redact: redact.New()}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how many?"))
		w.sleep(5 * time.Second)
		got := map[string]protocol.ToolCall{}
		rows := w.toolRows()
		for _, c := range rows {
			got[c.Tool] = c
			if c.EventID != "e1" || c.Agent != "agent:lead" || c.TurnID == "" || strings.Contains(string(c.Arguments), secret) || strings.Contains(string(c.Arguments), "hunter2") {
				t.Errorf("%+v", c)
			}
		}
		if len(rows) != 3 || len(got) != 3 {
			t.Fatalf("%d rows: %+v", len(rows), rows)
		}
		sum := sha256.Sum256(found)
		if c := got["search"]; c.ResultSHA256 != hex.EncodeToString(sum[:]) || c.ResultBytes != len(found) || c.Failed {
			t.Errorf("%+v", c)
		}
		if c := got["chat.send_message"]; string(c.Arguments) != `{"text":"three"}` || c.ResultBytes == 0 || c.Failed {
			t.Errorf("%+v", c)
		}
		if c := got["chat.react"]; !c.Failed || c.ArgumentsBytes < 9000 || len(c.Arguments) > 5000 {
			t.Errorf("%+v", fmt.Sprint(c.Failed, c.ArgumentsBytes, len(c.Arguments)))
		}
		w.wantDispositions("e1 responded")
	})
}

// TestToolCalls_OfAProgramAreRows covers asynchronous programs, too.
func TestToolCalls_OfAProgramAreRows(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		for i, p := range []harness.Progress{
			{Kind: harness.ProgressToolCall, Tool: "search", CallID: "1", Content: json.RawMessage(`{"q":1}`)},
			{Kind: harness.ProgressToolResult, CallID: "1", Content: json.RawMessage(`"cold"`)},
		} {
			if err := w.output(harness.Output{TurnID: turn, Key: fmt.Sprint("k", i), Report: &p}); err != nil {
				t.Error(err)
			}
		}
		if rows := w.toolRows(); len(rows) != 1 || rows[0].Tool != "search" || rows[0].EventID != "e1" || rows[0].ResultBytes != 6 {
			t.Errorf("%+v", rows)
		}
	})
}

// TestToolCalls_WithoutResultsDisplaceNoLaterCall covers the calls of turns that were stopped, which never
// have a result.
func TestToolCalls_WithoutResultsDisplaceNoLaterCall(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		for i := range 1001 {
			w.stub.host.Progress(harness.Progress{TurnID: turn, Kind: harness.ProgressToolCall, Tool: "wait", CallID: fmt.Sprint("w", i)})
			if i%100 == 0 {
				w.sleep(time.Second)
			}
		}
		w.stub.host.Progress(harness.Progress{TurnID: turn, Kind: harness.ProgressToolCall, Tool: "search", CallID: "1"})
		w.stub.host.Progress(harness.Progress{TurnID: turn, Kind: harness.ProgressToolResult, CallID: "1", Content: json.RawMessage(`"cold"`)})
		w.sleep(time.Second)
		if rows := w.toolRows(); len(rows) != 1 || rows[0].Tool != "search" {
			t.Errorf("%+v", rows)
		}
	})
}
