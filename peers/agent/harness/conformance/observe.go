package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// ObserveOptions are the optional settings of Observe. Nil is valid.
type ObserveOptions struct {
	Version  attention.Version // to answer initialize with; default the host's
	Lacks    []string          // capabilities that the program does not claim, such as "delivery.redelivery"
	Contract bool              // the host has a broker, so each delivery must carry its contract
}

// claimable are the capabilities that the program of Observe claims.
var claimable = map[string][]string{
	"delivery":  {"ack", "redelivery", "idempotency"},
	"injection": {"immediate", "buffered", "notify", "tool_mailbox", "digest"},
	"chatTools": {"readThread", "sendMessage", "react", "reactionSignals", "claim", "defer", "resolve"},
	"utilities": {"progress", "cancellation", "logging"},
}

// Claimable returns the capabilities that the program of Observe claims, sorted.
func Claimable() (list []string) {
	for group, names := range claimable {
		for _, name := range names {
			list = append(list, group+"."+name)
		}
	}
	slices.Sort(list)
	return list
}

// toolCapabilities maps chat tools to the capability that each needs.
var toolCapabilities = map[string]string{
	"chat.read_thread": "readThread", "chat.send_message": "sendMessage", "chat.react": "react",
	"chat.claim": "claim", "chat.defer": "defer", "chat.resolve": "resolve",
}

// hostCases are the cases of Observe, in order.
var hostCases = []Verdict{
	{Case: "initialize", Title: "initialize comes first and asks for a draft"},
	{Case: "tools", Title: "only negotiated chat tools are offered, and others are refused"},
	{Case: "logging", Title: "a log line is taken, and ping is answered after it"},
	{Case: "envelope", Title: "each delivery has the required members of its draft"},
	{Case: "modes", Title: "an event comes only in a mode that the program takes"},
	{Case: "rules", Title: "each delivery carries the standing rules, which name every policy"},
	{Case: "contract", Title: "each delivery carries the collaboration contract"},
	{Case: "signals", Title: "a signal comes only to a program that takes signals"},
	{Case: "redelivery", Title: "an event that is not accepted comes again as negotiated, with the same key"},
	{Case: "granted", Title: "a claimed knock comes with its content, and a key of its own"},
	{Case: "edited", Title: "an edited event comes with its new text, and a key of its own"},
	{Case: "deferred", Title: "a deferred event can be answered later, and comes again only with a key of its own"},
	{Case: "cancelled", Title: "only what was delivered is cancelled, and only for a program that takes cancellations"},
	{Case: "audience", Title: "a message says its visibility and whom it obliges, and unknown values are refused"},
	{Case: "idempotent", Title: "a message that is sent twice with one key is sent once"},
	{Case: "known", Title: "only methods of the protocol are called"},
}

// An observer is a C2A program that checks its host.
type observer struct {
	opts     ObserveOptions
	out      *json.Encoder
	err      error // of writing
	verdicts map[string]*Verdict
	report   func([]Verdict)

	version    attention.Version
	requests   int
	answers    map[string]func(result json.RawMessage) // what to do with the answers to our requests
	deliveries map[string]string                       // events by the IDs of their chat/deliver requests, as written
	events     map[string]*observedHistory
	attempts   map[string]int // the last attempt of each key
	withheld   string         // the key of the event that is not accepted at first
	deferral   deferral
}

// An observedFrame is a line of the host.
type observedFrame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

