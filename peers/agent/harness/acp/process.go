package acp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	acpsdk "github.com/coder/acp-go-sdk"
	lru "github.com/hashicorp/golang-lru/v2"
)

// codeAuthRequired is the ACP error code of a program that is not logged in.
const codeAuthRequired = -32000

// errDenied means that the program stopped because it was refused something, as codex does.
// Running the turn again would end the same way.
var errDenied = errors.New(
	"the program stopped because it was not permitted to act; --permission defines what it may do",
)

var errUnstoppable = errors.New("the program did not stop a canceled turn")

// An agentProcess is one run of the ACP program.
type agentProcess struct {
	h          *Harness
	supervisor *subprocess.Supervisor[agentProcess]
	process    *subprocess.Process
	conn       *acpsdk.Connection
	name       string // the program's own name
	http       bool   // it supports MCP over HTTP
	images     bool   // its prompts may contain images

	openMu sync.Mutex // held while a session is opened

	sessions *lru.Cache[string, acpsdk.SessionId]

	mu    sync.Mutex
	turns map[acpsdk.SessionId]*collector
}

// serve talks to the program until ctx or the program ends.
func (h *Harness) serve(
	ctx context.Context,
	supervisor *subprocess.Supervisor[agentProcess],
	process *subprocess.Process,
) error {
	p := &agentProcess{
		h:          h,
		supervisor: supervisor,
		process:    process,
		sessions:   harness.NewCache[string, acpsdk.SessionId](h.opts.MaxSessions),
		turns:      map[acpsdk.SessionId]*collector{},
	}
	output, lines := io.Pipe() // nothing can be read before the logger is set
	p.conn = acpsdk.NewConnection(p.handleRequest, process.Stdin, output)
	p.conn.SetLogger(slog.New(slog.DiscardHandler)) // it would log chat content
	var reading sync.WaitGroup
	reading.Go(func() {
		lines.CloseWithError(p.readOutput(lines, process.Stdout)) //nolint:errcheck // it returns nil
	})
	err := p.run(ctx)
	supervisor.SetCurrent(nil)
	process.Stop()
	<-p.conn.Done()
	output.Close() //nolint:errcheck // it returns nil
	reading.Wait()
	return err
}

// run initializes the program and waits until it ends.
func (p *agentProcess) run(ctx context.Context) error {
	if err := p.initialize(ctx); err != nil {
		return err
	}
	p.supervisor.SetCurrent(p)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.conn.Done():
		p.supervisor.SetCurrent(nil)
		retry.Sleep(ctx, exitGrace)
		return cmp.Or(context.Cause(ctx), p.disconnectError())
	}
}

// exitGrace is how long to wait for the exit of a disconnected program: its exit status explains
// more.
const exitGrace = 2 * time.Second

// disconnectError is the error of a program that closed its stdout or violated the protocol.
func (p *agentProcess) disconnectError() error {
	return fmt.Errorf("%s closed the connection", p.h.argv[0])
}

