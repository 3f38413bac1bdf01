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
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/attention"
	"hubbub/peers/netguard"
	"hubbub/protocol"
	"hubbub/protocol/http1"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"

	"golang.org/x/sync/errgroup"
)

// settings are the values of the flags.
type settings struct {
	agent          agent.Options
	ID             string `flag:"id" usage:"name of the agent, with or without agent: (required)"`
	Harness        string `flag:"harness" default:"scripted" usage:"what runs its turns: scripted, openai, anthropic, acp, c2a or a2a"`
	HarnessCommand string `flag:"harness-command" usage:"program of the harness acp or c2a, in shell words"`
	endpoint       endpoint
	SystemPrompt   string `flag:"system-prompt-file" usage:"file with the text that begins the system prompt"`
	PolicyVersion  string `flag:"policy-version" default:"2026-06-02" usage:"draft of C2A: 2026-06-02, 2026-06-24 or 2026-08-11"`
	TimeZone       string `flag:"time-zone" usage:"time zone of the chats, such as Europe/Berlin, in which the agent reads and tells times (default that of the machine)"`
	Permission     string `flag:"permission" default:"reading" usage:"what the harness acp may do unasked: reading, everything or nothing; or ask, which is like reading, but a person decides on the rest"`
	MCPFile        string `flag:"mcp-file" usage:"JSON file with MCP servers whose tools the model gets"`
	conversion     conversion
	NoRedact       bool `flag:"no-redact" usage:"give a model the results of tools unchanged; otherwise each text that looks like a secret is replaced by the name of its kind"`
	targets        targetSettings

	words attention.Words // replaces the default ones
}

// An endpoint is the address of a model, with the limits of its answers.
type endpoint struct {
	Model     string `flag:"model" usage:"model of the harness openai or anthropic (default gpt-5-mini or claude-sonnet-4-5)"`
	BaseURL   string `flag:"base-url" usage:"endpoint of the harness openai or anthropic, with /v1, such as http://127.0.0.1:11434/v1 of Ollama (default the provider's own)"`
	MaxTokens int    `flag:"max-tokens" default:"4096" usage:"maximum output tokens of one answer of the harness openai or anthropic; a longer answer is shortened, or marked as cut"`
}

// targetSettings are the addresses that may be called in addition to buses and models.
type targetSettings struct {
	A2AURL  string         `flag:"a2a-url" usage:"address of an external agent that speaks A2A 1.0, for the harness a2a; its card is below the address, and its token comes from HUBBUB_A2A_TOKEN"`
	Allow   []string       `flag:"allow-target" usage:"addresses, as CIDR, that may be called although they are not public, and by http, such as that of a Chorus gateway on another machine than the bus, that in --files-url of a bridge, or those in the card at --a2a-url (repeatable)"`
	allowed []netip.Prefix // of allow
}

// policyFor returns a policy that allows the addresses named by the operator, and the machines of
// the operator's other addresses.
func (r *targetSettings) policyFor(given []string) *netguard.Policy {
	return netguard.New(withBusHosts(r.allowed, given))
}

// gcPercent keeps the heap of an agent near the 1.5 MB that it needs. Most agents are idle,
// and a machine may run hundreds. Go's default would let each heap grow to 4 MB.
const gcPercent = 40

// processors keeps an agent on one processor at a time. It has little to compute, one thing after
// the other. A second processor costs more than it brings: threads wake each other, and the garbage
// collector waits for every thread, even one that a busy machine is not running.
const processors = 1

