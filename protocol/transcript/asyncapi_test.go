package transcript_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"
	"hubbub/protocol/transcript"

	"github.com/google/go-cmp/cmp"
)

// asyncAPI reads the description of the wire.
func asyncAPI(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "asyncapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func at(root map[string]any, path ...string) map[string]any {
	for _, p := range path {
		root, _ = root[p].(map[string]any)
	}
	return root
}

// TestAsyncAPI_IsComplete checks the description against the tables of the protocol:
// it contains exactly the methods, types, roles and error codes.
func TestAsyncAPI_IsComplete(t *testing.T) {
	doc := asyncAPI(t)
	methods := []string{
		protocol.MethodInitialize, protocol.MethodPing, protocol.MethodProcessMessage, protocol.MethodSendMessage,
		protocol.MethodSubscribe, protocol.MethodUnsubscribe,
	}
	if diff := cmp.Diff(methods, slices.Sorted(maps.Keys(at(doc, "operations")))); diff != "" {
		t.Errorf("operations: %s", diff)
	}
	var types []string
	for _, ty := range append(slices.Clone(protocol.AllTypes), protocol.TypePresence) {
		types = append(types, string(ty))
	}
	if diff := cmp.Diff(any(types), texts(at(doc, "components", "schemas", "MessageType")["enum"])); diff != "" {
		t.Errorf("message types: %s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(types)), slices.Sorted(maps.Keys(at(doc, "x-contents")))); diff != "" {
		t.Errorf("contents: %s", diff)
	}
	var roles, want []any
	for _, r := range doc["x-roles"].([]any) {
		m := r.(map[string]any)
		roles = append(roles, []any{m["identity"], texts(m["sends"]), texts(m["receives"])})
	}
	for _, p := range protocol.Matrix {
		want = append(want, []any{p.Identity, names(p.Sends), names(p.Receives)})
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("roles: %s", diff)
	}
}

func names(types []protocol.MessageType) []string {
	var list []string
	for _, t := range types {
		list = append(list, string(t))
	}
	return list
}

func texts(v any) []string {
	var list []string
	for _, x := range v.([]any) {
		list = append(list, x.(string))
	}
	return list
}

// TestAsyncAPI_ReferencesExist follows every reference in the description.
func TestAsyncAPI_ReferencesExist(t *testing.T) {
	doc := asyncAPI(t)
	followed := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				followed++
				if _, err := (schema{root: doc}).resolve(ref); err != nil {
					t.Error(err)
				}
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(doc)
	if followed < 50 {
		t.Errorf("only %d references", followed)
	}
}

// contents are values of every content, filled with something in each field.
var contents = map[string]any{
	"SpawnRequest": &protocol.SpawnRequest{}, "SpawnResult": &protocol.SpawnResult{Status: protocol.SpawnFailed},
	"RouteAssigned": &protocol.RouteAssigned{}, "Configure": &protocol.Configure{},
	"ChatMessage":    &protocol.ChatMessage{Event: protocol.EventEdit, Priority: "urgent", Chat: &protocol.Chat{Kind: "dm"}, Author: &protocol.Author{Kind: "human"}},
	"ChatReply":      &protocol.ChatReply{},
	"DeliveryStatus": &protocol.DeliveryStatus{Status: protocol.StatusUnknown},
	"AgentOnline":    &protocol.AgentOnline{Event: "online"}, "AttentionDecision": &protocol.AttentionDecision{Event: "attention_decision"},
	"Disposition": &protocol.Disposition{Event: "disposition"}, "Refusal": &protocol.Refusal{Event: "refusal"}, "ToolCall": &protocol.ToolCall{Event: "tool", Arguments: json.RawMessage("{}")},
	"CollabRequest": &protocol.CollabRequest{}, "CollabResult": &protocol.CollabResult{Error: &protocol.CollabError{Code: "conflict"}},
	"CollabEvent": &protocol.CollabEvent{Type: "collab.x"}, "Presence": &protocol.Presence{State: protocol.PresenceJoined},
	"SendResult": &protocol.SendResult{
		Accepted: true, Addressee: protocol.AddresseeOK,
		Failures: []protocol.Failure{{Status: protocol.OutcomeTimeout}},
	},
	"ProcessResult": &protocol.ProcessResult{}, "InitializeResult": &protocol.InitializeResult{},
	"Message": &protocol.Message{Type: protocol.TypeConfigure, Timestamp: "2026-02-17T12:00:00Z"},
}

// TestAsyncAPI_HasOurContents fills every field of the contents that our
// programs send: each must be in the description, and fit it.
func TestAsyncAPI_HasOurContents(t *testing.T) {
	doc := asyncAPI(t)
	for name, value := range contents {
		fill(reflect.ValueOf(value).Elem())
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		v, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		s, err := (schema{root: doc}).resolve("#/components/schemas/" + name)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := s.check(name, v); err != nil {
			t.Error(err)
		}
		described := at(s.node, "properties")
		for field := range v.(map[string]any) {
			if described[field] == nil {
				t.Errorf("%s has a field %s that is not described", name, field)
			}
		}
	}
}

// fill gives every empty field of a struct a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case reflect.Slice:
		switch {
		case v.Type() == reflect.TypeFor[json.RawMessage]():
			v.SetBytes([]byte(`{"x":1}`))
		case v.Len() == 0:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fallthrough
		default:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		}
	case reflect.String:
		if v.String() == "" {
			v.SetString("x")
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	}
}

