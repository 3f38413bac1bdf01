package jsonrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// far is the other side of a connection: the test reads and writes its frames.
type far struct {
	t      *testing.T
	stream jsonrpc.Stream
}

// connect runs a connection with a handler; ended gives Run's error.
func connect(t *testing.T, h jsonrpc.Handler) (c *jsonrpc.Conn, f *far, ended <-chan error) {
	t.Helper()
	near, other := wire.Pipe(nil)
	c = jsonrpc.NewConn(near, h)
	done := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { done <- c.Run() })
	t.Cleanup(func() { other.Close(wire.CloseNormal, ""); running.Wait() })
	return c, &far{t, other}, done
}

func (f *far) write(frame string) {
	f.t.Helper()
	if err := f.stream.Write([]byte(frame)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *far) read() string {
	f.t.Helper()
	frame, err := f.stream.Read()
	if err != nil {
		f.t.Fatal(err)
	}
	return string(frame)
}

func TestCall_GetsItsOwnAnswer(t *testing.T) {
	c, f, _ := connect(t, nil)
	call := func(method string) <-chan string {
		out := make(chan string, 1)
		go func() {
			result, err := c.Call(context.Background(), method, []byte(`{"a":1}`))
			if err != nil {
				result = []byte(err.Error())
			}
			out <- string(result)
		}()
		return out
	}
	first := call("one")
	if got := f.read(); got != `{"jsonrpc":"2.0","id":1,"method":"one","params":{"a":1}}` {
		t.Errorf("the request is %s", got)
	}
	second := call("two")
	f.read()
	f.write(`{"jsonrpc":"2.0","id":99,"result":"unasked"}`)
	f.write(`{"jsonrpc":"2.0","id":"1","result":"a string is no id of ours"}`)
	f.write(`{"jsonrpc":"2.0","id":2,"result":{"n":2}}`)
	f.write(`{"jsonrpc":"2.0","id":2,"result":"twice"}`)
	f.write(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":[7]}}`)
	if got := <-second; got != `{"n":2}` {
		t.Errorf("the second call: %s", got)
	}
	if got := <-first; got != "no (-32602)" {
		t.Errorf("the first call: %s", got)
	}
	for answer, want := range map[string]string{
		`"error":"no object"`:                            "unusable error in an answer",
		`"result":1,"error":{"code":1,"message":"both"}`: "unusable answer",
		`"result":1,"result":2`:                          "unusable answer",
	} {
		got := call("unusable")
		var request struct{ ID json.Number }
		if err := json.Unmarshal([]byte(f.read()), &request); err != nil {
			t.Fatal(err)
		}
		f.write(`{"jsonrpc":"2.0","id":` + request.ID.String() + `,` + answer + `}`)
		if got := <-got; !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", answer, got, want)
		}
	}
}

func TestCall_EndsWithContextAndConnection(t *testing.T) {
	c, f, ended := connect(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no longer wanted")
	results := make(chan error, 1)
	go func() { _, err := c.Call(ctx, "slow", []byte("{}")); results <- err }()
	f.read()
	cancel(why)
	if err := <-results; !errors.Is(err, why) {
		t.Errorf("a call whose context ended: %v", err)
	}
	f.write(`{"jsonrpc":"2.0","id":1,"result":"too late"}`)
	go func() { _, err := c.Call(t.Context(), "slow", []byte("{}")); results <- err }()
	f.read()
	f.stream.Close(4001, "replaced")
	if err := <-results; !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("a call whose connection ended: %v", err)
	}
	if err := <-ended; wire.CloseCode(err) != 4001 {
		t.Errorf("Run = %v; want the close code 4001", err)
	}
	if _, err := c.Call(t.Context(), "late", []byte("{}")); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestConn_AnswersRequestsButNotNotifications(t *testing.T) {
	c, f, ended := connect(t, func(c *jsonrpc.Conn, m jsonrpc.Message) {
		switch string(m.Method) {
		case "refuse":
			c.ReplyError(m.ID, &jsonrpc.Error{Code: -32000, Message: "\"no\"\n", Data: json.RawMessage(`{"why":1}`)})
		default:
			c.Reply(m.ID, []byte(`"`+string(m.Method)+`"`))
		}
	})
	for _, x := range []struct{ frame, want string }{
		{`{"jsonrpc":"2.0","id":"a\u0062","method":"echo"}`, `{"jsonrpc":"2.0","id":"a\u0062","result":"echo"}`},
		{`{"jsonrpc":"2.0","id":1.50,"method":"ec\u0068o"}`, `{"jsonrpc":"2.0","id":1.50,"result":"echo"}`},
		{`{"jsonrpc":"2.0","id":-0,"method":"refuse"}`, `{"jsonrpc":"2.0","id":-0,"error":{"code":-32000,"message":"\"no\"\n","data":{"why":1}}}`},
		{`{"jsonrpc":"2.0","method":"silent"}{`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":null,"method":"m"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":7}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`},
	} {
		f.write(`{"jsonrpc":"2.0","method":"notify"}`) // no answer may come before the next one
		f.write(x.frame)
		if got := f.read(); !strings.HasPrefix(got, x.want) {
			t.Errorf("%s\n got  %s\n want %s", x.frame, got, x.want)
		}
	}
	f.write("\xff")
	if err := <-ended; !errors.Is(err, jsonrpc.ErrNotUTF8) {
		t.Errorf("Run = %v; want ErrNotUTF8", err)
	}
	_ = c
}

func TestCalls_Table(t *testing.T) {
	var calls jsonrpc.Calls[string]
	for n, call := range []string{"a", "b", "c"} {
		if id := calls.Add(call); id != uint64(n+1) {
			t.Errorf("%s has the id %d", call, id)
		}
	}
	if call, ok := calls.Take(2); !ok || call != "b" || calls.Len() != 2 {
		t.Errorf("took %q, %t; %d wait", call, ok, calls.Len())
	}
	if _, ok := calls.Take(2); ok {
		t.Error("an id was taken twice")
	}
	var seen []uint64
	for id := range calls.All {
		seen = append(seen, id)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []uint64{1, 3}) {
		t.Errorf("waiting are %v", seen)
	}
	for range calls.All {
		break // an early end is not a fault
	}
	if all := calls.TakeAll(); len(all) != 2 || calls.Len() != 0 {
		t.Errorf("%v, %d left", all, calls.Len())
	}
	if id := calls.Add("d"); id != 4 {
		t.Errorf("an id was used again: %d", id)
	}
	for text, want := range map[string]uint64{
		"1": 1, "18446744073709551615": 1<<64 - 1, "18446744073709551616": 0, "0": 0, "01": 0, "-1": 0, "1.0": 0, `"1"`: 0, "": 0, "1e3": 0,
	} {
		if n, ok := jsonrpc.ParseCallID(jsonrpc.ID(text)); n != want && ok || ok != (want > 0) {
			t.Errorf("ParseCallID(%s) = %d, %t; want %d", text, n, ok, want)
		}
	}
}

func TestAppend(t *testing.T) {
	for got, want := range map[string]string{
		string(jsonrpc.AppendRequest(nil, 7, "m", []byte("{}"))):                `{"jsonrpc":"2.0","id":7,"method":"m","params":{}}`,
		string(jsonrpc.AppendRequestText(nil, `"x"`, "m\"", "[]")):              `{"jsonrpc":"2.0","id":"x","method":"m\"","params":[]}`,
		string(jsonrpc.AppendResult([]byte("+"), nil, []byte("1"))):             `+{"jsonrpc":"2.0","id":null,"result":1}`,
		string(jsonrpc.AppendString(nil, "a\u2028\"\x00é")):                     `"a\u2028\"\u0000é"`,
		string(jsonrpc.AppendString(nil, "not \xff UTF-8")):                     `"not \ufffd UTF-8"`,
		jsonrpc.ID(`"a\u0062"`).String() + jsonrpc.ID("1.50").String():          "ab1.50",
		jsonrpc.ID(nil).String() + jsonrpc.Unquote([]byte("7")):                 "",
		jsonrpc.Errorf(jsonrpc.CodeInternal, "disk %s", "full").Error():         "disk full (-32603)",
		(&jsonrpc.SyntaxError{Offset: 3, Reason: "a value is missing"}).Error(): "malformed JSON at byte 3: a value is missing",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestDepth_AtLimitAndPast nests arrays and objects.
func TestDepth_AtLimitAndPast(t *testing.T) {
	for depth, ok := range map[int]bool{jsonrpc.MaxDepth: true, jsonrpc.MaxDepth + 1: false, 5000: false} {
		for open, end := range map[string]string{"[": "]", `{"a":`: "}"} {
			inner := strings.Repeat(open, depth-2) + "{}" + strings.Repeat(end, depth-2) // the frame and {} are two
			m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + inner + `}`))
			var refusal *jsonrpc.Error
			if ok && err != nil || !ok && (!errors.As(err, &refusal) || refusal.Code != jsonrpc.CodeInvalidParams || m.ID.String() != "1") {
				t.Errorf("%d deep of %s: %v, id %s; want ok=%t", depth, open, err, m.ID, ok)
			}
		}
	}
}

// A limited stream reports the largest frame that the other side reads.
type limited struct {
	jsonrpc.Stream
	most int
}

func (l limited) MaxWrite() int { return l.most }

// TestCall_AtLimitOfOtherSideAndPast makes requests of the size that the other
// side reads, of one byte more, and of any size if the other side has not
// reported it.
func TestCall_AtLimitOfOtherSideAndPast(t *testing.T) {
	request := len(jsonrpc.AppendRequest(nil, 1, "m", []byte("{}")))
	for limit, ok := range map[int]bool{request: true, request - 1: false, 0: true} {
		near, other := wire.Pipe(nil)
		c := jsonrpc.NewConn(limited{near, limit}, nil)
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run() })
		running.Go(func() {
			if _, err := other.Read(); err == nil {
				_ = other.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":1}`))
			}
		})
		_, err := c.Call(t.Context(), "m", []byte("{}"))
		var large *jsonrpc.TooLargeError
		var refusal *jsonrpc.Error
		if ok && err != nil || !ok && (!errors.As(err, &large) || large.Size != request || large.Limit != limit ||
			!errors.As(err, &refusal) || refusal.Code != jsonrpc.CodeInvalidParams) {
			t.Errorf("a limit of %d for %d bytes: %v", limit, request, err)
		}
		other.Close(wire.CloseNormal, "")
		running.Wait()
	}
}
