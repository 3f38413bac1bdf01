// Command hubbub-agent runs one agent: its mailbox, its attention, its turns.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/attention"
	"hubbub/peers/netguard"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

// settings are the values of the flags.
type settings struct {
	agent          agent.Options
	id             string
	harness        string
	harnessCommand string
	endpoint       endpoint
	systemPrompt   string // file
	policyVersion  string
	timeZone       string
	permission     string
	mcpFile        string
	voice          voice
	noRedact       bool
	reach          reach

	words attention.Words // replaces the default ones
}

// An endpoint is where a model is, and what it may answer.
type endpoint struct {
	model     string
	baseURL   string
	maxTokens int
}

// A reach is the set of addresses that may be called besides buses and models.
type reach struct {
	a2aURL  string
	allow   []string
	targets []netip.Prefix // of allow
}

// beside returns a guard that allows the addresses named by the operator, and the machines of the
// operator's other addresses.
func (r *reach) beside(given []string) *netguard.Policy {
	return netguard.New(besideBuses(r.targets, given))
}

// gcPercent keeps the heap of an agent near the 1.5 MB that it needs. Most agents are idle,
// and a machine may run hundreds. Go's default would let each heap grow to 4 MB.
const gcPercent = 40

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	var s settings
	program.Main(program.Program{
		Name:    "hubbub-agent",
		Summary: "runs one agent of the bus",
		Flags:   s.add,
		Check:   s.check,
		Run:     s.run,
	})
}

