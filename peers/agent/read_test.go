package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/timetest"
)

func ids(list any, key string) []string {
	var ids []string
	for _, item := range list.([]any) {
		ids = append(ids, fmt.Sprint(item.(map[string]any)[key]))
	}
	return ids
}

func TestListEvents(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a", Streams: []string{"migration"}}, func(t *testing.T, w *fixture) {
		w.say(post("e1", "lunch?"))
		w.say(dm("e2", "hello"))
		m := post("e3", "step 4 is done")
		m.Chat.StreamID = "migration"
		w.say(m)
		w.sleep(5 * time.Second)
		later := protocol.FormatTime(time.Now())
		w.say(dm("e4", "more"))
		w.sleep(5 * time.Second)
		list := func(args map[string]any) []string {
			r, _ := call(w.tools(), "chat.list_events", args)
			return ids(r["events"], "eventId")
		}
		equal(t, "all", list(nil), []string{"e1", "e2", "e3", "e4"})
		equal(t, "of a conversation", list(map[string]any{"conversation": "C1"}), []string{"e1", "e3"})
		equal(t, "of a stream", list(map[string]any{"stream": "migration"}), []string{"e3"})
		equal(t, "of a policy", list(map[string]any{"policy": "must_respond"}), []string{"e2", "e4"})
		equal(t, "open", list(map[string]any{"open": true}), []string{"e2", "e3", "e4"})
		equal(t, "closed", list(map[string]any{"open": false}), []string{"e1"})
		equal(t, "since a time", list(map[string]any{"since": later}), []string{"e4"})
		equal(t, "the newest", list(map[string]any{"limit": 2}), []string{"e3", "e4"})
		r, _ := call(w.tools(), "chat.list_events", map[string]any{"since": 0 + 1, "limit": 2})
		equal(t, "a page", ids(r["events"], "eventId"), []string{"e2", "e3"})
		equal(t, "the next page", list(map[string]any{"since": r["next"]}), []string{"e4"})
		if _, r := call(w.tools(), "chat.list_events", map[string]any{"limit": "many"}); !strings.Contains(r.Text(), "arguments.limit must be a number, not string") {
			t.Errorf("a limit that is no number: %s", r.Text())
		}
		if _, r := call(w.tools(), "chat.list_events", map[string]any{"since": "some day"}); !r.IsError || !strings.Contains(r.Text(), "yesterday or 2 hours ago") {
			t.Errorf("a bad time gives %s", r.Text())
		}
		if _, r := call(w.tools(), "chat.nonsense", nil); !r.IsError {
			t.Error("an unknown tool is called")
		}
		if r := w.tools().Call(t.Context(), "chat.list_events", json.RawMessage(`[1]`)); !r.IsError {
			t.Error("arguments that are no object are taken")
		}
	})
}

func TestReadThread(t *testing.T) {
	withFixture(t, newStub(answering("on it")), nil, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e1", "@lead look"), "T1"))
		w.sleep(5 * time.Second)
		w.say(inThread(by(post("e2", "me too"), "78", "human"), "T1"))
		w.say(post("e3", "elsewhere"))
		w.sleep(5 * time.Second)
		r, _ := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "C1", "threadId": "T1"})
		equal(t, "thread", ids(r["messages"], "text"), []string{"@lead look", "on it", "me too"})
		equal(t, "authors", ids(r["messages"], "mine"), []string{"<nil>", "true", "<nil>"})
		r, _ = call(w.tools(), "chat.read_thread", map[string]any{"conversation": "C1", "limit": 2})
		equal(t, "conversation", ids(r["messages"], "text"), []string{"me too", "elsewhere"})
		if _, r := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "C9"}); !r.IsError {
			t.Errorf("a conversation that the agent is not in gives %s", r.Text())
		}
	})
}

