package mcptools

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"

	"context"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hubbub/protocol/defaults"
	"hubbub/protocol/timetest"
)

func TestOptions_HaveDefaults(t *testing.T) {
	if o := defaults.Of[PoolOptions](nil); o.ConnectTimeout != 10*time.Second || o.ResultBytes != 256<<10 || o.HideEnv != nil {
		t.Errorf("%+v", o)
	}
}

// TestToResult checks that each piece becomes text, within a limit for all. Structured content is
// used only without text, and only whole.
func TestToResult(t *testing.T) {
	said := func(c ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: c} }
	hello := &mcp.TextContent{Text: "hello"}
	const cut = "\n[cut: the result is too long to show; ask for less]"
	for name, c := range map[string]struct {
		r          *mcp.CallToolResult
		most       int
		want       []string
		structured string
	}{
		"text":                 {said(hello, &mcp.TextContent{Text: "you"}), 100, []string{"hello", "you"}, ""},
		"as much as may be":    {said(hello), 5, []string{"hello"}, ""},
		"more than may be":     {said(hello), 4, []string{"hell" + cut}, ""},
		"nothing behind a cut": {said(hello, hello), 5, []string{"hello"}, ""},
		"a second that is cut": {said(hello, hello), 7, []string{"hello", "he" + cut}, ""},
		"a link":               {said(&mcp.ResourceLink{URI: "file:///x"}), 100, []string{"[resource file:///x]"}, ""},
		"an image and a sound": {said(&mcp.ImageContent{MIMEType: "image/png"}, &mcp.AudioContent{MIMEType: "audio/ogg"}), 100, []string{"[an image, image/png]", "[audio, audio/ogg]"}, ""},
		"embedded text":        {said(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{Text: "inside"}}), 100, []string{"inside"}, ""},
		"embedded otherwise":   {said(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{Blob: []byte{1}}}, &mcp.EmbeddedResource{}), 100, []string{"[an embedded resource that is not text]", "[an embedded resource that is not text]"}, ""},
		"structured":           {&mcp.CallToolResult{StructuredContent: map[string]int{"a": 1}}, 7, nil, `{"a":1}`},
		"structured, too long": {&mcp.CallToolResult{StructuredContent: map[string]int{"a": 1}}, 6, nil, ""},
		"structured and text":  {&mcp.CallToolResult{StructuredContent: map[string]int{"a": 1}, Content: []mcp.Content{hello}}, 100, []string{"hello"}, ""},
	} {
		got := toResult(c.r, nil, c.most)
		var texts []string
		for _, piece := range got.Content {
			texts = append(texts, piece.Text)
		}
		if diff := cmp.Diff(c.want, texts); diff != "" || string(got.StructuredContent) != c.structured {
			t.Errorf("%s: %s, structured %s", name, diff, got.StructuredContent)
		}
	}
}

