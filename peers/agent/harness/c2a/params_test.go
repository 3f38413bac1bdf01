package c2a

import (
	"encoding/json"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	"github.com/google/go-cmp/cmp"
)

func event() harness.Event {
	return harness.Event{
		EventID: "evt_2", MergedEventIDs: []string{"evt_1", "evt_2"}, Sequence: 42, Recipient: "agent:lead", Role: "user",
		IdempotencyKey: "evt_2:agent_lead",
		ChatEvent: harness.ChatEvent{
			CreatedAt:    "2026-06-02T19:10:00Z",
			Source:       harness.Source{Platform: "telegram", WorkspaceID: "42"},
			Conversation: harness.Conversation{ID: "C1", Kind: "thread", ThreadID: "7", StreamID: "s1", Title: "Secret title"},
			Author:       harness.Author{ID: "77", Kind: "human", DisplayName: "Will"}, Mentions: []string{"agent:lead"},
			Content: []harness.Part{{Type: "text", Text: "Can you check"}, {Type: "text", Text: "the deploy?"}},
		},
		Decision: harness.Decision{
			Directedness: "to_me", Policy: "must_respond", Reason: "mention", Priority: "normal", DeadlineMS: 300000,
			Mode: "buffered", Context: "thread_window",
		},
	}
}

func knock() harness.Event {
	e := event()
	e.Content, e.MergedEventIDs, e.Mode, e.Policy = nil, nil, "notify", "ack_only"
	e.Knock = &harness.Knock{From: "human:77", Where: "thread:7", Directedness: "to_my_role", Policy: "ack_only", Priority: "normal", Topic: "a message in a thread that you take part in", PullWith: "chat.read_thread"}
	return e
}

func TestDeliverParams(t *testing.T) {
	digest := event()
	digest.Digest, digest.Mode, digest.Policy, digest.MergedEventIDs = true, "digest", "must_not_respond", nil
	system := event()
	system.Conversation = harness.Conversation{ID: "S", Kind: "system"}
	full, knocked := event(), knock()
	photo := event()
	photo.MergedEventIDs, photo.Reason = nil, attention.ReasonEdited
	photo.Content = []harness.Part{{Type: "text"}, {Type: "file", Name: "x.jpg", Kind: "photo"}}
	for name, c := range map[string]struct {
		event   harness.Event
		version string
		want    string
	}{
		"0602 merged": {full, Version0602, `{
			"eventId":"evt_2","mergedEventIds":["evt_1","evt_2"],"source":{"platform":"telegram","workspaceId":"42"},
			"conversation":{"id":"C1","kind":"thread","streamId":"s1","threadId":"7","title":"Secret title"},
			"author":{"id":"77","kind":"human","displayName":"Will"},
			"target":{"mentions":["agent:lead"],"recipient":"agent:lead","directedness":"to_me"},
			"content":[{"type":"text","text":"Can you check"},{"type":"text","text":"the deploy?"}],
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},
			"attention":{"policy":"must_respond","reason":"mention","priority":"normal","deadlineMs":300000},
			"injection":{"mode":"buffered","context":"thread_window","role":"user"},
			"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0602 knock": {knocked, Version0602, `{
			"eventId":"evt_2","source":{"platform":"telegram","workspaceId":"42"},
			"conversation":{"id":"C1","kind":"thread","streamId":"s1","threadId":"7"},
			"author":{"id":"77","kind":"human"},
			"target":{"mentions":["agent:lead"],"recipient":"agent:lead","directedness":"to_me"},
			"knock":{"from":"human:77","where":"thread:7","directedness":"to_my_role","policy":"ack_only","priority":"normal","topic":"a message in a thread that you take part in","pullWith":"chat.read_thread"},
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},
			"attention":{"policy":"ack_only","reason":"mention","priority":"normal","deadlineMs":300000},
			"injection":{"mode":"notify","context":"thread_window","role":"user"},
			"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0624 merged": {full, Version0624, `{
			"eventId":"evt_2","mergedEventIds":["evt_1","evt_2"],"conversation":{"id":"C1","kind":"thread","threadId":"7"},
			"author":{"id":"77","kind":"human","displayName":"Will"},"addressedToMe":true,"policy":"must_respond",
			"content":"Can you check\nthe deploy?",
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0624 edited photo": {photo, Version0624, `{
			"eventId":"evt_2","conversation":{"id":"C1","kind":"thread","threadId":"7"},"edited":true,
			"author":{"id":"77","kind":"human","displayName":"Will"},"addressedToMe":true,"policy":"must_respond",
			"content":"(attached: photo)",
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0624 knock": {knocked, Version0624, `{
			"eventId":"evt_2","conversation":{"id":"C1","kind":"thread","threadId":"7"},
			"author":{"id":"77","kind":"human"},"addressedToMe":true,"policy":"must_not_respond",
			"knock":{"from":"human:77","where":"thread:7","directedness":"to_my_role","policy":"must_not_respond","priority":"normal","topic":"a message in a thread that you take part in","pullWith":"chat.read_thread"},
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0624 digest": {digest, Version0624, `{
			"eventId":"evt_2","conversation":{"id":"C1","kind":"thread","threadId":"7"},"digest":true,
			"author":{"id":"77","kind":"human","displayName":"Will"},"addressedToMe":true,"policy":"must_not_respond",
			"content":"Can you check\nthe deploy?",
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
		"0624 system": {system, Version0624, `{
			"eventId":"evt_2","mergedEventIds":["evt_1","evt_2"],"conversation":{"id":"S","kind":"channel"},
			"author":{"id":"77","kind":"human","displayName":"Will"},"addressedToMe":true,"policy":"must_not_respond",
			"content":"Can you check\nthe deploy?",
			"timing":{"createdAt":"2026-06-02T19:10:00Z","sequence":42},"reliability":{"attempt":3,"idempotencyKey":"evt_2:agent_lead"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(deliverParams(&harness.Turn{Event: c.event}, &negotiated{version: c.version}, 3))
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNegotiate(t *testing.T) {
	for name, c := range map[string]struct {
		answer  string
		version string
		notify  bool
		claim   bool
		fails   bool
	}{
		"all":             {`{"protocolVersion":"2026-06-02","capabilities":{"injection":{"notify":true},"chatTools":{"claim":{}}}}`, Version0602, true, true, false},
		"lacking":         {`{"protocolVersion":"2026-06-24","capabilities":{"injection":{"notify":false},"chatTools":{}}}`, Version0624, false, false, false},
		"nothing stated":  {`{}`, Version0602, true, true, false},
		"group left out":  {`{"capabilities":{"injection":{"buffered":true}}}`, Version0602, false, true, false},
		"another version": {`{"protocolVersion":"2030-01-01"}`, "", false, false, true},
		"no object":       {`[]`, "", false, false, true},
		"bad group":       {`{"capabilities":{"injection":3}}`, "", false, false, true},
	} {
		n, err := negotiate(Version0602, json.RawMessage(c.answer))
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (n.version != c.version || n.supportsMode("notify") != c.notify || n.mayCall("chat.claim") != c.claim || !n.mayCall("ask")) {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
