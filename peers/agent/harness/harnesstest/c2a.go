package harnesstest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/jsonrpc"
)

// A referenceProgram is a small C2A program, as one could write it in any language. It stores
// each event before accepting it, remembers its answers, and obeys the policy. A test binary runs
// it when it is started with the environment of Environ. It panics on errors; tests see that on
// its stderr.
//
// Faults make it misbehave, in runs counted from 1:
//
//	silent:N         no answer to the first N deliveries (of all runs)
//	refuse:N         an error as answer to the first N deliveries
//	late             answers each delivery only when the next one comes
//	crash:N          ends without an answer at the Nth delivery (of all runs)
//	crash-after:N    ends after accepting the Nth delivery
//	mute             never answers initialize
//	deaf             reads nothing after initialize
//	garbage          writes lines that are not JSON-RPC, and two of 2 MiB
//	torrent          writes 2,000 objects that are not JSON-RPC before it reads on
//	version:V        answers initialize with protocolVersion V
//	lacks:G.NAME     claims every capability except this one
//	bare             claims no capabilities
//	disobey          answers every visible event twice before accepting it
//	eager            calls a tool immediately after answering initialize
//	reword           forgets its answers, and answers with another text before accepting
//	silent-turns     accepts everything and does nothing
//	chatty           writes a line that is not JSON-RPC before each answer
//	nameless         names no event in what it sends
//	scripted         acts like a scripted agent until the event is withdrawn
type referenceProgram struct {
	jsonrpc.Stream // the methods that nobody calls
	lines          *bufio.Scanner
	conn           *jsonrpc.Conn
	state          string   // path of the file with its state
	faults         []string // see above

	mu      sync.Mutex
	memory  referenceState
	late    jsonrpc.ID // of an unanswered delivery
	running map[string]context.CancelFunc
	wg      sync.WaitGroup
}

// A referenceState is the program's state, in addition to the log of received messages: the
// stored events and whether they were handled.
type referenceState struct {
	Runs       int             `json:"runs"`
	Deliveries int             `json:"deliveries"`
	Done       map[string]bool `json:"done"`
}

// Received is one request or notification that the program received. The method "error" is an
// error response without a request.
type Received struct {
	Run    int             `json:"run"`
	Method string          `json:"method"`
	ID     string          `json:"id,omitempty"`
	Params json.RawMessage `json:"params"`
}

// Environment variables that make a test binary run the reference program.
const (
	envState  = "C2A_REFERENCE_STATE"
	envFaults = "C2A_REFERENCE_FAULTS"
)

// Environ returns the environment that makes a test binary run the reference program.
func Environ(state string, faults ...string) map[string]string {
	return map[string]string{envState: state, envFaults: strings.Join(faults, " "), "GORACE": "atexit_sleep_ms=0"}
}

// RunReferenceIfAsked runs the reference program and exits, if the environment says so. Call it
// first in TestMain.
func RunReferenceIfAsked() {
	state := os.Getenv(envState)
	if state == "" {
		return
	}
	r := &referenceProgram{
		lines: bufio.NewScanner(os.Stdin), state: state, faults: strings.Fields(os.Getenv(envFaults)),
		memory: referenceState{Done: map[string]bool{}}, running: map[string]context.CancelFunc{},
	}
	r.lines.Buffer(nil, 16<<20)
	lock, err := os.OpenFile(state+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	must(err)
	must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)) // it cannot run twice at the same time
	if raw, err := os.ReadFile(state); err == nil {
		must(json.Unmarshal(raw, &r.memory))
	}
	r.memory.Runs++
	r.saveLocked()
	r.conn = jsonrpc.NewConn(r, r.handle)
	if err := r.conn.Run(); err != io.EOF { //nolint:errorlint // Read returns it as it is
		panic(err)
	}
	r.wg.Wait()
	runtime.KeepAlive(lock) // the end of the process unlocks it
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// logSuffix is the suffix of the log of a state file: one Received per line.
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
			break // the line is being written
		}
		all = append(all, one)
	}
	return all, nil
}

func (r *referenceProgram) has(fault string) bool { return slices.Contains(r.faults, fault) }

// number returns N of the fault "name:N", or 0 if it is not set.
func (r *referenceProgram) number(name string) (n int) {
	for _, f := range r.faults {
		fmt.Sscanf(f, name+":%d", &n) //nolint:errcheck // another fault
	}
	return n
}

// Read reads a line, and logs it unless it answers a call.
func (r *referenceProgram) Read() ([]byte, error) {
	if !r.lines.Scan() {
		return nil, cmp.Or(r.lines.Err(), io.EOF)
	}
	var f struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Error  json.RawMessage `json:"error"`
	}
	must(json.Unmarshal(r.lines.Bytes(), &f))
	if f.Method == "" && string(f.ID) == "null" {
		f.Method, f.ID, f.Params = "error", nil, f.Error
	}
	if f.Method != "" {
		raw, err := json.Marshal(
			Received{Run: r.memory.Runs, Method: f.Method, ID: jsonrpc.ID(f.ID).String(), Params: f.Params},
		)
		must(err)
		log, err := os.OpenFile(r.state+logSuffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(err)
		_, err = log.Write(append(raw, '\n'))
		must(err)
		must(log.Close())
	}
	return r.lines.Bytes(), nil
}

// Write writes a line.
func (r *referenceProgram) Write(frame []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has("chatty") {
		fmt.Println("debug: writing an answer")
	}
	_, err := os.Stdout.Write(append(frame, '\n'))
	return err
}

// Flush does nothing: lines are not buffered.
func (*referenceProgram) Flush() {}

// saveLocked stores the state that must survive a kill.
func (r *referenceProgram) saveLocked() {
	raw, err := json.Marshal(&r.memory)
	must(err)
	must(os.WriteFile(r.state+".partial", raw, 0o600))
	must(os.Rename(r.state+".partial", r.state))
}

