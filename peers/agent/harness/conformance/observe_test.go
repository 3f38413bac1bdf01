package conformance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/agent/harness/conformance"
	"hubbub/peers/attention"
)

// A foreignHost is a small C2A host with a fault: it delivers a question, again if it is not
// accepted, a reaction and a knock, and grants a claim.
type foreignHost struct {
	t     *testing.T
	fault string
	lacks []string // what the program does not claim
	in    io.Writer
	lines *json.Decoder
	sent  map[string]string // message IDs by key

	deferred string // the event that the program deferred
}

type foreignFrame struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"params"`
	Result map[string]any `json:"result"`
}

func (h *foreignHost) write(format string, args ...any) {
	fmt.Fprintf(h.in, format+"\n", args...) //nolint:errcheck // the test ends if it fails
}

// await serves the program until it answers a request, or calls the tool that is named id.
func (h *foreignHost) await(id string) {
	for {
		var f foreignFrame
		if err := h.lines.Decode(&f); err != nil {
			h.t.Error(err)
			return
		}
		if f.Method == "" && f.ID == id {
			return
		}
		answer := map[string]any{}
		switch {
		case f.Method == "tools/list":
			members := map[string]any{"inReplyTo": 1, "idempotencyKey": 1, "visibility": 1, "directedness": 1}
			if h.fault == "takes no directedness" {
				delete(members, "directedness")
			}
			tools := []any{map[string]any{"name": "chat.list_events"}}
			for _, name := range []string{"read_thread", "send_message", "react", "claim", "defer", "resolve"} {
				if !slices.Contains(h.lacks, "chatTools."+name) || h.fault == "offers all" {
					tools = append(tools, map[string]any{"name": "chat." + name, "inputSchema": map[string]any{"properties": members}})
				}
			}
			answer["tools"] = tools
		case f.Method == "tools/call":
			answer = h.call(&f)
		}
		if f.Method != "notifications/message" {
			raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": f.ID, "result": answer})
			if err != nil {
				h.t.Error(err)
			}
			h.write("%s", raw)
		}
		if f.Params.Name == id {
			return
		}
	}
}

func (h *foreignHost) call(f *foreignFrame) map[string]any {
	key, _ := f.Params.Arguments["idempotencyKey"].(string)
	event, _ := f.Params.Arguments["eventId"].(string)
	refused := slices.Contains(h.lacks, strings.Replace(f.Params.Name, "chat.", "chatTools.", 1)) && h.fault != "carries all out"
	disposition := "deferred"
	switch {
	case f.Params.Arguments["visibility"] == "world" && h.fault != "shows anywhere":
		refused = true
	case f.Params.Name == "chat.defer" && h.fault == "refuses deferrals":
		refused = true
	case f.Params.Name == "chat.defer":
		h.deferred = event
		if h.fault == "forgets deferrals" {
			disposition = "ignored"
		}
	case f.Params.Name == "chat.send_message" && h.fault == "ends what is deferred" && f.Params.Arguments["inReplyTo"] == h.deferred:
		refused = true
	case f.Params.Name == "chat.send_message" && (h.sent[key] == "" || h.fault == "sends twice"):
		h.sent[key] = fmt.Sprint("msg_", len(h.sent)+1)
		if h.fault == "sends twice" {
			h.sent[fmt.Sprint(len(h.sent))] = "" // the next ID is another
		}
	}
	return map[string]any{"isError": refused, "structuredContent": map[string]any{"messageId": h.sent[key], "disposition": disposition}}
}

// deliver sends an event. members are added to its params.
func (h *foreignHost) deliver(id, event, key string, attempt int, policy, members string) {
	rules := "You are lead. Delegate. Mention nobody. Stop, wait, review. Use your tools.\\nmust_respond may_respond must_not_respond ack_only"
	switch h.fault {
	case "no rules":
		rules = "You are lead."
	case "no contract":
		rules = "must_respond may_respond must_not_respond ack_only"
	}
	kind := "dm"
	if h.fault == "odd kinds" {
		kind = "room"
	}
	h.write(`{"jsonrpc":"2.0","id":%q,"method":"chat/deliver","params":{"eventId":%q,"conversation":{"id":"c","kind":%q},"target":{"directedness":"to_me"},`+
		`"attention":{"policy":%q},"injection":{"mode":"buffered"},"reliability":{"attempt":%d,"idempotencyKey":%q},"instructions":"%s",%s}}`, id, event, kind, policy, attempt, key, rules, members)
}

// run plays the host.
func (h *foreignHost) run() {
	h.write(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2026-06-02","capabilities":{}}}`)
	h.await("init")
	redelivers := !slices.Contains(h.lacks, "delivery.redelivery")
	const text = `"content":[{"type":"text","text":"hello?"}]`
	h.deliver("d1", "e1", "k1", 1, "must_respond", text)
	if key := map[bool]string{true: "k1b", false: "k1"}[h.fault == "redelivers anew"]; redelivers || h.fault == "redelivers always" {
		h.deliver("d2", "e1", key, 2, "must_respond", text)
		h.await("d2")
		h.await("chat.send_message")
		h.await("chat.send_message")
	}
	signal := ""
	if !slices.Contains(h.lacks, "chatTools.reactionSignals") || h.fault == "signals always" {
		signal = `"signal":"agree",`
	}
	h.deliver("d3", "e2", "k2", 1, "ack_only", signal+text)
	h.await("d3")
	h.deliver("d4", "e3", "k3", 1, "may_respond", `"knock":{"topic":"a question"}`)
	h.await("d4")
	h.await("chat.claim")
	key := map[bool]string{true: "k3", false: "k3~granted"}[h.fault == "grants with the old key"]
	h.deliver("d5", "e3", key, 1, "must_respond", text)
	h.await("d5")
	if h.fault == "calls methods" {
		h.write(`{"jsonrpc":"2.0","id":"x","method":"chat/shout","params":{}}`)
	}
	h.deliver("d6", "e4", "k4", 1, "must_respond", text)
	h.await("d6")
	if h.fault == "returns with the old key" {
		h.deliver("d7", "e4", "k4", 2, "must_respond", text)
		h.await("d7")
	}
	h.deliver("d8", "e5", "k5", 1, "must_respond", text)
	h.await("d8")
	key = map[bool]string{true: "k5", false: "k5~edited"}[h.fault == "edits under the old key"]
	h.deliver("d9", "e5", key, 1, "may_respond", `"content":[{"type":"text","text":"goodbye?"}]`)
	h.await("d9")
	if cancelled := map[bool]string{true: "d99", false: "d8"}[h.fault == "cancels anything"]; !slices.Contains(h.lacks, "utilities.cancellation") || h.fault == "cancels always" {
		h.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, cancelled)
	}
	h.deliver("d10", "e6", "k6", 1, "must_not_respond", text)
	h.await("d10") // and all calls before it
}