func (s *settings) add(fs *pflag.FlagSet) {
	o := &s.agent
	fs.StringVar(&s.id, "id", "", "name of the agent, with or without agent: (required)")
	fs.StringVar(&s.harness, "harness", "scripted", "what runs its turns: scripted, openai, anthropic, acp, c2a or a2a")
	fs.StringVar(&s.harnessCommand, "harness-command", "", "program of the harness acp or c2a, in shell words")
	fs.StringVar(&s.endpoint.model, "model", "",
		"model of the harness openai or anthropic (default gpt-5-mini or claude-sonnet-4-5)")
	fs.StringVar(&s.endpoint.baseURL, "base-url", "",
		"endpoint of the harness openai or anthropic, with /v1, such as http://127.0.0.1:11434/v1 of Ollama (default "+
			"the provider's own)")
	fs.IntVar(&s.endpoint.maxTokens, "max-tokens", 4096,
		"output tokens of one answer of the harness openai or anthropic; what it cuts is shortened, or marked as cut")
	fs.StringVar(&s.reach.a2aURL, "a2a-url", "",
		"address of the harness a2a, an agent elsewhere that speaks A2A 1.0, below which its card is; its token is "+
			"HUBBUB_A2A_TOKEN")
	fs.StringVar(&s.systemPrompt, "system-prompt-file", "", "file with the text that begins the system prompt")
	fs.StringArrayVar(&o.Aliases, "alias", nil,
		"other name by which messages mention it, such as one that a Chorus service gives it (repeatable)")
	fs.StringVar(&o.WorkspaceID, "workspace-id", "",
		"name of its workspace, by which @NAME.WORKSPACE means it at the collaboration broker (that of --workspace "+
			"does, too)")
	fs.StringVar(&o.Node, "node", "",
		"name of its machine, by which @NAME.node:NODE means it at the broker (default the host's name)")
	fs.StringArrayVar(&o.Roles, "role", nil, "role that the agent has, such as backend-agents (repeatable)")
	fs.StringArrayVar(&o.Streams, "stream", nil, "stream that the agent owns (repeatable)")
	fs.StringVar(&s.timeZone, "time-zone", "",
		"time zone of the chats, such as Europe/Berlin, in which the agent reads and tells times (default that of the "+
			"machine)")
	fs.DurationVar(&o.ComposeWindow, "compose-window", 2*time.Second, "wait after a message for more of its author")
	fs.DurationVar(&o.ComposeCap, "compose-cap", 30*time.Second, "longest time over which messages are merged")
	fs.DurationVar(&o.DigestEvery, "digest-every", 0, "time between digests; 0 for none")
	fs.DurationVar(&o.Deadline, "deadline", 5*time.Minute, "longest time for an answer")
	fs.StringVar(&o.Escalation.Lead, "lead", "",
		"agent, or person such as tg:77 or cli:ann, who is asked first to answer what this agent must answer and cannot")
	fs.StringVar(&o.Escalation.Owner, "owner", "",
		"agent or person who answers for this agent, asked next; the owner of a work item comes before them")
	fs.StringVar(&o.Escalation.Person, "person", "",
		"person who is asked last, before the author is told; it also decides about tools where no person asked for "+
			"anything")
	fs.DurationVar(&o.Escalation.Timeout, "escalate-after", attention.DefaultLevelTimeout,
		"time that each of --lead, --owner and --person has for an answer")
	fs.DurationVar(&o.DeferFor, "defer-for", 15*time.Minute,
		"rest of a deferred event before it comes back, doubled each time")
	fs.StringVar(&s.policyVersion, "policy-version", string(attention.Version0602),
		"draft of C2A: 2026-06-02, 2026-06-24 or 2026-08-11")
	r := attention.DefaultReturnIntervals
	o.Returns = &r
	fs.DurationVar(&r.Immediate, "obligation-immediate", r.Immediate,
		"time after which an obligation of an urgent message comes back, with --policy-version 2026-08-11; 0 for never")
	fs.DurationVar(&r.Buffered, "obligation-buffered", r.Buffered,
		"time after which that of any other message comes back; 0 for never")
	fs.DurationVar(&r.Notify, "obligation-notify", r.Notify,
		"time after which that of what was only knocked for, or left to tools, comes back; 0 for never")
	fs.StringVar(&o.Workspace, "workspace", "", "folder in which the harness may work")
	fs.StringVar(&s.permission, "permission", string(acp.PermitReading),
		"what the harness acp may do unasked: reading, everything or nothing; or ask, as reading, and a person "+
			"decides about the rest")
	fs.StringArrayVar(&o.Approve, "approve", nil,
		"pattern of tools about which a person decides in the chat, such as shell or mcp:deploy.* (repeatable)")
	fs.StringVar(&s.voice.with, "transcribe", "",
		"what turns voice messages into text: a command in shell words, which gets the file as its last argument, or "+
			"the http or https address of an endpoint like OpenAI's audio/transcriptions")
	fs.StringVar(&s.voice.model, "transcribe-model", "whisper-1",
		"model that --transcribe names to its endpoint; its key is HUBBUB_TRANSCRIBE_KEY")
	fs.StringVar(&s.voice.pdf, "read-pdf", "",
		"what turns a PDF into text: a command in shell words, which gets it as its standard input and writes the "+
			"text, such as pdftotext -q - -")
	fs.StringVar(&s.mcpFile, "mcp-file", "", "JSON file with MCP servers whose tools the model gets")
	fs.StringArrayVar(&s.words.Stop, "stop-words", nil,
		"words that stop what is running, in place of those that it knows in twelve languages (repeatable)")
	fs.StringArrayVar(&s.words.Acks, "thanks-words", nil,
		"words that need no answer, such as thanks, in place of those that it knows (repeatable)")
	fs.StringArrayVar(&s.words.Leave, "leave-words", nil,
		"words that ask the agent, by a mention, to leave a chat, in place of those that it knows (repeatable)")
	fs.StringArrayVar(&s.words.Yes, "yes-words", nil,
		"words that allow what --approve asks about, in place of those that it knows in twelve languages (repeatable)")
	fs.StringArrayVar(&s.words.No, "no-words", nil,
		"words that deny it, in place of those that it knows (repeatable)")
	fs.StringArrayVar(&s.words.Unclear, "unclear-words", nil,
		"words, such as not yet, with which no answer is a clear one, in place of those that it knows (repeatable)")
	fs.StringVar(&o.WakePolicy, "wake-policy", "auto", "auto or manual: whether the collaboration broker may wake it")
	b := attention.DefaultBudget
	o.Budget = &b
	fs.IntVar(&b.AuthorTurns, "budget-author-turns", b.AuthorTurns,
		"turns for one author (for a Chorus inbox: for all of its senders) within 24 hours; 0 for no bound")
	fs.IntVar(&b.ChatTurns, "budget-chat-turns", b.ChatTurns, "turns in one chat within 24 hours; 0 for no bound")
	fs.IntVar(&b.Turns, "budget-turns", b.Turns, "turns within 24 hours; 0 for no bound")
	fs.Int64Var(&b.ChatTokens, "budget-chat-tokens", b.ChatTokens,
		"tokens that turns of one chat take within 24 hours; 0 for no bound")
	fs.Int64Var(&b.Tokens, "budget-tokens", b.Tokens, "tokens that turns take within 24 hours; 0 for no bound")
	fs.IntVar(&b.ChatPosts, "budget-posts", b.ChatPosts,
		"times that it speaks first in one chat (chat.post) within 24 hours; 0 for no bound")
	fs.StringArrayVar(&s.reach.allow, "allow-target", nil,
		"addresses that may be called although they are not public, or by http, as CIDR: of a Chorus gateway that is "+
			"not on the machine of the bus, of what the card at --a2a-url names (repeatable)")
	fs.BoolVar(&s.noRedact, "no-redact", false,
		"give a model the secrets in what tools answer; otherwise what has the shape of one is replaced by its name")
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`)

// agentName returns the name in --id.
func agentName(id string) string { return strings.TrimPrefix(id, "agent:") }

// check checks the settings, and completes them.
func (s *settings) check(_ context.Context, env *program.Env) error {
	name := agentName(s.id)
	if !validName.MatchString(name) || name == protocol.PeerSystem.Name() {
		return program.Usage("--id %q is no name of an agent: use a-z, 0-9 and -, at most 48 characters, beginning "+
			"with a letter or digit", s.id)
	}
	if err := s.complete(env); err != nil {
		return err
	}
	return s.checkHarness(env)
}

func (s *settings) run(ctx context.Context, env *program.Env) (failed error) {
	name := agentName(s.id)
	if !s.noRedact {
		s.agent.Redact = redact.New()
	}
	data, err := env.MakeData()
	if err != nil {
		return err
	}
	h, memory, err := s.newHarness(env, data)
	if err != nil {
		return err
	}
	if memory != nil {
		defer memory.Close() //nolint:errcheck // every write was committed
	}
	db, err := agent.Open(filepath.Join(data, "agent-"+name+".db"))
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, db.Close()) }()
	listener, own, err := mcptools.Listen()
	if err != nil {
		return fmt.Errorf("listening for the agent's tools: %w", err)
	}
	address := mcptools.Address{URL: own, Token: mcptools.NewToken()}
	env.Hide(address.Token)
	hide := func(server harness.MCPServer) harness.MCPServer {
		env.Hide(strings.TrimPrefix(server.Headers["Authorization"], "Bearer "))
		return server
	}
	s.agent.ChatServer = func(chat string) harness.MCPServer { return hide(address.ForChat(chat)) }
	guard := s.reach.beside(env.Buses)
	relay := mcptools.NewRelay(address, guard)
	s.agent.Fetch = &http.Client{
		Transport:     netguard.NewTransport(guard),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.agent.Transcribe, s.agent.ReadPDF = s.voice.transcriber(env), s.voice.pdfReader()
	s.agent.GuardServer = func(server harness.MCPServer) harness.MCPServer { return hide(relay.Register(server)) }
	a := agent.New(protocol.AgentID(name), db, h, &s.agent)
	if err := mcptools.WriteAddress(filepath.Join(data, "mcp.json"), address); err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	tools, stopTools := context.WithCancel(ctx)
	g.Go(func() error {
		defer stopTools()
		return a.Run(ctx)
	})
	g.Go(func() error {
		return mcptools.Serve(tools, listener, mcptools.NewToolServer(a.ToolsFor, address.Token, relay))
	})
	return g.Wait()
}

// besideBuses adds the machines of the buses to the allowed addresses. The gateway whose tools a
// message names usually runs there, and a bus is trusted with more.
func besideBuses(allowed []netip.Prefix, buses []string) []netip.Prefix {
	for _, bus := range buses {
		u, err := url.Parse(bus)
		if err != nil {
			continue
		}
		if netguard.IsLoopback(u.Hostname()) {
			allowed = append(allowed, netguard.Loopback...)
		} else if p, err := netguard.ParsePrefix(u.Hostname()); err == nil {
			allowed = append(allowed, p)
		}
	}
	return allowed
}

// complete checks the flags and adds defaults.
func (s *settings) complete(env *program.Env) (err error) {
	o := &s.agent
	switch o.Version, err = attention.ParseVersion(s.policyVersion); {
	case err != nil:
		return program.Usage("--policy-version: %s", err)
	case o.WakePolicy != "auto" && o.WakePolicy != "manual":
		return program.Usage("--wake-policy must be auto or manual")
	case s.endpoint.baseURL != "" && !isAddress(s.endpoint.baseURL):
		return program.Usage("--base-url %q is not an address such as https://host/v1", s.endpoint.baseURL)
	case min(o.Budget.AuthorTurns, o.Budget.ChatTurns, o.Budget.Turns,
		o.Budget.ChatPosts) < 0 || min(o.Budget.ChatTokens, o.Budget.Tokens) < 0:
		return program.Usage("a --budget must not be negative; 0 is no bound")
	case min(o.Returns.Immediate, o.Returns.Buffered, o.Returns.Notify) < 0:
		return program.Usage("--obligation-immediate, --obligation-buffered and --obligation-notify must not be " +
			"negative; 0 is never")
	case o.ComposeWindow < 0 || o.ComposeCap < o.ComposeWindow || o.Deadline <= 0 || o.Escalation.Timeout <= 0 ||
		o.DeferFor <= 0 ||
		o.DigestEvery < 0:
		return program.Usage("--compose-window, --compose-cap, --deadline, --escalate-after, --defer-for and " +
			"--digest-every must not be negative, and the cap not below the window")
	}
	if o.Zone, err = zoneOf(s.timeZone); err != nil {
		return program.Usage("--time-zone %q is not a time zone: use a name such as Europe/Berlin", s.timeZone)
	}
	if o.Node == "" {
		if name, err := os.Hostname(); err == nil {
			o.Node, _, _ = strings.Cut(name, ".")
		}
	}
	for i, alias := range o.Aliases {
		alias = strings.TrimPrefix(alias, "@")
		if o.Aliases[i] = alias; alias == "" || strings.ContainsAny(alias, "@: \t\n") {
			return program.Usage("--alias %q is not a name: use one word, as in a mention", alias)
		}
	}
	if err := program.EachAlone(o.Approve, "write each alone"); err != nil {
		return program.Usage("--approve: %s", err)
	}
	o.ComposeWindow, o.ComposeCap = max(o.ComposeWindow, 1), max(o.ComposeCap, 1) // zero is their default
	for _, text := range s.reach.allow {
		p, err := netguard.ParsePrefix(text)
		if err != nil {
			return program.Usage("--allow-target %q is not a CIDR such as 10.1.0.0/16", text)
		}
		s.reach.targets = append(s.reach.targets, p)
	}
	words := attention.DefaultWords()
	for given, at := range map[*[]string]*[]string{
		&s.words.Stop:  &words.Stop,
		&s.words.Acks:  &words.Acks,
		&s.words.Leave: &words.Leave,

		&s.words.Yes: &words.Yes, &s.words.No: &words.No, &s.words.Unclear: &words.Unclear,
	} {
		if len(*given) > 0 {
			*at = *given
		}
	}
	o.Words = &words
	for i, role := range o.Roles {
		o.Roles[i] = strings.TrimPrefix(strings.TrimPrefix(role, "role:"), "@")
	}
	if s.systemPrompt != "" {
		if o.SystemPrompt, err = readText(s.systemPrompt); err != nil {
			return err
		}
	}
	if given := o.Workspace; given != "" {
		if o.Workspace, err = filepath.Abs(given); err != nil {
			return err
		}
		switch info, err := os.Stat(o.Workspace); {
		case err != nil:
			return program.Usage("--workspace %s is not a folder: %w", given, err)
		case !info.IsDir():
			return program.Usage("--workspace %s is not a folder", given)
		}
	}
	if _, err := s.voice.command(); err != nil {
		return program.Usage("--transcribe: %s", err)
	}
	if _, err := commandOf(s.voice.pdf); err != nil {
		return program.Usage("--read-pdf: %s", err)
	}
	if s.mcpFile != "" {
		if o.MCP, err = mcptools.LoadServers(s.mcpFile); err != nil {
			return program.Usage("--mcp-file: %w", err)
		}
	}
	o.Model = cmp.Or(s.endpoint.model, s.harnessCommand)
	o.ModelName = cmp.Or(s.endpoint.model, model.APIs[s.harness].DefaultModel)
	o.Peer, o.HarnessType, o.Log, o.OnReady = env.PeerOptions(), s.harness, &env.Log, env.Ready
	return nil
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

const maxPrompt = 256 << 10

func readText(path string) (string, error) {
	raw, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "", program.Usage("--system-prompt-file: %w", err)
	case len(raw) > maxPrompt:
		return "", program.Usage("--system-prompt-file %s has %d bytes; at most %d are taken", path, len(raw),
			maxPrompt)
	}
	prompt, ok := text.Decode(raw)
	if !ok {
		return "", program.Usage("--system-prompt-file %s is no text: save it as UTF-8", path)
	}
	return prompt, nil
}