func TestMention_CarriesEarlierMessages(t *testing.T) {
	withFixture(t, newStub(answering("fine")), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "the deploy is stuck\nresponse_policy: must_respond"))
		w.sleep(3 * time.Second)
		w.say(post("e2", "@lead can you look?"))
		w.sleep(5 * time.Second)
		prompt := w.stub.seen()[0].Prompt
		for _, want := range []string{"CONTEXT", "event_id: e1", "the deploy is stuck", "MESSAGE", "reply_target: channel:C1", "author: human:Will"} {
			if !strings.Contains(prompt, want) {
				t.Errorf("the prompt lacks %q:\n%s", want, prompt)
			}
		}
		system := w.stub.seen()[0].System
		if !strings.Contains(system, "C2A RESPONSE RULES") || !strings.Contains(system, "@lead") {
			t.Errorf("the system prompt is\n%s", system)
		}
	})
}

func TestDeferAndResolve_SettleTheirEvents(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a", Deadline: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "when you can"))
		w.say(by(dm("e2", "now"), "78", "human"))
		w.sleep(5 * time.Second)
		if r, _ := call(w.tools(), "chat.defer", map[string]any{"eventId": "e1", "reason": "after the deploy", "eta": "5 pm"}); r["disposition"] != "deferred" {
			t.Errorf("defer gives %v", r)
		}
		if r, _ := call(w.tools(), "chat.resolve", map[string]any{"eventId": "e2"}); r["disposition"] != "responded" {
			t.Errorf("resolve gives %v", r)
		}
		if r, _ := call(w.tools(), "chat.resolve", map[string]any{"eventId": "e2"}); r["disposition"] != "responded" {
			t.Errorf("resolving again gives %v", r)
		}
		w.sleep(5 * time.Minute)
		w.wantDispositions("e1 deferred", "e2 responded")
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "text": "now it is done"}); r["status"] != "sent" {
			t.Errorf("an answer to a deferred event gives %v", r)
		}
		w.sleep(time.Second)
		w.wantDispositions("e1 deferred", "e2 responded", "e1 responded")
		if _, r := call(w.tools(), "chat.defer", map[string]any{"eventId": "e9", "reason": "x"}); !r.IsError {
			t.Error("an unknown event is deferred")
		}
	})
}

func TestRestart_ContinuesOpenEvents(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(5 * time.Second)
		w.stop()
		w.stub = newStub(answering("after the restart"))
		w.start()
		w.sleep(5 * time.Second)
		w.wantTexts("after the restart")
		w.wantDispositions("e1 responded")
		if w.stub.seen()[0].Attempt != 2 {
			t.Errorf("attempt %d; want 2", w.stub.seen()[0].Attempt)
		}
	})
}

func TestRestart_KeepsTheComposeWindow(t *testing.T) {
	withFixture(t, newStub(answering("both")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hel"))
		w.stop()
		w.start()
		w.say(dm("e2", "lo"))
		w.sleep(5 * time.Second)
		if turns := w.stub.seen(); len(turns) != 1 || len(turns[0].Event.MergedEventIDs) != 2 {
			t.Errorf("%d turns", len(turns))
		}
	})
}

func TestReply_NamesItsEventAndThread(t *testing.T) {
	withFixture(t, newStub(answering("fine")), nil, func(t *testing.T, w *fixture) {
		m := protocol.NewMessage(protocol.TypeTGMessage, "tg:42", inThread(post("e1", "@lead?"), "7"))
		m.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		if _, err := w.tg.Peer.Send(t.Context(), "agent:lead", m); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(5 * time.Second)
		d := w.tg.NextOf(t, protocol.TypeTGReply)
		r := content[protocol.ChatReply](t, d)
		if d.Message.TraceParent != m.TraceParent || d.Message.InReplyTo != m.MessageID || r.ThreadID != "7" || r.Visibility != "thread" {
			t.Errorf("the reply is %+v, %+v", d.Message, r)
		}
		status := protocol.DeliveryStatus{MessageID: d.Message.MessageID, Status: protocol.StatusFailed, Reason: "the chat is gone", SourceID: "tg:bot:42:9"}
		w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, status)
		w.sleep(time.Second)
		last := w.records[len(w.records)-2:] // followed by the decision about the notice to the agent
		if !last[0].is("delivery") || last[0]["status"] != "failed" || last[0]["eventId"] != "e1" || last[1]["reason"] != "undelivered" {
			t.Errorf("the last records are %v", last)
		}
	})
}

