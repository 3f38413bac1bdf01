package harnesstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"hubbub/peers/agent/harness"
)

// Reference is a small C2A program, as a program in any language could be
// written: it stores each event before it accepts it, knows what it has
// answered, and obeys the policy. A test binary plays it when it is run again
// with Environ in its environment.
//
// Faults make it misbehave on purpose, in runs counted from 1:
//
//	silent:N         no answer to the first N deliveries (of all runs)
//	refuse:N         an error as answer to the first N deliveries
//	late             answers a delivery when the next one comes, the last never
//	crash:N          ends without an answer at the Nth delivery (of all runs)
//	crash-after:N    ends after it has accepted the Nth delivery
//	mute             never answers initialize
//	deaf             reads nothing after initialize
//	garbage          writes lines that are not JSON-RPC, and two of 2 MiB
//	torrent          writes 2,000 objects that are not JSON-RPC before it reads on
//	version:V        answers initialize with protocolVersion V
//	lacks:G.NAME     states every capability but this one
//	bare             states no capabilities
//	disobey          answers every event that it can see, twice, before it accepts it
//	eager            calls a tool right after it has answered initialize
//	reword           does not know what it has answered, and finds new words
//	silent-turns     accepts everything and does nothing
//	chatty           writes a line that is not JSON-RPC before each answer
//	nameless         names no event in what it sends
//	scripted         does what a scripted agent does, until the event is withdrawn
type Reference struct {
	In     io.Reader
	Out    io.Writer
	State  string   // a file that survives its runs
	Faults []string // see above

	mu      sync.Mutex
	memory  memory
	version string
	waiting map[string]chan json.RawMessage
	calls   int
	late    json.RawMessage // id of a delivery that is not answered yet
	running map[string]context.CancelFunc
	wg      sync.WaitGroup
}

// memory is what survives, beside the log of what was received: stored events
// by id, and which of them were handled.
type memory struct {
	Runs       int             `json:"runs"`
	Deliveries int             `json:"deliveries"`
	Stored     []string        `json:"stored"`
	Done       map[string]bool `json:"done"`
}

// Received is one request or notification that the program got, or, with the
// method "error", the error of an answer to nothing.
type Received struct {
	Run    int             `json:"run"`
	Method string          `json:"method"`
	ID     string          `json:"id,omitempty"`
	Params json.RawMessage `json:"params"`
}

// environment variables that turn a test binary into the reference program.
const (
	envState  = "C2A_REFERENCE_STATE"
	envFaults = "C2A_REFERENCE_FAULTS"
)

// Environ returns the environment that makes a test binary play the program.
func Environ(state string, faults ...string) map[string]string {
	return map[string]string{envState: state, envFaults: strings.Join(faults, " "), "GORACE": "atexit_sleep_ms=0"}
}

// PlayIfAsked plays the program, and ends the process, where the environment
// asks for it. Call it first in TestMain.
func PlayIfAsked() {
	state := os.Getenv(envState)
	if state == "" {
		return
	}
	r := &Reference{In: os.Stdin, Out: os.Stdout, State: state, Faults: strings.Fields(os.Getenv(envFaults))}
	if err := r.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// logSuffix names the log beside a state file: one Received a line.
const logSuffix = ".log"

// ReadState returns what a program has received in all its runs.
func ReadState(path string) ([]Received, error) {
	raw, err := os.ReadFile(path + logSuffix)
	if err != nil {
		return nil, err
	}
	var all []Received
	for line := range strings.Lines(string(raw)) {
		var one Received
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			break // it is being written
		}
		all = append(all, one)
	}
	return all, nil
}

func (r *Reference) has(fault string) bool { return slices.Contains(r.Faults, fault) }

// number returns N of a fault "name:N", 0 where it is not set.
func (r *Reference) number(name string) int {
	n := 0
	for _, f := range r.Faults {
		fmt.Sscanf(f, name+":%d", &n) //nolint:errcheck // another fault
	}
	return n
}

func (r *Reference) text(name string) string {
	for _, f := range r.Faults {
		if value, ok := strings.CutPrefix(f, name+":"); ok {
			return value
		}
	}
	return ""
}