func (p *agentProcess) initialize(ctx context.Context) error {
	ctx, cancel := p.h.startTimeout(ctx,
		fmt.Sprintf("does --harness-command start its ACP mode? %s did not answer initialize", p.h.argv[0]))
	defer cancel()
	response, err := acpsdk.SendRequest[acpsdk.InitializeResponse](
		p.conn,
		ctx,
		acpsdk.AgentMethodInitialize,
		acpsdk.InitializeRequest{
			ProtocolVersion: acpsdk.ProtocolVersionNumber,
			ClientInfo:      &acpsdk.Implementation{Name: "hubbub-agent", Version: "1"},
			ClientCapabilities: acpsdk.ClientCapabilities{
				Elicitation: &acpsdk.ElicitationCapabilities{Form: &acpsdk.ElicitationFormCapabilities{}},
			},
		},
	)
	if err != nil {
		retry.Sleep(ctx, exitGrace)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && isClosed(p.conn.Done()):
		return p.disconnectError()
	case err != nil:
		return fmt.Errorf("%s refused initialize: %w", p.h.argv[0], describeError(err))
	case response.ProtocolVersion != acpsdk.ProtocolVersionNumber:
		return fmt.Errorf("%w: %s speaks version %d of the Agent Client Protocol, but this program speaks %d",
			harness.ErrPermanent, p.h.argv[0], response.ProtocolVersion, acpsdk.ProtocolVersionNumber)
	}
	p.name = deref(response.AgentInfo).Name
	p.http = response.AgentCapabilities.McpCapabilities.Http
	p.images = response.AgentCapabilities.PromptCapabilities.Image
	if !p.http {
		p.h.opts.Log.Warn().Str("program", p.h.argv[0]).
			Msg("harness program does not support MCP over HTTP, so it has no chat tools: it can answer only with " +
				"the text that ends a turn")
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

// openSession returns the session of the turn's conversation, and opens one if necessary.
// Different MCP servers or a different folder require another session.
func (p *agentProcess) openSession(ctx context.Context, t *harness.Turn) (acpsdk.SessionId, error) {
	cwd, err := filepath.Abs(cmp.Or(t.Workspace, p.h.opts.Dir)) // "" means this program's folder
	if err != nil {
		return "", err
	}
	servers := p.mcpServers(t)
	identity, err := json.Marshal([]any{t.ConversationKey(), cwd, servers})
	if err != nil {
		return "", fmt.Errorf("naming the session: %w", err)
	}
	key := string(identity)
	p.openMu.Lock()
	defer p.openMu.Unlock()
	if id, ok := p.sessions.Get(key); ok {
		return id, nil
	}
	ctx, cancel := p.h.startTimeout(ctx, "the program did not open a session")
	defer cancel()
	response, err := acpsdk.SendRequest[acpsdk.NewSessionResponse](p.conn, ctx, acpsdk.AgentMethodSessionNew,
		acpsdk.NewSessionRequest{Cwd: cwd, McpServers: servers})
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("opening a session: %w", describeError(err))
	}
	if !text.IsCleanName(string(response.SessionId)) {
		return "", fmt.Errorf("%w: the program's session id %q must be %s", harness.ErrPermanent, response.SessionId, text.NameRule)
	}
	if err := p.selectAskMode(ctx, response); err != nil {
		return "", err
	}
	p.sessions.Add(key, response.SessionId)
	return response.SessionId, nil
}

// forgetSession makes the next turn of a session's conversation open another session.
func (p *agentProcess) forgetSession(id acpsdk.SessionId) {
	for _, key := range p.sessions.Keys() {
		if kept, _ := p.sessions.Peek(key); kept == id {
			p.sessions.Remove(key)
		}
	}
}

// askModes are the modes in which programs request permission. This side decides what they may
// do.
var askModes = []acpsdk.SessionModeId{"default", "read-only"}

// selectAskMode puts a new session into a mode in which the program requests permission.
func (p *agentProcess) selectAskMode(ctx context.Context, session acpsdk.NewSessionResponse) error {
	modes := deref(session.Modes)
	if slices.Contains(askModes, modes.CurrentModeId) {
		return nil
	}
	for _, mode := range modes.AvailableModes {
		if !slices.Contains(askModes, mode.Id) {
			continue
		}
		_, err := acpsdk.SendRequest[acpsdk.SetSessionModeResponse](p.conn, ctx, acpsdk.AgentMethodSessionSetMode,
			acpsdk.SetSessionModeRequest{SessionId: session.SessionId, ModeId: mode.Id})
		if err != nil {
			return fmt.Errorf("putting the session into the mode %q, in which the program requests permission: %w",
				mode.Id, describeError(err))
		}
		return nil
	}
	return nil
}

// mcpServers converts the turn's MCP servers for ACP.
func (p *agentProcess) mcpServers(t *harness.Turn) []acpsdk.McpServer {
	all := t.MCP
	taken := map[string]bool{chatServerName: true}
	if t.ChatServer != nil {
		all = append([]harness.MCPServer{*t.ChatServer}, all...)
	}
	servers := []acpsdk.McpServer{}
	for i, s := range all {
		if own := i == 0 && t.ChatServer != nil; own {
			s.Name = chatServerName
		} else {
			s.Name = uniqueName(taken, s.Name)
		}
		switch {
		case len(s.Command) > 0:
			servers = append(servers, acpsdk.McpServer{Stdio: &acpsdk.McpServerStdio{
				Name:    s.Name,
				Command: s.Command[0],
				Args:    append([]string{}, s.Command[1:]...),
				Env: sortedPairs(
					s.Env,
					func(name, value string) acpsdk.EnvVariable { return acpsdk.EnvVariable{Name: name, Value: value} },
				),
			}})
		case p.http:
			servers = append(servers, acpsdk.McpServer{Http: &acpsdk.McpServerHttpInline{
				Type: "http",
				Name: s.Name,
				Url:  s.URL,
				Headers: sortedPairs(
					s.Headers,
					func(name, value string) acpsdk.HttpHeader { return acpsdk.HttpHeader{Name: name, Value: value} },
				),
			}})
		default:
			p.h.Report(
				harness.Progress{
					TurnID:  t.ID,
					Kind:    harness.ProgressStatus,
					Message: "the program does not support MCP over HTTP; it runs without the server " + s.Name,
				},
			)
		}
	}
	return servers
}

// uniqueName returns name, with a number if programs could confuse it with the name of another
// server, and adds the result to taken.
func uniqueName(taken map[string]bool, name string) string {
	name = cmp.Or(name, "mcp")
	free := name
	for n := 2; taken[strings.ToLower(plainToolName(free))]; n++ {
		free = fmt.Sprintf("%s%d", name, n)
	}
	taken[strings.ToLower(plainToolName(free))] = true
	return free
}

// runPrompt runs one turn in a session and fills in the outcome.
func (p *agentProcess) runPrompt(
	ctx context.Context,
	id acpsdk.SessionId,
	t *harness.Turn,
	tools harness.Tools,
	outcome *harness.Outcome,
) error {
	c := &collector{
		calls:    map[acpsdk.ToolCallId]callInfo{},
		tools:    map[string]bool{},
		approver: t.Approver,
		ctx:      ctx,
		report: func(progress harness.Progress) {
			progress.TurnID = t.ID
			p.h.Report(progress)
		},
	}
	if tools != nil {
		for _, tool := range tools.List() {
			c.tools[plainToolName(tool.Name)] = true
		}
	}
	p.mu.Lock()
	if p.turns[id] != nil {
		p.mu.Unlock()
		return fmt.Errorf("%w: another turn of this conversation is running", harness.ErrTemporary)
	}
	p.turns[id] = c
	p.mu.Unlock()
	ended := make(chan struct{})
	defer func() {
		close(ended)
		p.mu.Lock()
		delete(p.turns, id)
		p.mu.Unlock()
		c.writeOutcome(outcome)
	}()
	blocks := p.contentBlocks(t)
	uncanceled := context.WithoutCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		go p.conn.SendNotification(
			uncanceled,
			acpsdk.AgentMethodSessionCancel,
			acpsdk.CancelNotification{SessionId: id},
		) //nolint:errcheck // its answer is what counts
		select {
		case <-ended:
		case <-time.After(p.h.opts.CancelTimeout):
			p.process.Fail(errUnstoppable)
		}
	})
	stderrLines := p.process.StderrLines()
	// SendRequest returns with the answer or when the connection ends.
	r, err := acpsdk.SendRequest[acpsdk.PromptResponse](p.conn, uncanceled, acpsdk.AgentMethodSessionPrompt,
		acpsdk.PromptRequest{SessionId: id, Prompt: blocks})
	if !stop() {
		return context.Cause(ctx)
	}
	if err != nil {
		if t.Attempt > 1 { // the session may be lost
			p.forgetSession(id)
		}
		return p.promptError(err, stderrLines)
	}
	c.stop, c.usage = r.StopReason, r.Usage
	switch {
	case r.StopReason == acpsdk.StopReasonRefusal && !c.hasText():
		return &harness.UserError{
			Message: "My model declined to answer this. Rephrasing may help.",
			Err:     errors.New("the program's model refused the turn"),
		}
	case c.wasCut() && !c.hasText():
		return fmt.Errorf("%w: the program ended its turn by %s before it had written anything", harness.ErrBudget,
			r.StopReason)
	case r.StopReason == acpsdk.StopReasonCancelled && c.wasDenied():
		return errDenied
	case r.StopReason == acpsdk.StopReasonCancelled:
		return fmt.Errorf("%w: the program itself canceled the turn", harness.ErrTemporary)
	}
	return nil
}

