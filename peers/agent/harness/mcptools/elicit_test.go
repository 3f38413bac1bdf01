package mcptools_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A person is an approver that remembers what they were asked.
type person struct {
	mu     sync.Mutex // guards asked
	asked  []string
	answer func(ctx context.Context) error
	words  []string // answers to the questions that want words, in order
}

func (*person) Sensitive(string) bool { return false }

func (p *person) Approve(ctx context.Context, tool string, arguments json.RawMessage) error {
	p.mu.Lock()
	p.asked = append(p.asked, tool+" "+string(arguments))
	p.mu.Unlock()
	return p.answer(ctx)
}

func (p *person) Ask(ctx context.Context, name string, question json.RawMessage) (string, error) {
	if err := p.Approve(ctx, name, question); err != nil || len(p.words) == 0 {
		return "", errors.Join(err, context.Cause(ctx))
	}
	words := p.words[0]
	p.words = p.words[1:]
	return words, nil
}

func (*person) ReadTime(string) (time.Time, error) { return time.Time{}, errors.New("no time") }

func (*person) Read(words string) attention.Answer { return readAnswer.Read(words) }

var readAnswer = func() *attention.AnswerReader {
	words := attention.DefaultWords()
	return attention.NewAnswerReader(&words)
}()

// startAsking starts a server whose tool deploy asks by a form before it continues, and reports
// the answer. With sessions it speaks the older protocol, in which it sends a request; without,
// the newest, which answers input_required.
func startAsking(t *testing.T, schema any, old bool, running *sync.WaitGroup) harness.MCPServer {
	t.Helper()
	opts := &mcp.ServerOptions{}
	if old {
		opts.SupportedProtocolVersions = []string{"2025-06-18", "2025-11-25"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "deploy", Version: "1"}, opts)
	mcp.AddTool(s, &mcp.Tool{Name: "run"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if running != nil && len(r.Params.InputResponses) == 0 {
			running.Done()
			running.Wait()
		}
		if len(r.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{RequestState: "s1", InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{Message: "Deploy to production?", RequestedSchema: schema}}}, nil, nil
		}
		answer, ok := r.Params.InputResponses["confirm"].(*mcp.ElicitResult)
		if !ok {
			return nil, nil, errors.New("no answer")
		}
		raw, err := json.Marshal(answer.Content)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action + " " + string(raw)}}}, nil, err
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: !old}))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		server.Close()
	})
	return harness.MCPServer{Name: "deploy", URL: server.URL}
}

var confirming = map[string]any{
	"type": "object", "required": []string{"sure", "replicas"},
	"properties": map[string]any{
		"sure": map[string]any{"type": "boolean"}, "replicas": map[string]any{"type": "integer", "default": 3}, "note": map[string]any{"type": "string"},
	},
}

// TestElicit_AsksAPerson covers both protocols. The person sees the server's words and what a yes
// answers. A form that a yes cannot answer reaches nobody.
func TestElicit_AsksAPerson(t *testing.T) {
	naming := map[string]any{"type": "object", "required": []string{"name"}, "properties": map[string]any{"name": map[string]any{"type": "string"}}}
	const asksName = `form:deploy.run {"asks":"Deploy to production?","wants":["name: text"]}`
	for name, c := range map[string]struct {
		schema any
		err    error
		want   string
		asked  string
		words  []string
	}{
		"allowed":  {confirming, nil, `accept {"replicas":3,"sure":true}`, `elicit:deploy.run {"answer":{"replicas":3,"sure":true},"asks":"Deploy to production?"}`, nil},
		"denied":   {confirming, errors.New("not run: denied by tg:77"), "decline null", `elicit:deploy.run {"answer":{"replicas":3,"sure":true},"asks":"Deploy to production?"}`, nil},
		"no form":  {nil, nil, "accept {}", `elicit:deploy.run {"answer":{},"asks":"Deploy to production?"}`, nil},
		"a string": {naming, nil, `accept {"name":"eu-west"}`, asksName, []string{"eu-west"}},
		"no name":  {naming, nil, "decline null", asksName, []string{"no, thanks"}},
	} {
		for version, old := range map[string]bool{"old": true, "new": false} {
			t.Run(name+" "+version, func(t *testing.T) {
				p := &person{answer: func(context.Context) error { return c.err }, words: slices.Clone(c.words)}
				tools, failures := runPool(t, nil).Tools(t.Context(), []harness.MCPServer{startAsking(t, c.schema, old, nil)}, p)
				if len(failures) > 0 {
					t.Fatal(failures)
				}
				got := tools.Call(t.Context(), "deploy__run", nil)
				if strings.ReplaceAll(got.Text(), "accept null", "accept {}") != c.want || strings.Join(p.asked, "|") != c.asked {
					t.Errorf("%+v after asking %q", got, p.asked)
				}
			})
		}
	}
}

// TestElicit_CancelsWithoutAPerson covers a turn without a person, and a turn that ends in
// between.
func TestElicit_CancelsWithoutAPerson(t *testing.T) {
	for version, old := range map[string]bool{"old": true, "new": false} {
		t.Run(version, func(t *testing.T) {
			pool, server := runPool(t, nil), startAsking(t, confirming, old, nil)
			tools, _ := pool.Tools(t.Context(), []harness.MCPServer{server}, nil)
			if got := tools.Call(t.Context(), "deploy__run", nil); got.Text() != "cancel null" {
				t.Errorf("without anybody: %+v", got)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			p := &person{answer: func(ctx context.Context) error {
				cancel(errors.New("the turn was stopped"))
				<-ctx.Done() // the question ends with the call
				return context.Cause(ctx)
			}}
			tools, _ = pool.Tools(t.Context(), []harness.MCPServer{server}, p)
			if got := tools.Call(ctx, "deploy__run", nil); !got.IsError || !strings.Contains(got.Text(), "the turn was stopped") || len(p.asked) != 1 {
				t.Errorf("of a turn that ended: %+v", got)
			}
		})
	}
}

// TestElicit_CancelsAnAmbiguousCall makes two calls at once over one connection. An older server
// does not say which call asks, so at most one person is asked, once the other call has ended. A
// newer server names the call.
func TestElicit_CancelsAnAmbiguousCall(t *testing.T) {
	answers := [2]string{`accept {"replicas":3,"sure":true}`, "decline null"} // of the two people
	for version, want := range map[string][2]string{"old": {"cancel null", "cancel null"}, "new": answers} {
		t.Run(version, func(t *testing.T) {
			var both sync.WaitGroup
			both.Add(2)
			pool, server := runPool(t, nil), startAsking(t, confirming, version == "old", &both)
			var got [2]string
			var wg sync.WaitGroup
			for i, err := range []error{nil, errors.New("no")} {
				tools, _ := pool.Tools(t.Context(), []harness.MCPServer{server}, &person{answer: func(context.Context) error { return err }})
				wg.Go(func() { got[i] = tools.Call(t.Context(), "deploy__run", nil).Text() })
			}
			wg.Wait()
			for i := range got {
				if got[i] != want[i] && (version == "new" || got[i] != answers[i]) || version == "old" && got == answers {
					t.Errorf("answered %q; want %q", got, want)
				}
			}
		})
	}
}