// Run reads lines until the end of its input.
func (r *Reference) Run() error {
	r.waiting, r.running = map[string]chan json.RawMessage{}, map[string]context.CancelFunc{}
	r.memory.Done = map[string]bool{}
	if raw, err := os.ReadFile(r.State); err == nil {
		if err := json.Unmarshal(raw, &r.memory); err != nil {
			return err
		}
	}
	r.memory.Runs++
	if err := r.save(); err != nil {
		return err
	}
	defer r.wg.Wait()
	lines := bufio.NewScanner(r.In)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var f struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return fmt.Errorf("the host wrote %q: %w", lines.Text(), err)
		}
		if f.Method == "" && string(f.ID) == "null" {
			if err := r.remember(Received{Run: r.memory.Runs, Method: "error", Params: f.Error}); err != nil {
				return err
			}
			continue
		}
		if f.Method == "" {
			r.answered(strings.Trim(string(f.ID), `"`), f.Result)
			continue
		}
		if err := r.remember(Received{Run: r.memory.Runs, Method: f.Method, ID: strings.Trim(string(f.ID), `"`), Params: f.Params}); err != nil {
			return err
		}
		switch f.Method {
		case "initialize":
			r.initialize(f.ID, f.Params)
			if r.has("deaf") {
				select {}
			}
		case "chat/deliver":
			if err := r.deliver(f.ID, f.Params); err != nil {
				return err
			}
		case "notifications/cancelled":
			r.withdrawn(f.Params)
		default:
			if len(f.ID) > 0 {
				r.write(map[string]any{"id": f.ID, "error": map[string]any{"code": -32601, "message": "unknown method " + f.Method}})
			}
		}
	}
	r.mu.Lock()
	for id, c := range r.waiting {
		close(c)
		delete(r.waiting, id)
	}
	r.mu.Unlock()
	return lines.Err()
}

// remember logs what came.
func (r *Reference) remember(what Received) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(r.State+logSuffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = log.Write(append(raw, '\n'))
	return errors.Join(err, log.Close())
}

// saveLocked stores what a program knows that must survive a kill.
func (r *Reference) saveLocked() error {
	raw, err := json.Marshal(&r.memory)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.State+".partial", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(r.State+".partial", r.State)
}

func (r *Reference) write(object map[string]any) {
	object["jsonrpc"] = "2.0"
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has("chatty") {
		fmt.Fprintln(r.Out, "debug: writing an answer")
	}
	r.Out.Write(append(raw, '\n')) //nolint:errcheck // the host may be gone
}

