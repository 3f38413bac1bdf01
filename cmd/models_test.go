package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A malformedModel is the endpoint of a model that answers as the message asks, in the formats of
// real endpoints. It counts requests that report an earlier error.
type malformedModel struct {
	edited  chan struct{} // closed when the message that "wait" holds is edited
	began   chan struct{} // gets a value when "wait" reaches the model
	mu      sync.Mutex
	doubled string // a request whose tools are not the chat's and that of the server, once each
	hinted  int
	noTools int // requests without tools
}

// events writes a stream of events.
func events(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

// piece returns one event of a stream, without finish reason.
func piece(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// ended returns the last event of a stream.
func ended(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// lookCall calls the tool of an MCP server.
var lookCall = []string{piece(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"files__look","arguments":"{}"}}]}`), "[DONE]"}

// A forgetfulServer is an MCP server with one tool, whose pages all name the same next page. It forgets
// its sessions after the first call.
type forgetfulServer struct {
	calls atomic.Int64
	inner atomic.Pointer[mcp.StreamableHTTPHandler]
}

func (s *forgetfulServer) begin() {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		n := s.calls.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("looked ", n)}}}, nil, nil
	})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if list, ok := r.GetParams().(*mcp.ListToolsParams); ok {
				list.Cursor = ""
			}
			result, err := next(ctx, method, r)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				list.NextCursor = "more"
			}
			return result, err
		}
	})
	s.inner.Store(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}

func (s *forgetfulServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inner.Load().ServeHTTP(w, r)
}

const sendsHello = `"name":"chat_send_message","arguments":`

// answers are the answers to messages by name, and how the chat shows them.
var answers = []struct {
	name, shown string
	events      []string // of a stream
	body        string   // defaults to a whole answer
}{
	{"no finish_reason", "It is 1.", []string{piece(`{"content":"It is 1."}`), "[DONE]"}, ""},
	{"content in parts", "It is 2.", []string{piece(`{"content":[{"type":"text","text":"It is "},{"type":"thinking","thinking":"hm"},{"type":"text","text":"2."}]}`), "[DONE]"}, ""},
	{"arguments as an object", "It is 3.", []string{piece(`{"tool_calls":[{"index":0,"id":"c","function":{` + sendsHello + `{"text":"It is 3."}}}]}`), "[DONE]"}, ""},
	{"names in each delta", "It is 4.", []string{
		piece(`{"tool_calls":[{"index":0,"id":"c","function":{` + sendsHello + `"{\"text\":"}}]}`),
		piece(`{"tool_calls":[{"index":0,"id":"c","function":{` + sendsHello + `"\"It is 4.\"}"}}]}`), "[DONE]",
	}, ""},
	{"legacy function_call", "It is 5.", nil, `{"choices":[{"message":{"role":"assistant","content":null,"function_call":{` + sendsHello + `"{\"text\":\"It is 5.\"}"}},"finish_reason":"function_call"}]}`},
	{"a thought first", "It is 6.", nil, `{"choices":[{"message":{"content":"<think>\nINNER\n</think>\n\nIt is 6."}}]}`},
	{"a harmony", "It is 7.", nil, `{"choices":[{"message":{"content":"<|channel|>analysis<|message|>INNER<|end|><|start|>assistant<|channel|>final<|message|>It is 7.<|return|>"}}]}`},
	{"a call as text", "I was told.", nil, `{"choices":[{"message":{"content":"{\"name\":\"chat_send_message\",\"parameters\":{\"text\":\"INNER\"}}"}}]}`},
	{"a copy of the prompt", "I was told.", nil, `{"choices":[{"message":{"content":"C2A EVENT\nevent_id: INNER\nresponse_policy: must_respond\n"}}]}`},
	{"a thought cut", "I was told.", nil, `{"choices":[{"message":{"content":"<think>INNER and"}}]}`},
	{"cut in the arguments", "It is shorter.", []string{piece(`{"tool_calls":[{"index":0,"id":"c","function":{` + sendsHello + `"{\"text\":\"INNER an"}}]}`), ended("length"), "[DONE]"}, ""},
	{"cut before the text", "It is shorter.", []string{piece(`{"tool_calls":[{"index":0,"id":"c","function":{` + sendsHello + `"{\"inReply"}}]}`), ended("MAX_TOKENS"), "[DONE]"}, ""},
	{"cut in a thought", "It is shorter.", []string{piece(`{"content":"<think>INNER and"}`), ended("length"), "[DONE]"}, ""},
	{"cut in a fence", "It is shorter.", nil, `{"choices":[{"message":{"content":"` + "```json" + `\n{\"name\":\"chat_send_message\",\"arguments\":{\"text\":\"INNER"},"finish_reason":"length"}]}`},
	{"cut, said to be called", "It is shorter.", nil, `{"choices":[{"message":{"tool_calls":[{"id":"c","function":{` + sendsHello + `"{\"text\":\"INNER an"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":4096}}`},
	{"cut in the text", "One, two\n\n[The model's answer was cut here: it reached its maximum length.]", nil, `{"choices":[{"message":{"content":"One, two"},"finish_reason":"model_length"}]}`},
	{"a tool", "looked 1", lookCall, ""},
	{"the tool of a server that was started again", "looked 2", lookCall, ""},
	{"the tool again", "looked 3", lookCall, ""},
	{"nothing but thoughts", "I could not answer this message. Please send it again, or ask somebody else.", nil, `{"choices":[{"message":{"content":"[THINK]INNER[/THINK]"}}]}`},
	{"a page", "I'm misconfigured and can't answer: my model isn't at the configured address. Please tell whoever runs me; sending this again won't help.", nil, "<html>Sign in</html>"},
	{"another API", "I'm misconfigured and can't answer: my model isn't at the configured address. Please tell whoever runs me; sending this again won't help.", nil, `{"model":"m","message":{"role":"assistant","content":"INNER"},"done":true}`},
	{"a filter", "My model's provider withheld its answer to this. Rephrasing may help.", nil, `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`},
	{"no tools", "It is without tools.", nil, `{"choices":[{"message":{"content":"It is without tools."}}]}`}, // the last case: later requests have no tools
}

func (s *malformedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var q struct {
		Messages []struct{ Role, Content string }
		Tools    []struct{ Function struct{ Name string } }
	}
	if err != nil || json.Unmarshal(raw, &q) != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	prompt, fresh := "", len(q.Messages) > 0 && q.Messages[len(q.Messages)-1].Role == "user"
	for _, m := range q.Messages {
		if m.Role == "user" {
			prompt = m.Content
		}
	}
	said := promptText(prompt)
	hinted := strings.Contains(prompt, "last_try: What you wrote holds only")
	s.mu.Lock()
	if hinted {
		s.hinted++
	}
	if len(q.Tools) == 0 {
		s.noTools++
	} else if n := strings.Count(string(raw), `"name":"files__look","parameters"`) + strings.Count(string(raw), `"name":"chat_send_message","parameters"`); n != 2 {
		s.doubled = string(raw)
	}
	s.mu.Unlock()
	whole := func(text string) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": "stop"}}}) // the agent may be gone
	}
	if strings.Contains(said, "wait for the") {
		if strings.Contains(said, "old words") {
			s.began <- struct{}{}
			<-s.edited // the client may have gone
		}
		whole("I read the " + strings.Fields(said[strings.Index(said, "wait for the ")+len("wait for the "):])[0] + " words.")
		return
	}
	if strings.Contains(prompt, "Your output reached its limit of ") {
		whole("It is shorter.")
		return
	}
	for _, a := range answers {
		switch {
		case !strings.Contains(said, "answer: "+a.name+"\n"):
		case !fresh && strings.HasPrefix(q.Messages[len(q.Messages)-1].Content, "looked "):
			whole(q.Messages[len(q.Messages)-1].Content)
		case !fresh: // the answer came from a tool
			whole("")
		case a.name == "no tools" && len(q.Tools) > 0:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"sloppy does not support tools"}}`) // the agent may be gone
		case hinted && a.shown == "I was told.":
			whole(a.shown)
		case a.events != nil:
			events(w, a.events...)
		default:
			_, _ = io.WriteString(w, a.body) // the server detects its type
		}
	}
}

// TestModels_MalformedAnswers checks answers in the formats of many vendors, through agent, bus
// and bridge. The chat shows each answer once, never malformed ones, and an honest message if
// there is no answer. If a message is edited during the turn, only its new text is answered.
func TestModels_MalformedAnswers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &malformedModel{edited: make(chan struct{}), began: make(chan struct{}, 8)}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	files := new(forgetfulServer)
	files.begin()
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	list := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(list, []byte(`{"name":"files","url":"`+server.URL+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newFixture(t, "--harness=openai", "--model=sloppy", "--base-url="+web.URL+"/v1", "--mcp-file="+list)
	will := s.api.User("Will")
	dm := s.api.DM(will)

	asked := s.api.Say(dm, will, "wait for the old words")
	<-model.began
	s.api.EditText(asked, "wait for the new words")
	s.await("the edit", func() bool {
		return slices.ContainsFunc(s.publications(), func(p *publication) bool {
			return p.status == "ok" && strings.Contains(string(p.message.Content), "wait for the new words")
		})
	})
	close(model.edited)
	if said := s.awaitTexts(dm, 1); said[0] != "I read the new words." {
		t.Errorf("of a message that was edited it said %q", said)
	}
	for i, a := range answers {
		if files.calls.Load() == 1 {
			files.begin() // the server was started again
		}
		s.ended(s.api.Say(dm, will, "answer: "+a.name))
		if said := s.awaitTexts(dm, i+2); len(said) != i+2 || said[i+1] != a.shown {
			t.Errorf("of %q the chat shows %q; want %q", a.name, said[i+1:], a.shown)
		}
	}
	if said := strings.Join(s.api.Texts(dm.ID), "\n"); strings.Contains(said, "INNER") {
		t.Errorf("the chat shows %q", said)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.doubled != "" {
		t.Errorf("the model was given %s", model.doubled)
	}
	if model.hinted != 4 || model.noTools != 1 {
		t.Errorf("%d requests were told what was wrong, and %d came without tools", model.hinted, model.noTools)
	}
	if logs := logsBelow(s.data); !strings.Contains(logs, "its model does not support tools") || !strings.Contains(logs, "check --base-url") {
		t.Errorf("the agent's log does not say what it learned:\n%s", logs)
	}
}
