package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/model"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

func TestWireName_SuitsEveryAPI(t *testing.T) {
	r := rigs[1]
	r.T = t
	api, h := r.start(nil, r.say(""))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringN(1, 80, -1), 1, 12).Draw(t, "names")
		if _, err := h.Turn(context.Background(), turn("x"), &harnesstest.Tools{Names: names}); err != nil {
			t.Fatal(err)
		}
		requests := api.Requests()
		tools := requests[len(requests)-1].Body["tools"].([]any)
		if len(tools) != len(names) {
			t.Fatalf("%d tools of %d", len(tools), len(names))
		}
		seen := map[string]bool{}
		for _, tool := range tools {
			name := tool.(map[string]any)["name"].(string)
			if name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || seen[name] {
				t.Fatalf("%q of %q", name, names)
			}
			seen[name] = true
		}
	})
}

func TestCollectTools_LeavesOutAFailedServer(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found " + string(r.Params.Arguments)}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer web.Close()
	for _, r := range rigs {
		r.T = t
		api, h := r.start(func(o *model.Options) { o.Servers = mcptools.NewPool(nil) }, r.said(said{Calls: []modelCall{
			{ID: "a", Name: "docs__search", Arguments: `{"text":"x"}`}, {ID: "b", Name: "chat_react"},
		}}), r.say("done"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		progress := make(chan string, 100)
		go func() {
			ended <- h.Run(ctx, harness.Host{Progress: func(p harness.Progress) {
				if p.Kind == harness.ProgressStatus {
					progress <- p.Message
				}
			}})
		}()
		tn := turn("x")
		tn.MCP = []harness.MCPServer{{Name: "docs", URL: web.URL}, {Name: "gone", URL: "http://127.0.0.1:1/"}}
		tools := &harnesstest.Tools{}
		out, err := h.Turn(ctx, tn, tools)
		if err != nil || out.FinalText != "done" || out.Usage.ToolCalls != 2 {
			t.Fatalf("%+v, %v", out, err)
		}
		if shown := r.last(api); len(shown) != 4 || shown[2].Words() != `found {"text":"x"}` {
			t.Errorf("shown %+v", shown)
		}
		if got := tools.Called(); !slices.Equal(got, []string{"chat.react"}) {
			t.Errorf("the agent's tools were called: %v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(progress)
		var all []string
		for s := range progress {
			all = append(all, s)
		}
		if said := fmt.Sprint(all); !strings.Contains(said, "an MCP server is unreachable") || strings.Contains(said, "127.0.0.1") {
			t.Errorf("of the server that is gone was told: %q", all)
		}
	}
}