func (r *referenceProgram) handle(_ *jsonrpc.Conn, m jsonrpc.Message) {
	id, params := slices.Clone(m.ID), slices.Clone(m.Params)
	switch string(m.Method) {
	case "initialize":
		r.initialize(id, params)
	case "chat/deliver":
		r.deliver(id, params)
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		must(json.Unmarshal(params, &p))
		if cancel := r.running[string(p.RequestID)]; cancel != nil {
			cancel()
		}
	default:
		if m.Kind == jsonrpc.KindRequest {
			r.conn.ReplyError(id, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "unknown method %s", m.Method))
		}
	}
}

func (r *referenceProgram) initialize(id jsonrpc.ID, params []byte) {
	var p struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    map[string]map[string]bool `json:"capabilities"`
	}
	must(json.Unmarshal(params, &p))
	result := map[string]any{
		"serverInfo":   map[string]any{"name": "c2a-reference", "version": "1"},
		"capabilities": p.Capabilities,
	}
	for _, f := range r.faults {
		switch fault, value, _ := strings.Cut(f, ":"); fault {
		case "mute":
			return
		case "garbage":
			fmt.Printf(
				"starting "+
					"up...\n[1,2]\n{\"jsonrpc\":\"2.0\"}\n{\"level\":\"info\"}\n\xff\xfe\n"+
					"%[1]s\n{\"id\":%[1]s\n{\"id\":\n\n",
				strings.Repeat("x", 2<<20),
			)
		case "torrent":
			fmt.Print(strings.Repeat("{\"jsonrpc\":\"2.0\"}\n", 2000))
		case "version":
			p.ProtocolVersion = value
		case "lacks":
			group, name, _ := strings.Cut(value, ".")
			delete(p.Capabilities[group], name)
		case "bare":
			delete(result, "capabilities")
		}
	}
	result["protocolVersion"] = p.ProtocolVersion
	raw, err := json.Marshal(result)
	must(err)
	r.conn.Reply(id, raw)
	if r.has("eager") {
		r.wg.Go(func() { r.call("chat.list_events", map[string]any{"limit": 1}) })
	}
	if r.has("deaf") {
		select {}
	}
}

// A deliveredEvent is what the program reads of an event, in any draft.
type deliveredEvent struct {
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

// key tells deliveries apart: an edit, a grant or the end of a deferral has a key of its own.
func (e *deliveredEvent) key() string { return cmp.Or(e.Reliability.IdempotencyKey, e.EventID) }

func (r *referenceProgram) deliver(id jsonrpc.ID, params []byte) {
	var e deliveredEvent
	must(json.Unmarshal(params, &e))
	r.mu.Lock()
	r.memory.Deliveries++
	n, done := r.memory.Deliveries, r.memory.Done[e.key()]
	r.memory.Done[e.key()] = done
	r.saveLocked()
	r.mu.Unlock()
	done = done && !r.has("reword")
	accept := func(id jsonrpc.ID) { r.conn.Reply(id, []byte(`{"accepted":true}`)) }
	switch {
	case n <= r.number("silent"):
		return
	case n <= r.number("refuse"):
		r.conn.ReplyError(id, jsonrpc.Errorf(-32000, "not now"))
		return
	case n == r.number("crash"):
		os.Exit(3)
	case (r.has("disobey") || r.has("reword")) && !done: // tests need not guess how long it takes
		r.wg.Go(func() {
			r.handleEvent(&e)
			accept(id)
		})
		return
	case r.has("late"):
		accept(r.late)
		r.late = id
	default:
		accept(id)
	}
	if n == r.number("crash-after") {
		os.Exit(3)
	}
	if !done && r.has("scripted") {
		ctx, cancel := context.WithCancel(context.Background())
		r.running[string(id)] = cancel
		r.wg.Go(func() { playScripted(ctx, params, &Tools{Answer: r.callHost}) })
	} else if !done {
		r.wg.Go(func() { r.handleEvent(&e) })
	}
}

// handleEvent handles one event according to its policy.
func (r *referenceProgram) handleEvent(e *deliveredEvent) {
	policy := e.Policy + e.Attention.Policy
	send := map[string]any{
		"target": e.Conversation.ID, "inReplyTo": e.EventID, "text": "heard " + e.EventID,
		"idempotencyKey": e.Reliability.IdempotencyKey, "visibility": "channel", "directedness": "ambient",
	}
	if r.has("reword") {
		send["text"] = "heard, and now I say " + rand.Text()
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
		must(r.Write(fmt.Appendf(
			nil,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":1,"total":2,"message":"thinking"}}`,
			e.EventID,
		)))
		r.call("chat.send_message", send)
	case policy == "ack_only":
		r.call("chat.react", map[string]any{"inReplyTo": e.EventID, "signal": "seen"})
	case policy == "may_respond" && len(e.Knock) > 0:
		r.call("chat.read_thread", map[string]any{"conversation": e.Conversation.ID, "limit": 10})
		r.call("chat.claim", map[string]any{"eventId": e.EventID, "ttlMs": 60000})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.Done[e.key()] = true
	r.saveLocked()
}

// call calls a tool and waits for its answer. It returns nil if the host is gone.
func (r *referenceProgram) call(name string, arguments map[string]any) []byte {
	params, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	must(err)
	result, _ := r.conn.Call(context.Background(), "tools/call", params) //nolint:errcheck // see above
	return result
}

// callHost passes a call of the scripted agent to the host.
func (r *referenceProgram) callHost(_ context.Context, c Call) (result harness.Result, answered bool) {
	answered = json.Unmarshal(r.call(c.Name, c.Arguments), &result) == nil
	return result, answered
}
