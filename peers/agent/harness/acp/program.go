package acp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/child"
	"hubbub/protocol/text"

	acpsdk "github.com/coder/acp-go-sdk"
)

// codeAuthRequired is ACP's error for a program that is not logged in.
const codeAuthRequired = -32000

var errUnstoppable = errors.New("the program did not stop a cancelled turn")

// A program is one run of the ACP program.
type program struct {
	h      *Harness
	report func(harness.Progress)
	conn   *acpsdk.Connection
	fail   context.CancelCauseFunc
	http   bool // it takes MCP over HTTP

	opening sync.Mutex // held while a session is opened

	sessions *harness.Recent[[sha256.Size]byte, acpsdk.SessionId]

	mu    sync.Mutex
	turns map[acpsdk.SessionId]*collector
}

// serve runs the program once, until ctx or the program ends.
func (h *Harness) serve(ctx context.Context, report func(harness.Progress)) error {
	process, err := child.Start(h.argv, &child.Options{Dir: h.opts.Dir, Env: h.opts.Env, Grace: h.opts.Grace, Log: h.opts.Log})
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if report == nil {
		report = func(harness.Progress) {}
	}
	p := &program{
		h: h, report: report, fail: fail, sessions: harness.NewRecent[[sha256.Size]byte, acpsdk.SessionId](h.opts.MaxSessions),
		turns: map[acpsdk.SessionId]*collector{},
	}
	output := &gate{r: process.Stdout, open: make(chan struct{})}
	p.conn = acpsdk.NewConnection(p.handle, process.Stdin, output)
	p.conn.SetLogger(slog.New(slog.DiscardHandler)) // it would log chat content
	close(output.open)

	err = p.run(ctx, process)
	h.life.Set(nil)
	process.Stop()
	<-p.conn.Done()
	process.Stdout.Close() //nolint:errcheck // read to its end
	return err
}

// A gate holds back reads until the connection is set up.
type gate struct {
	r    io.Reader
	open chan struct{}
}

func (g *gate) Read(b []byte) (int, error) {
	<-g.open
	return g.r.Read(b)
}

// run initializes the program and waits for its end.
func (p *program) run(ctx context.Context, process *child.Process) error {
	if err := p.initialize(ctx, process); err != nil {
		return err
	}
	p.h.life.Set(p)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-process.Done():
		return process.Wait()
	case <-p.conn.Done(): // it closed its stdout, or broke the protocol
		return fmt.Errorf("%s ended the connection", p.h.argv[0])
	}
}