// contentBlocks converts a turn for ACP. Images are left out if the program was restarted and no
// longer accepts them.
func (p *agentProcess) contentBlocks(t *harness.Turn) (blocks []acpsdk.ContentBlock) {
	if t.System != "" {
		blocks = append(blocks, acpsdk.TextBlock(t.System))
	}
	for _, i := range t.Images {
		if p.images {
			blocks = append(blocks, acpsdk.ImageBlock(base64.StdEncoding.EncodeToString(i.Data), i.MimeType))
		}
	}
	if t.Prompt != "" {
		blocks = append(blocks, acpsdk.TextBlock(t.Prompt))
	}
	return blocks
}

// promptError explains why a prompt failed: how the program ended, if it did, and what it has
// written to stderr since.
func (p *agentProcess) promptError(err error, stderrLines int) error {
	if isClosed(p.conn.Done()) && p.process.WaitFor(context.Background(), exitGrace) {
		return fmt.Errorf("the program ended during its turn: %w", p.process.Wait())
	}
	if words := p.process.StderrSince(stderrLines); words != "" {
		return fmt.Errorf("the program failed during its turn: %w; it wrote: %s", describeError(err), words)
	}
	return fmt.Errorf("the program failed during its turn: %w", describeError(err))
}

func (p *agentProcess) collectorOf(id acpsdk.SessionId) *collector {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns[id]
}

// onlyTurn returns the session of the turn that runs, or "" unless there is exactly one.
func (p *agentProcess) onlyTurn() (id acpsdk.SessionId) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) == 1 {
		for id = range p.turns {
			return id
		}
	}
	return ""
}

// describeError shortens an error from the program and redacts keys.
func describeError(err error) error {
	var refusal *acpsdk.RequestError
	if !errors.As(err, &refusal) {
		return errors.New(harness.Redact(err.Error()))
	}
	says := text.Clip(harness.Redact(refusal.Error()), 400)
	if refusal.Code == codeAuthRequired {
		return fmt.Errorf(
			"%w: the program is not logged in (%s); log in manually once, as the user that runs the agent",
			harness.ErrPermanent,
			says,
		)
	}
	return errors.New(says)
}

// sortedPairs converts the entries of a map in the order of their names. It never returns nil.
func sortedPairs[T any](m map[string]string, of func(name, value string) T) []T {
	all := []T{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, of(name, m[name]))
	}
	return all
}