// Observe is a C2A program that checks the host that runs it. It answers each event that must be
// answered, after it has left the first one unaccepted once. It calls report with the verdicts so
// far after each line, and returns when in ends.
func Observe(in io.Reader, out io.Writer, opts *ObserveOptions, report func([]Verdict)) error {
	o := &observer{
		out: json.NewEncoder(out), verdicts: map[string]*Verdict{}, report: report,
		answers: map[string]func(json.RawMessage){}, deliveries: map[string]string{},
		events: map[string]*observedHistory{}, attempts: map[string]int{},
	}
	if opts != nil {
		o.opts = *opts
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() && o.err == nil {
		o.handleLine(lines.Bytes())
		o.report(o.list())
	}
	if o.withheld != "" && !o.has("delivery.redelivery") {
		o.check("redelivery", nil) // it has not come again
	}
	o.report(o.list())
	return errors.Join(o.err, lines.Err())
}

// list returns the verdicts in order. A case that nothing has tested is skipped.
func (o *observer) list() (list []Verdict) {
	for _, v := range hostCases {
		v.Result, v.Error = Skipped, "nothing has tested it"
		if got := o.verdicts[v.Case]; got != nil {
			v.Result, v.Error = got.Result, got.Error
		}
		list = append(list, v)
	}
	return list
}

// check records the outcome of a case. The first failure stays.
func (o *observer) check(name string, wrong error) {
	if old := o.verdicts[name]; old != nil && old.Result == Failed {
		return
	}
	v := &Verdict{Result: OK}
	if wrong != nil {
		v.Result, v.Error = Failed, wrong.Error()
	}
	o.verdicts[name] = v
}

// has reports whether the program claims a capability.
func (o *observer) has(capability string) bool { return !slices.Contains(o.opts.Lacks, capability) }

func (o *observer) write(message map[string]any) {
	message["jsonrpc"] = "2.0"
	o.err = errors.Join(o.err, o.out.Encode(message))
}

// request calls a method of the host.
func (o *observer) request(method string, params any, then func(result json.RawMessage)) {
	o.requests++
	id := fmt.Sprintf("observe-%d", o.requests)
	o.answers[id] = then
	o.write(map[string]any{"id": id, "method": method, "params": params})
}

func (o *observer) callTool(name string, arguments map[string]any, then func(result harness.Result)) {
	o.request("tools/call", map[string]any{"name": name, "arguments": arguments}, func(raw json.RawMessage) {
		var result harness.Result
		if len(raw) == 0 || json.Unmarshal(raw, &result) != nil {
			result.IsError = true
		}
		then(result)
	})
}

func (o *observer) handleLine(line []byte) {
	var f observedFrame
	var id string
	if json.Unmarshal(line, &f) != nil {
		o.check("known", fmt.Errorf("a line is not JSON-RPC: %.80q", line))
		return
	}
	switch {
	case f.Method == "initialize":
		o.initialize(&f)
	case f.Method == "chat/deliver":
		o.deliver(&f)
	case f.Method == "notifications/cancelled":
		o.check("cancelled", o.cancelProblem(&f))
	case f.Method == "" && json.Unmarshal(f.ID, &id) == nil && o.answers[id] != nil:
		then := o.answers[id]
		delete(o.answers, id)
		then(f.Result)
	case f.Method != "" && len(f.ID) > 0:
		o.check("known", fmt.Errorf("the host called %q", f.Method))
		o.write(map[string]any{"id": f.ID, "error": map[string]any{"code": -32601, "message": "unknown method"}})
	}
}

func (o *observer) initialize(f *observedFrame) {
	var params struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    map[string]any `json:"capabilities"`
	}
	err := json.Unmarshal(f.Params, &params)
	asked, unknown := attention.ParseVersion(params.ProtocolVersion)
	switch {
	case o.version != "":
		err = errors.New("initialize came twice")
	case err == nil && unknown != nil:
		err = unknown
	case err == nil && params.Capabilities == nil:
		err = errors.New("initialize has no capabilities")
	}
	o.check("initialize", err)
	o.check("known", nil)
	if o.version = asked; o.opts.Version != "" {
		o.version = o.opts.Version
	}
	claims := map[string]map[string]bool{}
	for group, names := range claimable {
		claims[group] = map[string]bool{}
		for _, name := range names {
			claims[group][name] = o.has(group + "." + name)
		}
	}
	o.write(map[string]any{"id": f.ID, "result": map[string]any{"protocolVersion": o.version, "capabilities": claims}})
	o.write(map[string]any{
		"method": "notifications/message", "params": map[string]any{"level": "warning", "data": "a line for the log"},
	})
	o.request("ping", map[string]any{}, func(result json.RawMessage) {
		var wrong error
		if len(result) == 0 {
			wrong = errors.New("ping got an error")
		}
		o.check("logging", wrong)
	})
	o.request("tools/list", map[string]any{}, o.checkTools)
}