func (r *Reference) initialize(id, params json.RawMessage) {
	if r.has("mute") {
		return
	}
	if r.has("garbage") {
		fmt.Fprintf(r.Out, "starting up...\n[1,2]\n{\"jsonrpc\":\"2.0\"}\n{\"level\":\"info\"}\n\xff\xfe\n%[1]s\n{\"id\":%[1]s\n{\"id\":\n\n", strings.Repeat("x", 2<<20))
	}
	if r.has("torrent") {
		fmt.Fprint(r.Out, strings.Repeat("{\"jsonrpc\":\"2.0\"}\n", 2000))
	}
	var p struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    map[string]map[string]bool `json:"capabilities"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		r.write(map[string]any{"id": id, "error": map[string]any{"code": -32602, "message": err.Error()}})
		return
	}
	r.version = p.ProtocolVersion
	if v := r.text("version"); v != "" {
		r.version = v
	}
	result := map[string]any{"protocolVersion": r.version, "serverInfo": map[string]any{"name": "c2a-reference", "version": "1"}}
	if !r.has("bare") {
		for _, f := range r.Faults {
			if lacking, ok := strings.CutPrefix(f, "lacks:"); ok {
				group, name, _ := strings.Cut(lacking, ".")
				delete(p.Capabilities[group], name)
			}
		}
		result["capabilities"] = p.Capabilities
	}
	r.write(map[string]any{"id": id, "result": result})
	if r.has("eager") {
		r.wg.Go(func() { r.call("chat.list_events", map[string]any{"limit": 1}) })
	}
}

// delivered is what the program reads of an event, in either draft.
type delivered struct {
	EventID      string `json:"eventId"`
	Conversation struct {
		ID string `json:"id"`
	} `json:"conversation"`
	Policy    string `json:"policy"` // 2026-06-24
	Attention struct {
		Policy string `json:"policy"`
	} `json:"attention"`
	Knock       json.RawMessage `json:"knock"`
	Reliability struct {
		IdempotencyKey string `json:"idempotencyKey"`
	} `json:"reliability"`
}

func (r *Reference) deliver(id, params json.RawMessage) error {
	var e delivered
	if err := json.Unmarshal(params, &e); err != nil {
		r.write(map[string]any{"id": id, "error": map[string]any{"code": -32602, "message": err.Error()}})
		return nil
	}
	r.mu.Lock()
	r.memory.Deliveries++
	n := r.memory.Deliveries
	known := slices.Contains(r.memory.Stored, e.EventID)
	r.mu.Unlock()
	switch {
	case n <= r.number("silent"):
		return r.save()
	case n <= r.number("refuse"):
		r.write(map[string]any{"id": id, "error": map[string]any{"code": -32000, "message": "not now"}})
		return r.save()
	case n == r.number("crash"):
		if err := r.save(); err != nil {
			return err
		}
		os.Exit(3)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	r.running[string(id)] = cancel
	if !known {
		r.memory.Stored = append(r.memory.Stored, e.EventID)
	}
	err := r.saveLocked()
	done := r.memory.Done[e.EventID] && !r.has("reword")
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if r.has("disobey") && !done { // nobody has to guess how long it takes to
		r.wg.Go(func() {
			r.work(&e)
			r.write(map[string]any{"id": id, "result": map[string]any{"accepted": true}})
		})
		return nil
	}
	if r.has("late") {
		id, r.late = r.late, id
	}
	if id != nil {
		r.write(map[string]any{"id": id, "result": map[string]any{"accepted": true}})
	}
	if n == r.number("crash-after") {
		os.Exit(3)
	}
	if !done && r.has("scripted") {
		r.wg.Go(func() { play(ctx, params, &Tools{Answer: r.answer}) })
	} else if !done {
		r.wg.Go(func() { r.work(&e) })
	}
	return nil
}

// withdrawn ends the play of an event.
func (r *Reference) withdrawn(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	json.Unmarshal(params, &p) //nolint:errcheck // then nothing has this id
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel, ok := r.running[string(p.RequestID)]; ok {
		cancel()
	}
}

func (r *Reference) save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saveLocked()
}

// work handles one event as its policy says.
func (r *Reference) work(e *delivered) {
	policy := e.Policy + e.Attention.Policy
	send := map[string]any{
		"target": e.Conversation.ID, "inReplyTo": e.EventID, "text": "heard " + e.EventID,
		"idempotencyKey": e.Reliability.IdempotencyKey, "visibility": "channel", "directedness": "ambient",
	}
	if r.has("reword") {
		r.mu.Lock()
		send["text"] = fmt.Sprintf("heard %s, take %d", e.EventID, r.calls)
		r.mu.Unlock()
	}
	if r.has("nameless") {
		send["inReplyTo"] = "evt_of_my_own"
	}
	switch {
	case r.has("silent-turns"):
	case r.has("disobey"):
		r.call("chat.send_message", send)
		send["text"], send["idempotencyKey"] = "and again", "another key"
		r.call("chat.send_message", send)
	case policy == "must_respond":
		r.write(map[string]any{"method": "notifications/progress", "params": map[string]any{"progressToken": e.EventID, "progress": 1, "total": 2, "message": "thinking"}})
		r.call("chat.send_message", send)
	case policy == "ack_only":
		r.call("chat.react", map[string]any{"inReplyTo": e.EventID, "signal": "seen"})
	case policy == "may_respond" && len(e.Knock) > 0:
		r.call("chat.read_thread", map[string]any{"conversation": e.Conversation.ID, "limit": 10})
		r.call("chat.claim", map[string]any{"eventId": e.EventID, "ttlMs": 60000})
	}
	r.mu.Lock()
	r.memory.Done[e.EventID] = true
	r.saveLocked() //nolint:errcheck // it is only asked again
	r.mu.Unlock()
}

// call calls a tool and waits for its answer.
func (r *Reference) call(name string, arguments map[string]any) json.RawMessage {
	r.mu.Lock()
	r.calls++
	id := fmt.Sprintf("call-%d-%d", r.memory.Runs, r.calls)
	answer := make(chan json.RawMessage, 1)
	r.waiting[id] = answer
	r.mu.Unlock()
	r.write(map[string]any{"id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
	return <-answer
}

func (r *Reference) answered(id string, result json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.waiting[id]; ok {
		c <- append(json.RawMessage(nil), result...)
		delete(r.waiting, id)
	}
}

// answer has the host answer a call of the script.
func (r *Reference) answer(_ context.Context, c Call) (result harness.Result, answered bool) {
	answered = json.Unmarshal(r.call(c.Name, c.Arguments), &result) == nil
	return result, answered
}