func newSettings() *settings {
	return &settings{agent: agent.Options{
		Budget:  new(attention.DefaultBudget),
		Returns: new(attention.DefaultReturnIntervals),
	}}
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors)
	}
	s := newSettings()
	program.Main(program.Program{
		Name:     "hubbub-agent",
		Summary:  "runs one agent of the bus",
		Settings: []any{s, &s.endpoint, &s.targets, &s.agent, &s.conversion, &s.words},
		Check:    s.check,
		Run:      s.run,
	})
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`)

// agentName returns the name in --id.
func agentName(id string) string { return strings.TrimPrefix(id, "agent:") }

// check checks the settings, and completes them.
func (s *settings) check(_ context.Context, env *program.Env) error {
	name := agentName(s.ID)
	if !validName.MatchString(name) || name == protocol.PeerSystem.Name() {
		return program.Usage("--id %q is not a name of an agent: use a-z, 0-9 and -, at most 48 characters, beginning "+
			"with a letter or digit", s.ID)
	}
	if err := s.complete(env); err != nil {
		return err
	}
	return s.checkHarness(env)
}

func (s *settings) run(ctx context.Context, env *program.Env) (failed error) {
	name := agentName(s.ID)
	if !s.NoRedact {
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
	guard := s.targets.policyFor(env.Buses)
	relay := mcptools.NewRelay(address, guard)
	s.agent.Fetch = &http.Client{
		Transport:     netguard.NewTransport(guard),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.agent.Transcribe, s.agent.ReadPDF = s.conversion.transcriber(env), s.conversion.pdfReader()
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
		server := http1.NewServer(mcptools.NewToolServer(a.ToolsFor, address.Token, relay))
		return http1.Serve(tools, listener, server, 2*time.Second)
	})
	return g.Wait()
}

// withBusHosts adds the machines of the buses to the allowed addresses. The gateway whose tools a
// message names usually runs there, and a bus is trusted with more.
func withBusHosts(allowed []netip.Prefix, buses []string) []netip.Prefix {
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
	switch o.Version, err = attention.ParseVersion(s.PolicyVersion); {
	case err != nil:
		return program.Usage("--policy-version: %s", err)
	case o.WakePolicy != "auto" && o.WakePolicy != "manual":
		return program.Usage("--wake-policy must be auto or manual")
	case s.endpoint.BaseURL != "" && !isAddress(s.endpoint.BaseURL):
		return program.Usage("--base-url %q is not an address such as https://host/v1", s.endpoint.BaseURL)
	case o.ComposeCap < o.ComposeWindow:
		return program.Usage("--compose-cap must not be less than --compose-window")
	}
	if o.Zone, err = zoneOf(s.TimeZone); err != nil {
		return program.Usage("--time-zone %q is not a time zone: use a name such as Europe/Berlin", s.TimeZone)
	}
	if o.Node == "" {
		if name, err := os.Hostname(); err == nil {
			o.Node, _, _ = strings.Cut(name, ".")
		}
	}
	if o.Aliases, err = attention.ParseAliases(o.Aliases); err != nil {
		return program.Usage("--alias: %s", err)
	}
	if err := program.EachAlone(o.Approve, "write each alone"); err != nil {
		return program.Usage("--approve: %s", err)
	}
	o.ComposeWindow, o.ComposeCap = max(o.ComposeWindow, 1), max(o.ComposeCap, 1) // zero is their default
	for _, text := range s.targets.Allow {
		p, err := netguard.ParsePrefix(text)
		if err != nil {
			return program.Usage("--allow-target %q is not a CIDR such as 10.1.0.0/16", text)
		}
		s.targets.allowed = append(s.targets.allowed, p)
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
	if s.SystemPrompt != "" {
		if o.SystemPrompt, err = readText(s.SystemPrompt); err != nil {
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
	if _, err := s.conversion.command(); err != nil {
		return program.Usage("--transcribe: %w", err)
	}
	if _, err := commandOf(s.conversion.PDF); err != nil {
		return program.Usage("--read-pdf: %w", err)
	}
	if s.MCPFile != "" {
		if o.MCP, err = mcptools.LoadServers(s.MCPFile); err != nil {
			return program.Usage("--mcp-file: %w", err)
		}
	}
	o.Model = cmp.Or(s.endpoint.Model, s.HarnessCommand)
	o.ModelName = cmp.Or(s.endpoint.Model, model.APIs[s.Harness].DefaultModel)
	o.Peer, o.HarnessType, o.Log, o.OnReady = env.PeerOptions(), s.Harness, &env.Log, env.Ready
	o.OnIdle = debug.FreeOSMemory
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
		return "", program.Usage("--system-prompt-file %s has %d bytes; the limit is %d", path, len(raw),
			maxPrompt)
	}
	prompt, ok := text.Decode(raw)
	if !ok {
		return "", program.Usage("--system-prompt-file %s is not text: save it as UTF-8", path)
	}
	return prompt, nil
}