// checkTools checks the tools that the host offers.
func (o *observer) checkTools(result json.RawMessage) {
	var list struct {
		Tools []harness.Tool `json:"tools"`
	}
	if err := json.Unmarshal(result, &list); err != nil || len(list.Tools) == 0 {
		o.check("tools", errors.New("tools/list lists no tools"))
		return
	}
	for name, capability := range toolCapabilities {
		offered := slices.ContainsFunc(list.Tools, func(t harness.Tool) bool { return t.Name == name })
		claims := o.has("chatTools." + capability)
		if offered != claims {
			o.check("tools", fmt.Errorf("%s is offered: %t, although the program claims chatTools.%s: %t", name, offered,
				capability, claims))
		}
		if !claims {
			o.callTool(name, map[string]any{"eventId": "evt_none"}, func(result harness.Result) {
				if !result.IsError {
					o.check("tools", fmt.Errorf("%s is carried out, although it was not negotiated", name))
				}
			})
		}
	}
	o.check("tools", nil)
	if i := slices.IndexFunc(list.Tools, func(t harness.Tool) bool { return t.Name == "chat.send_message" }); i >= 0 {
		if wrong := audienceProblem(&list.Tools[i]); wrong != nil {
			o.check("audience", wrong)
		}
	}
}

// envelopeProblems finds required members that are missing or wrong.
func (o *observer) envelopeProblems(e *observedEvent) (wrong error) {
	policies := []string{"must_respond", "may_respond", "must_not_respond"}
	need := func(name, value string, allowed ...string) {
		if len(allowed) > 0 && !slices.Contains(allowed, value) || value == "" {
			wrong = errors.Join(wrong, fmt.Errorf("%s is %q", name, value))
		}
	}
	need("eventId", e.EventID)
	need("conversation.id", e.Conversation.ID)
	need("reliability.idempotencyKey", e.Reliability.IdempotencyKey)
	if len(e.Content) == 0 && len(e.Knock) == 0 {
		wrong = errors.Join(wrong, errors.New("it has neither content nor a knock"))
	}
	if o.version.Flat() {
		need("conversation.kind", e.Conversation.Kind, "dm", "channel", "thread")
		need("policy", e.Policy, policies...)
		if e.AddressedToMe == nil {
			wrong = errors.Join(wrong, errors.New("addressedToMe is missing"))
		}
		if o.version == attention.Version0811 {
			need("createdAt", e.CreatedAt)
		}
		return wrong
	}
	need("conversation.kind", e.Conversation.Kind, "dm", "channel", "thread", "system", "tool")
	need("target.directedness", e.Target.Directedness, "to_me", "to_my_role", "to_other", "ambient")
	need("attention.policy", e.Attention.Policy, append(policies, "ack_only")...)
	need("injection.mode", e.Injection.Mode, "immediate", "buffered", "notify", "tool_mailbox", "digest", "silent")
	return wrong
}

// rulesProblem finds a policy that the standing rules do not name.
func (o *observer) rulesProblem(e *observedEvent) error {
	for _, p := range []string{"must_respond", "may_respond", "must_not_respond", "ack_only"} {
		if !strings.Contains(e.Instructions, p) && (p != "ack_only" || !o.version.Flat()) {
			return fmt.Errorf("instructions do not name the policy %s", p)
		}
	}
	return nil
}

// contractProblem finds a part of the collaboration contract that is missing: who the agent is,
// how it delegates, whom it mentions, and when it stops, waits or asks for a review.
func contractProblem(instructions string) error {
	text := strings.ToLower(instructions)
	for _, word := range []string{"you are", "delegat", "mention", "stop", "wait", "review", "tools"} {
		if !strings.Contains(text, word) {
			return fmt.Errorf("instructions do not contain the contract: they say nothing of %q", word)
		}
	}
	return nil
}