func TestReply_WaitsForAnAbsentBridge(t *testing.T) {
	withFixture(t, newStub(answering("fine")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(time.Second)
		w.tg.Leave()
		w.sleep(20 * time.Second)
		w.wantDispositions()
		w.tg = w.bus.Join(t, "tg:bot", "tg:*")
		w.sleep(time.Minute)
		w.wantTexts("fine")
		w.wantDispositions("e1 responded")
	})
}

func TestChorusChannel_SeesTheActivityOfATurn(t *testing.T) {
	const key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	s := newStub(nil)
	s.turn = func(_ context.Context, turn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		s.host.Progress(harness.Progress{TurnID: turn.ID, Kind: harness.ProgressToolCall, Tool: "search", CallID: "c1", Content: json.RawMessage(`{"q":"x"}`)})
		s.host.Progress(harness.Progress{TurnID: turn.ID, Kind: harness.ProgressToolResult, Tool: "search", CallID: "c1", Content: json.RawMessage(`{"content":["` + key + `"]}`)})
		s.host.Progress(harness.Progress{TurnID: turn.ID, Kind: harness.ProgressStatus, Message: "thinking"})
		s.host.Progress(harness.Progress{TurnID: turn.ID, Kind: harness.ProgressText, Message: "no"})
		return harness.Outcome{State: harness.Finished, FinalText: "found"}, nil
	}
	withFixture(t, s, &agent.Options{Redact: redact.New()}, func(t *testing.T, w *fixture) {
		chorus := w.bus.Join(t, "chorus:gate", "chorus:*")
		chorus.SendAs(t, "chorus:inbox.c1", "agent:lead", protocol.TypeChatMessage, map[string]any{
			"text": "look it up", "sourceId": "m1", "chat": map[string]any{"id": "inbox.c1", "kind": "dm"}, "mcp": map[string]any{"url": "http://127.0.0.1:1/mcp"},
		})
		timetest.Advance(5 * time.Second)
		got := map[string]bool{}
		for chorus.Pending() > 0 {
			d := chorus.Next(t)
			var c map[string]any
			if err := d.Decode(&c); err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprint(d.Message.Type, " ", c["event"], " ", c["id"], " ", c["text"])] = true
			if strings.Contains(string(d.Message.Content), key) {
				t.Errorf("the channel is told the secret that a tool read: %s", d.Message.Content)
			}
			if c["inReplyTo"] != "m1" {
				t.Errorf("%s is to %v", d.Message.Content, c["inReplyTo"])
			}
		}
		for _, want := range []string{"agent_event tool_call c1 <nil>", "agent_event tool_result c1 <nil>", "agent_event status <nil> <nil>", "chat_reply <nil> <nil> found"} {
			if !got[want] {
				t.Errorf("the channel did not get %q but %v", want, got)
			}
		}
		if servers := s.seen()[0].MCP; len(servers) != 1 || servers[0].URL != "http://127.0.0.1:1/mcp" {
			t.Errorf("the turn has the MCP servers %v", servers)
		} else if shown := servers[0].Headers["Authorization"]; shown != "Bearer "+protocol.NewDerivedToken("secret", servers[0].URL) {
			t.Errorf("the server that a message names is shown %q; want a pass for it alone", shown)
		}
	})
}

// TestReadThread_HidesSecrets checks that a tool's answer contains earlier messages from people
// without the secrets in them.
func TestReadThread_HidesSecrets(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{Redact: redact.New()}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "the bot is 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1, keep it"))
		w.sleep(5 * time.Second)
		_, r := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "42"})
		if text := r.Text() + string(r.StructuredContent); strings.Contains(text, "AAHdq") || !strings.Contains(text, "the bot is [redacted:telegram-bot-token], keep it") {
			t.Errorf("the model reads %s", text)
		}
	})
}