// A tap keeps what travels over a connection.
type tap struct {
	transcript.Conn
	t      *testing.T
	doc    map[string]any
	mu     sync.Mutex
	asked  map[string]string         // method of each request of ours, by id
	sent   map[string]map[string]any // the request itself
	frames chan []byte
	counts *sync.Map
}

func (c *tap) Send(frame []byte, binary bool) error {
	if v, err := decode(frame); err == nil {
		if m, ok := v.(map[string]any); ok && m["method"] != nil {
			c.mu.Lock()
			id := fmt.Sprintf("%T %v", m["id"], m["id"])
			c.asked[id], _ = m["method"].(string)
			c.sent[id] = m
			c.mu.Unlock()
		}
	}
	return c.Conn.Send(frame, binary)
}

func (c *tap) Frames() <-chan []byte { return c.frames }

// watch checks every frame of the bus, and with each result the request that it
// answers: what the bus accepts must fit the description.
func (c *tap) watch() {
	defer close(c.frames)
	for frame := range c.Conn.Frames() {
		if err := c.checkFrame(frame); err != nil {
			c.t.Errorf("%v\n%s", err, frame[:min(len(frame), 500)])
		}
		c.frames <- frame
	}
}

func (c *tap) checkFrame(frame []byte) error {
	v, err := decode(frame)
	if err != nil {
		return err
	}
	m := v.(map[string]any)
	if method, ok := m["method"].(string); ok {
		return c.fits(method, m)
	}
	if m["error"] != nil {
		return c.fits("error", m)
	}
	id := fmt.Sprintf("%T %v", m["id"], m["id"])
	c.mu.Lock()
	method, request := c.asked[id], c.sent[id]
	c.mu.Unlock()
	if err := c.fits(method, request); err != nil {
		return fmt.Errorf("the bus accepted what is not described: %w", err)
	}
	return c.fits(method+"Result", m)
}

func (c *tap) fits(message string, v any) error {
	s, err := (schema{root: c.doc}).resolve("#/components/messages/" + message + "/payload")
	if err != nil {
		return err
	}
	c.counts.Store(message, true)
	return s.check(message, v)
}

// TestTranscripts_FitAsyncAPI runs every transcript against a bus and compares
// what travels with the description.
func TestTranscripts_FitAsyncAPI(t *testing.T) {
	doc := asyncAPI(t)
	cases, err := transcript.Load(protocol.Transcripts)
	if err != nil {
		t.Fatal(err)
	}
	var counts sync.Map
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			b := bustest.Start(t, nil)
			var watching sync.WaitGroup
			err := c.Run(t.Context(), func(ctx context.Context) (transcript.Conn, error) {
				conn, err := transcript.WebSocket(b.URL(), "")(ctx)
				if err != nil {
					return nil, err
				}
				w := &tap{Conn: conn, t: t, doc: doc, asked: map[string]string{}, sent: map[string]map[string]any{}, frames: make(chan []byte, 4096), counts: &counts}
				watching.Go(w.watch)
				return w, nil
			})
			if err != nil {
				t.Error(err)
			}
			b.Stop()
			watching.Wait()
		})
	}
	for message := range at(doc, "components", "messages") {
		if _, seen := counts.Load(message); !seen && !strings.HasPrefix(message, "processMessageResult") {
			t.Errorf("no transcript shows %s", message)
		}
	}
}