// observe runs the program with a foreign host, and returns its last verdicts by case.
func observe(t *testing.T, fault string, lacks ...string) map[string]conformance.Verdict {
	t.Helper()
	toProgram, in, err := os.Pipe() // it has room for everything that the host says before it listens
	if err != nil {
		t.Fatal(err)
	}
	fromProgram, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer toProgram.Close()
	h := &foreignHost{t: t, fault: fault, lacks: lacks, in: in, lines: json.NewDecoder(fromProgram), sent: map[string]string{}}
	var played sync.WaitGroup
	played.Go(func() {
		h.run()
		in.Close()
		io.Copy(io.Discard, fromProgram) //nolint:errcheck // until the program ends
		fromProgram.Close()
	})
	defer played.Wait()
	defer out.Close()
	verdicts := map[string]conformance.Verdict{}
	if err := conformance.Observe(toProgram, out, &conformance.ObserveOptions{Lacks: lacks, Contract: true}, func(list []conformance.Verdict) {
		for _, v := range list {
			verdicts[v.Case] = v
		}
	}); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func TestObserve_ConformingHostPasses(t *testing.T) {
	for _, c := range []struct{ lacks, skipped []string }{
		{nil, nil},
		{[]string{"delivery.redelivery"}, nil},
		{[]string{"chatTools.reactionSignals", "chatTools.defer"}, []string{"deferred"}},
		{[]string{"utilities.logging", "utilities.cancellation"}, []string{"cancelled"}},
	} {
		for _, v := range observe(t, "", c.lacks...) {
			want := conformance.OK
			if slices.Contains(c.skipped, v.Case) {
				want = conformance.Skipped
			}
			if v.Result != want {
				t.Errorf("without %q: %+v; want %s", c.lacks, v, want)
			}
		}
	}
}

// TestObserve_FindsFaults checks that each fault fails its case and no other.
func TestObserve_FindsFaults(t *testing.T) {
	for _, c := range []struct{ fault, lacks, failed, says string }{
		{"offers all", "chatTools.defer", "tools", "is offered: true"},
		{"carries all out", "chatTools.defer", "tools", "chat.defer is carried out"},
		{"odd kinds", "", "envelope", `conversation.kind is "room"`},
		{"no rules", "", "rules", "must_respond"},
		{"no contract", "", "contract", "contract"},
		{"signals always", "chatTools.reactionSignals", "signals", `"agree"`},
		{"redelivers anew", "", "redelivery", "another key"},
		{"redelivers always", "delivery.redelivery", "redelivery", "takes no event twice"},
		{"grants with the old key", "", "granted", "the key of the knock"},
		{"any mode", "injection.buffered", "modes", `"buffered"`},
		{"edits under the old key", "", "edited", "the key of an earlier one"},
		{"refuses deferrals", "", "deferred", "a deferral is refused"},
		{"forgets deferrals", "", "deferred", `the disposition "ignored"`},
		{"ends what is deferred", "", "deferred", "the answer to the deferred event is refused"},
		{"returns with the old key", "", "deferred", "an earlier key"},
		{"takes no directedness", "", "audience", "does not take directedness"},
		{"shows anywhere", "", "audience", `"world" is sent`},
		{"cancels anything", "", "cancelled", "is no delivery"},
		{"cancels always", "utilities.cancellation", "cancelled", "takes none"},
		{"sends twice", "", "idempotent", "were sent"},
		{"calls methods", "", "known", "chat/shout"},
	} {
		var lacks []string
		if c.lacks != "" {
			lacks = append(lacks, c.lacks)
		}
		verdicts := observe(t, c.fault, lacks...)
		for _, name := range slices.Sorted(maps.Keys(verdicts)) {
			v := verdicts[name]
			switch {
			case name == c.failed && (v.Result != conformance.Failed || !strings.Contains(v.Error, c.says)):
				t.Errorf("%s: %+v; want a failure that says %q", c.fault, v, c.says)
			case name != c.failed && v.Result == conformance.Failed && (c.fault != "no rules" || name != "contract"):
				t.Errorf("%s: %+v", c.fault, v)
			}
		}
	}
}

// TestObserve_ReadsEveryDraft checks the members that each draft requires.
func TestObserve_ReadsEveryDraft(t *testing.T) {
	for _, c := range []struct{ draft, members, want string }{
		{"2026-06-24", `"addressedToMe":true,"policy":"may_respond","content":"hi"`, ""},
		{"2026-06-24", `"policy":"may_respond","content":"hi"`, "addressedToMe is missing"},
		{"2026-06-24", `"addressedToMe":true,"policy":"ack_only","content":"hi"`, `policy is "ack_only"`},
		{"2026-08-11", `"addressedToMe":true,"policy":"may_respond","content":"hi"`, "createdAt"},
		{"2026-08-11", `"addressedToMe":true,"policy":"may_respond","createdAt":"2026-08-11T00:00:00Z"`, "neither content nor a knock"},
		{"2026-06-02", `"addressedToMe":true,"policy":"may_respond","content":"hi"`, "target.directedness"},
	} {
		in := fmt.Sprintf(`{"id":"1","method":"initialize","params":{"protocolVersion":%q,"capabilities":{}}}`, c.draft) + "\n" +
			`{"id":"2","method":"chat/deliver","params":{"eventId":"e","conversation":{"id":"c","kind":"dm"},"reliability":{"attempt":1,"idempotencyKey":"k"},` + c.members + `}}`
		var got string
		if err := conformance.Observe(strings.NewReader(in), io.Discard, &conformance.ObserveOptions{Version: attention.Version(c.draft)}, func(list []conformance.Verdict) {
			got = list[3].Error
		}); err != nil {
			t.Fatal(err)
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s with %s: %q, want %q", c.draft, c.members, got, c.want)
		}
	}
}
