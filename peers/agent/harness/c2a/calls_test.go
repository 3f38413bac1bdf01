package c2a

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/subprocess"
)

// TestCall_Answers checks that a program learns what was wrong with its request. It gets tools once
// it has answered initialize, and only those that both sides agreed on.
func TestCall_Answers(t *testing.T) {
	agreed, err := negotiate(Version0602, []byte(`{"capabilities":{"chatTools":{"react":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request string
		early   bool // before initialize is answered
		without bool // tools
		want    string
		calls   int
	}{
		"a ping":                        {request: `{"id":1,"method":"ping"}`, early: true, want: `"result":{}`},
		"an unknown method":             {request: `{"id":1,"method":"tools/drop"}`, early: true, want: `-32601`},
		"a call before initialize":      {request: `{"id":1,"method":"tools/list"}`, early: true, want: `answer initialize first`},
		"a host without tools":          {request: `{"id":1,"method":"tools/list"}`, without: true, want: `this host has no tools`},
		"the list":                      {request: `{"id":1,"method":"tools/list"}`, want: `"name":"chat.react"`},
		"a call":                        {request: `{"id":1,"method":"tools/call","params":{"name":"chat.react","arguments":{"a":1}}}`, want: `"content":[`, calls: 1},
		"a call without arguments":      {request: `{"id":1,"method":"tools/call","params":{"name":"chat.react"}}`, want: `"content":[`, calls: 1},
		"a call with null":              {request: `{"id":1,"method":"tools/call","params":{"name":"chat.react","arguments":null}}`, want: `"content":[`, calls: 1},
		"a call with a list":            {request: `{"id":1,"method":"tools/call","params":{"name":"chat.react","arguments":[1]}}`, want: `arguments must be an object`},
		"a call of no name":             {request: `{"id":1,"method":"tools/call","params":{"arguments":{}}}`, want: `tools/call needs`},
		"a call without params":         {request: `{"id":1,"method":"tools/call"}`, want: `tools/call needs`},
		"a call of what was not agreed": {request: `{"id":1,"method":"tools/call","params":{"name":"chat.send_message","arguments":{}}}`, want: `did not negotiate chat.send_message`},
	} {
		s := &session{h: &Harness{supervisor: subprocess.NewSupervisor[session]()}, out: make(chan []byte, 1), agreed: agreed, open: map[string]*frame{}}
		tools := &harnesstest.Tools{Names: []string{"chat.react"}}
		if !c.without {
			s.host.Tools = tools
		}
		f, err := parseFrame([]byte(c.request))
		if err != nil {
			t.Fatal(err)
		}
		if !c.early {
			s.h.supervisor.SetCurrent(s)
		}
		s.handleCall(t.Context(), f)
		if got := string(<-s.out); !strings.Contains(got, c.want) || len(tools.Called()) != c.calls || len(s.open) > 0 {
			t.Errorf("%s is answered %s, and %d tools were called", name, got, len(tools.Called()))
		}
	}
}

// A waiting is a set of tools whose calls last until they are withdrawn.
type waiting struct{ began chan struct{} }

func (waiting) List() []harness.Tool { return []harness.Tool{{Name: "chat.react"}} }

func (w waiting) Call(ctx context.Context, _ string, _ json.RawMessage) harness.Result {
	close(w.began)
	<-ctx.Done()
	return harness.ErrorResult(context.Cause(ctx).Error(), nil)
}

func TestCall_EndsWhenWithdrawn(t *testing.T) {
	agreed, err := negotiate(Version0602, []byte(`{"capabilities":{"chatTools":{"react":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tools := waiting{make(chan struct{})}
	s := &session{h: New(nil, &Options{}), out: make(chan []byte, 1), calls: make(chan *frame, 1), agreed: agreed, open: map[string]*frame{}}
	s.host.Tools = tools
	s.h.supervisor.SetCurrent(s)
	f, err := parseFrame([]byte(`{"id":"a","method":"tools/call","params":{"name":"chat.react"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer close(s.calls)
	s.dispatch(f)
	go s.callLoop(t.Context())
	<-tools.began
	s.handleNotification("notifications/unheard-of", json.RawMessage(`{"requestId":"a"}`))
	s.handleNotification("notifications/cancelled", json.RawMessage(`[]`))
	s.handleNotification("notifications/cancelled", json.RawMessage(`{"requestId":"b"}`))
	if len(s.out) > 0 {
		t.Errorf("it ended before: %s", <-s.out)
	}
	s.handleNotification("notifications/cancelled", json.RawMessage(`{"requestId":"a"}`))
	if got := string(<-s.out); !strings.Contains(got, errWithdrawn.Error()) {
		t.Errorf("answered %s", got)
	}
}

// TestCall_MayBeWithdrawnWhileItWaits checks that a call which waits for the one before it is answered
// and not run.
func TestCall_MayBeWithdrawnWhileItWaits(t *testing.T) {
	agreed, err := negotiate(Version0602, []byte(`{"capabilities":{"chatTools":{"react":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tools := waiting{make(chan struct{})} // which can be called once
	s := &session{
		h: New(nil, &Options{}), agreed: agreed, open: map[string]*frame{},
		out: make(chan []byte, 2), calls: make(chan *frame, 1),
	}
	s.host.Tools = tools
	s.h.supervisor.SetCurrent(s)
	call := func(id string) {
		f, err := parseFrame([]byte(`{"id":` + id + `,"method":"tools/call","params":{"name":"chat.react"}}`))
		if err != nil {
			t.Fatal(err)
		}
		s.dispatch(f)
	}
	defer close(s.calls)
	call("1")
	go s.callLoop(t.Context())
	<-tools.began
	call("2")
	s.handleNotification("notifications/cancelled", json.RawMessage(`{"requestId":2}`))
	call("3") // there is no place for it
	if got := string(<-s.out); !strings.Contains(got, "too many concurrent calls") {
		t.Errorf("answered %s", got)
	}
	s.handleNotification("notifications/cancelled", json.RawMessage(`{"requestId":1}`))
	for _, id := range []string{`"id":1`, `"id":2`} {
		if got := string(<-s.out); !strings.Contains(got, errWithdrawn.Error()) || !strings.Contains(got, id) {
			t.Errorf("answered %s", got)
		}
	}
}