// TestParseServers_RequiresURLOrCommand checks what a file of servers may contain.
func TestParseServers_RequiresURLOrCommand(t *testing.T) {
	for name, c := range map[string]struct {
		say  string
		at   int
		want harness.MCPServer
		err  string
	}{
		"an address":               {say: `{"url":"http://x"}`, want: harness.MCPServer{Name: "mcp", URL: "http://x"}},
		"the second":               {say: `{"url":"http://x"}`, at: 1, want: harness.MCPServer{Name: "mcp2", URL: "http://x"}},
		"a command in words":       {say: `{"name":"a","command":"run 'it all'"}`, want: harness.MCPServer{Name: "a", Command: []string{"run", "it all"}}},
		"a command with arguments": {say: `{"name":"a","command":"/a b","args":["-x"]}`, want: harness.MCPServer{Name: "a", Command: []string{"/a b", "-x"}}},
		"a command as a list":      {say: `{"name":"a","command":["run"],"args":["-x"]}`, want: harness.MCPServer{Name: "a", Command: []string{"run", "-x"}}},
		"no command":               {say: `{"name":"a","url":"http://x","command":null}`, want: harness.MCPServer{Name: "a", URL: "http://x"}},
		"neither":                  {say: `{"name":"a"}`, err: "give it either a url or a command"},
		"both":                     {say: `{"name":"a","url":"http://x","command":"run"}`, err: "give it either a url or a command"},
		"a number":                 {say: `{"name":"a","command":7}`, err: "neither a string nor a list"},
		"an open quote":            {say: `{"name":"a","command":"run 'it"}`, err: `the command of MCP server "a"`},
	} {
		var said serverConfig
		if err := json.Unmarshal([]byte(c.say), &said); err != nil {
			t.Fatal(err)
		}
		got, err := said.toServer(c.at)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); c.err == "" && diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for size, wrong := range map[int]bool{maxConfig: false, maxConfig + 1: true} {
		raw := `{"url":"http://x"}` + strings.Repeat(" ", size-18)
		if _, err := ParseServers([]byte(raw)); (err != nil) != wrong {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestPool_EvictsTheLeastRecentlyUsed also checks that no connection with a running call is
// closed.
func TestPool_EvictsTheLeastRecentlyUsed(t *testing.T) {
	p := NewPool(nil)
	for i, name := range []string{"new", "old", "older", "busy"} {
		p.conns[name] = &conn{key: name, lastUsed: time.Now().Add(-time.Duration(i) * time.Hour)}
	}
	p.conns["busy"].calls = map[*activeCall]bool{{}: true}
	if c := p.idleLocked(0); c == nil || c.key != "older" {
		t.Errorf("%+v", c)
	}
	if c := p.idleLocked(3 * time.Hour); c != nil {
		t.Errorf("of none that is idle for three hours, %s", c.key)
	}
	delete(p.conns, "older")
	if c := p.idleLocked(30 * time.Minute); c == nil || c.key != "old" {
		t.Errorf("%+v", c)
	}
}

// TestConn_RequiresURLOrCommand also checks that addresses of other schemes are refused.
func TestConn_RequiresURLOrCommand(t *testing.T) {
	for what, c := range map[string]struct {
		server harness.MCPServer
		want   string
	}{
		"both":    {harness.MCPServer{URL: "http://x", Command: []string{"x"}}, "both a url and a command"},
		"neither": {harness.MCPServer{}, "neither a url nor a command"},
		"ftp":     {harness.MCPServer{URL: "ftp://x"}, "not an http(s) address"},
		"no host": {harness.MCPServer{URL: "http:///x"}, "not an http(s) address"},
		"no url":  {harness.MCPServer{URL: "http://["}, "not an http(s) address"},
		"http":    {harness.MCPServer{URL: "http://x"}, ""},
		"https":   {harness.MCPServer{URL: "https://x"}, ""},
	} {
		_, err := (&conn{pool: NewPool(nil), server: c.server}).transport()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type slowApprover struct {
	harness.Approver
	after time.Duration
}

func (slowApprover) Sensitive(string) bool { return false }
func (p slowApprover) Approve(context.Context, string, json.RawMessage) error {
	time.Sleep(p.after)
	return nil
}

// TestElicit_StopsTheCallTimeout checks that a call's timeout is stopped while a person is asked,
// and continues after the answer.
func TestElicit_StopsTheCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &conn{pool: NewPool(nil), calls: map[*activeCall]bool{}}
		k, end := c.beginCall(t.Context(), "run", slowApprover{after: time.Hour})
		defer end()
		timetest.Advance(callTimeout - time.Second)
		got, err := c.elicit(k.ctx, &mcp.ElicitRequest{Params: &mcp.ElicitParams{Message: "Sure?"}})
		if err != nil || got.Action != "accept" || k.ctx.Err() != nil {
			t.Errorf("%+v, %v, %v", got, err, k.ctx.Err())
		}
		timetest.Advance(callTimeout - time.Second)
		if k.ctx.Err() != nil {
			t.Error("it ended too early")
		}
		timetest.Advance(time.Second)
		if context.Cause(k.ctx) != errCallTimeout {
			t.Errorf("it ended with %v", context.Cause(k.ctx))
		}
		if got, _ := c.elicit(t.Context(), &mcp.ElicitRequest{Params: &mcp.ElicitParams{Message: strings.Repeat("x", maxDescription+1)}}); got.Action != "cancel" {
			t.Errorf("a question that is too long: %+v", got)
		}
	})
}