func (p *program) initialize(ctx context.Context, process *child.Process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.h.opts.InitTimeout,
		fmt.Errorf("%s did not answer initialize in %s; does --harness-command start its ACP mode?", p.h.argv[0], p.h.opts.InitTimeout))
	defer cancel()
	response, err := acpsdk.SendRequest[acpsdk.InitializeResponse](p.conn, ctx, acpsdk.AgentMethodInitialize, acpsdk.InitializeRequest{
		ProtocolVersion: acpsdk.ProtocolVersionNumber,
		ClientInfo:      &acpsdk.Implementation{Name: "hubbub-agent", Version: "1"},
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && isClosed(process.Done()):
		return process.Wait()
	case err != nil && isClosed(p.conn.Done()):
		return fmt.Errorf("%s ended the connection", p.h.argv[0])
	case err != nil:
		return fmt.Errorf("%s refused initialize: %w", p.h.argv[0], said(err))
	case response.ProtocolVersion != acpsdk.ProtocolVersionNumber:
		return fmt.Errorf("%w: %s speaks version %d of the Agent Client Protocol, and this program %d",
			harness.ErrPermanent, p.h.argv[0], response.ProtocolVersion, acpsdk.ProtocolVersionNumber)
	}
	p.http = response.AgentCapabilities.McpCapabilities.Http
	if !p.http {
		p.h.opts.Log.Warn().Str("program", p.h.argv[0]).
			Msg("harness program takes no MCP over HTTP, so it has no chat tools: the text that ends a turn is its only answer")
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// session returns the session of the turn's conversation. It opens one if there is
// none. Other MCP servers or another folder mean another session.
func (p *program) session(ctx context.Context, t *harness.Turn) (acpsdk.SessionId, error) {
	cwd, err := p.folder(t)
	if err != nil {
		return "", err
	}
	servers := p.servers(t)
	identity, err := json.Marshal([]any{t.Memory(), cwd, servers})
	if err != nil {
		return "", fmt.Errorf("naming the session: %w", err)
	}
	key := sha256.Sum256(identity)
	p.opening.Lock()
	defer p.opening.Unlock()
	if id, ok := p.sessions.Get(key); ok {
		p.sessions.Put(key, id)
		return id, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.h.opts.InitTimeout, fmt.Errorf("the program did not open a session in %s", p.h.opts.InitTimeout))
	defer cancel()
	response, err := acpsdk.SendRequest[acpsdk.NewSessionResponse](p.conn, ctx, acpsdk.AgentMethodSessionNew,
		acpsdk.NewSessionRequest{Cwd: cwd, McpServers: servers})
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("opening a session: %w", said(err))
	}
	p.sessions.Put(key, response.SessionId)
	return response.SessionId, nil
}

// folder returns the absolute folder that a session works in.
func (p *program) folder(t *harness.Turn) (string, error) {
	dir := t.Workspace
	if dir == "" {
		dir = p.h.opts.Dir
	}
	if dir == "" {
		return os.Getwd()
	}
	return filepath.Abs(dir)
}

// servers returns the turn's MCP servers in ACP's words.
func (p *program) servers(t *harness.Turn) []acpsdk.McpServer {
	all := t.MCP
	if t.ChatServer != nil {
		all = append([]harness.MCPServer{*t.ChatServer}, all...)
	}
	servers := []acpsdk.McpServer{}
	for _, s := range all {
		switch {
		case len(s.Command) > 0:
			stdio := &acpsdk.McpServerStdio{Name: s.Name, Command: s.Command[0], Args: append([]string{}, s.Command[1:]...), Env: []acpsdk.EnvVariable{}}
			for _, name := range sorted(s.Env) {
				stdio.Env = append(stdio.Env, acpsdk.EnvVariable{Name: name, Value: s.Env[name]})
			}
			servers = append(servers, acpsdk.McpServer{Stdio: stdio})
		case p.http:
			http := &acpsdk.McpServerHttpInline{Type: "http", Name: s.Name, Url: s.URL, Headers: []acpsdk.HttpHeader{}}
			for _, name := range sorted(s.Headers) {
				http.Headers = append(http.Headers, acpsdk.HttpHeader{Name: name, Value: s.Headers[name]})
			}
			servers = append(servers, acpsdk.McpServer{Http: http})
		default:
			p.report(harness.Progress{TurnID: t.ID, Kind: harness.ProgressStatus, Message: "the program takes no MCP over HTTP; it goes without the server " + s.Name})
		}
	}
	return servers
}

// prompt runs one turn in a session.
func (p *program) prompt(ctx context.Context, id acpsdk.SessionId, t *harness.Turn) (*collector, error) {
	c := &collector{turnID: t.ID, report: p.report}
	p.mu.Lock()
	if p.turns[id] != nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: another turn of this conversation is running", harness.ErrTemporary)
	}
	p.turns[id] = c
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.turns, id)
		p.mu.Unlock()
	}()
	var blocks []acpsdk.ContentBlock
	for _, text := range []string{t.System, t.Prompt} {
		if text != "" {
			blocks = append(blocks, acpsdk.TextBlock(text))
		}
	}
	type answer struct {
		response acpsdk.PromptResponse
		err      error
	}
	answered := make(chan answer, 1)
	go func() { // ends with its answer or with the connection, whichever is first
		r, err := acpsdk.SendRequest[acpsdk.PromptResponse](p.conn, context.WithoutCancel(ctx), acpsdk.AgentMethodSessionPrompt,
			acpsdk.PromptRequest{SessionId: id, Prompt: blocks})
		answered <- answer{r, err}
	}()
	select {
	case a := <-answered:
		return c, c.end(a.response, a.err)
	case <-ctx.Done():
	}
	go p.conn.SendNotification(context.WithoutCancel(ctx), acpsdk.AgentMethodSessionCancel, acpsdk.CancelNotification{SessionId: id}) //nolint:errcheck // its answer is what counts
	patience := time.NewTimer(p.h.opts.CancelTimeout)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
		p.fail(errUnstoppable)
		<-answered
	}
	return c, context.Cause(ctx)
}

// end records the program's answer to a prompt, and says what it means for the turn.
func (c *collector) end(r acpsdk.PromptResponse, err error) error {
	if err != nil {
		return fmt.Errorf("the program failed in its turn: %w", said(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop, c.usage = r.StopReason, r.Usage
	switch r.StopReason {
	case acpsdk.StopReasonMaxTurnRequests:
		return fmt.Errorf("%w: the program reached its limit of requests", harness.ErrBudget)
	case acpsdk.StopReasonCancelled:
		return fmt.Errorf("%w: the program cancelled the turn itself", harness.ErrTemporary)
	}
	return nil
}

func (p *program) running(id acpsdk.SessionId) *collector {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns[id]
}

// said shortens an error from the program and redacts keys.
func said(err error) error {
	var refusal *acpsdk.RequestError
	if !errors.As(err, &refusal) {
		return errors.New(harness.Redact(err.Error()))
	}
	says := text.Clip(harness.Redact(refusal.Error()), 400)
	if refusal.Code == codeAuthRequired {
		return fmt.Errorf("%w: the program is not logged in (%s); log in by hand once, as the user that the agent runs as", harness.ErrPermanent, says)
	}
	return errors.New(says)
}

// sorted returns the keys of a map in order.
func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
