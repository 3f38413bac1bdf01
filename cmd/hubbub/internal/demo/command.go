package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hubbub/activitylog/read"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/hubbub/internal/up"
	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"

	"github.com/spf13/cobra"
)

// NewCommand returns the command `hubbub demo`.
func NewCommand() *cobra.Command {
	var exit bool
	cmd := &cobra.Command{
		Use:         "demo",
		Annotations: map[string]string{program.NoData: ""},
		Short:       "Show the whole system at work, without a token or network",
		Long: "Start the real programs against a Bot API server in this process, play a short group chat, and\n" +
			"show the conversation beside the rows of the activity log. The agents are scripted: they follow\n" +
			"fixed rules and use no language model. Afterwards you can type, here or with `hubbub chat`. All\n" +
			"data is in a temporary folder unless --data names another.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, exit) },
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the script (the default without a terminal)")
	return cmd
}

// demoSettings is the settings file of the demo, for `hubbub up`.
const demoSettings = `# The settings of this demo, as a file of "hubbub up --config".

[bus]
listen = %q

[system]

[broker]

[tg]
api-url = %q      # the demo's Bot API server; omit for Telegram
allow-chat = [%d]
allow-user = [%d]
poll-timeout = "20s"
min-send-interval = "100ms"  # for Telegram, about a second

[agent]
harness = "scripted"
role = ["backend-agents"]
compose-window = "300ms"     # the default waits 2s for more from the same author
`

// A demoRun is one run of the demo.
type demoRun struct {
	env       *program.Env
	data      string
	keepsData bool // the data folder outlives the demo
	server    *ChatServer
	fleet     *fleet.Fleet
	plan      *up.Plan
	log       *os.File
	reader    *read.Reader
	script    *Script
	wg        sync.WaitGroup
}

func runDemo(cmd *cobra.Command, exit bool) error {
	env := program.From(cmd)
	data, removeData, err := demoFolder(cmd, env)
	if err != nil {
		return err
	}
	defer removeData()
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	env.OnBrokenPipe(func() { cancel(nil) })

	s := &demoRun{env: env, data: data, keepsData: cmd.Flags().Changed("data")}
	removeAddress, err := s.prepare(ctx, cancel)
	if err == nil {
		defer removeAddress()
		err = s.run(ctx, exit)
	}
	if err != nil && ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	return errors.Join(err, s.stop(cancel))
}

// demoFolder returns the data folder of the demo and a function that cleans it up.
func demoFolder(cmd *cobra.Command, env *program.Env) (string, func(), error) {
	if cmd.Flags().Changed("data") {
		// Each demo starts new chats, which would not match older data.
		if list, err := os.ReadDir(env.Data); err == nil && len(list) > 0 {
			return "", nil, program.Usage("the folder %s of --data is not empty; the demo needs an empty one", env.Data)
		}
		data, err := env.MakeData()
		return data, func() {}, err
	}
	data, err := os.MkdirTemp("", "hubbub-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	return data, func() { _ = os.RemoveAll(data) }, nil // the system removes temporary files too
}

// prepare starts the chat server, the programs and the printer, and waits until the programs are
// ready.
func (s *demoRun) prepare(ctx context.Context, fail context.CancelCauseFunc) (func(), error) {
	key := rand.Text()
	s.server = NewChatServer(key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the demo's Bot API: %w", err)
	}
	api := "http://" + l.Addr().String()
	s.background(fail, func() error { return s.server.Run(ctx, l) })
	if err := s.makePlan(api); err != nil {
		return nil, err
	}
	if s.log, err = os.OpenFile(
		filepath.Join(s.data, "demo.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600,
	); err != nil {
		return nil, err
	}
	printer := fleet.NewPrinter(s.log, fleet.Plain, 6)
	s.fleet = fleet.New(s.plan.Children, &fleet.Options{Line: printer.Line, Event: printer.Event})
	s.printIntroduction()
	s.background(fail, func() error { return s.fleet.Run(ctx) })
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	s.reader = read.Open(filepath.Join(s.data, "activity.db"))
	from, err := s.reader.End(ctx)
	if err != nil {
		return nil, err
	}
	out := s.env.Stdout
	narrator := NewPrinter(s.server, s.reader, from, out, term.Columns(out))
	s.background(fail, func() error { return narrator.Run(ctx) })
	s.script = &Script{Server: s.server, Printer: narrator, KillAgent: s.killAgent, AddAgent: s.addAgent}
	if term.Columns(out) > 0 {
		s.script.Pause = 1500 * time.Millisecond
	}
	return writeAddress(Address{URL: api, Key: key, Data: s.data})
}

// background runs a part of the demo in a goroutine. If the part fails, the demo ends.
func (s *demoRun) background(fail context.CancelCauseFunc, run func() error) {
	s.wg.Go(func() {
		if err := run(); err != nil {
			fail(err)
		}
	})
}

// stop stops everything and waits for it.
func (s *demoRun) stop(cancel context.CancelCauseFunc) error {
	cancel(nil)
	s.wg.Wait()
	if s.reader != nil {
		s.reader.Close()
	}
	if s.log == nil {
		return nil
	}
	return s.log.Close()
}

// makePlan plans the programs as `hubbub up` would.
func (s *demoRun) makePlan(api string) error {
	listen, err := FreeAddress()
	if err != nil {
		return err
	}
	file := filepath.Join(s.data, "hubbub.toml")
	text := fmt.Sprintf(demoSettings, listen, api, s.server.Group.ID, s.server.You.ID)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	settings, err := program.ReadTOML(file)
	if err != nil {
		return err
	}
	r := up.Request{File: file, Settings: settings, Data: s.data, LogLevel: "info", Find: program.Find}
	r.Env = append(up.WithoutSettings(os.Environ()), "TELEGRAM_BOT_TOKEN="+s.server.API.Token())
	if s.plan, err = up.NewPlan(r); err != nil {
		return err
	}
	return provision.Provision(s.data, s.plan.AgentEnv)
}

// FreeAddress returns a loopback address that is not in use. Its port is below the range that
// systems assign to connections, since a program listens later.
func FreeAddress() (address string, err error) {
	for range 100 {
		var l net.Listener
		address = fmt.Sprintf("127.0.0.1:%d", 20_000+mathrand.IntN(12_000))
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("finding a free port: %w", err)
}

// introduction says what the demo shows.
const introduction = `%s

Programs:        %s, and the agents that they start
Telegram:        a Bot API server in this process; nothing leaves this machine
Agents:          scripted, without a language model; their replies say so
Data and logs:   %s

Left: what people see in the chat. Right: the rows that each step wrote to the activity log.
%s
`

// printf prints to standard output, folded to the width of the terminal.
func (s *demoRun) printf(format string, args ...any) {
	fmt.Fprint(s.env.Stdout, term.Fold(fmt.Sprintf(format, args...), term.Columns(s.env.Stdout)))
}

func (s *demoRun) printIntroduction() {
	paint := term.NewPainter(s.env.Stdout)
	var names []string
	for _, c := range s.plan.Children {
		names = append(names, "hubbub-"+c.Name)
	}
	s.printf(introduction, paint.Paint(term.Bold, "Hubbub demo"), strings.Join(names, ", "), s.data,
		paint.Paint(
			term.Dim, "#12-15 are row numbers: send_start, process_start and process_finish of each receiver, "+
				"send_finish.",
		))
}

// startTimeout bounds the start of the programs.
const startTimeout = 2 * time.Minute

func (s *demoRun) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	for _, c := range s.plan.Children {
		if err := s.fleet.Ready(ctx, c.Name); err != nil {
			return fmt.Errorf("starting %s: %w; its log:\n%s", c.Name, err, s.lastLogLines(12))
		}
	}
	return nil
}

// lastLogLines returns the last lines of the programs' log.
func (s *demoRun) lastLogLines(n int) string {
	raw, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// run runs the script, and then lets a person type.
func (s *demoRun) run(ctx context.Context, exit bool) error {
	if err := s.script.Run(ctx); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w; the last lines of the programs' logs:\n%s", err, s.lastLogLines(12))
		}
		return err
	}
	stays := !exit && term.IsTerminal(s.env.Stdin)
	s.printConclusion(ctx, stays)
	if !stays {
		return nil
	}
	s.printf("\nNow it's your turn. What you type goes to the bot as a direct message; `/group TEXT` writes to\n"+
		"the group. `%s chat` does the same from another terminal. Ctrl-C ends the demo.\n\n", up.ProgramName())
	return s.readTyped(ctx, s.env.Stdin)
}

// killAgent kills the process of an agent, as a crash would end it.
func (s *demoRun) killAgent(ctx context.Context, name string) error {
	pid, err := AgentPID(ctx, s.data, name)
	if err != nil {
		return err
	}
	return Kill(pid)
}

// addAgent asks the spawner for another agent in a chat, and waits for it.
func (s *demoRun) addAgent(ctx context.Context, topic protocol.Topic, name string) error {
	options := s.env.PeerOptions()
	options.Buses = []string{s.plan.Bus}
	options.TokenFunc = func() (string, error) { return s.env.SecretFile(program.TokenPath(s.data, "cli")) }
	return busclient.StartAgent(ctx, options, topic, name)
}

// printConclusion prints how to read the log again, if the folder stays.
func (s *demoRun) printConclusion(ctx context.Context, stays bool) {
	if !stays && !s.keepsData {
		return
	}
	where := "To read it again:"
	commands := []string{"stats", "tail"}
	hubbub := up.ProgramName()
	if stays {
		where = "To look at it from another terminal:"
		commands = append(commands, "console --bus "+s.plan.Bus)
	}
	s.printf("\nEverything is in the activity log. %s\n\n", where)
	for _, c := range commands {
		fmt.Fprintf(s.env.Stdout, "  %s %s --data %s\n", hubbub, c, s.data)
	}
	if stays {
		s.printf("\nThe %s\n"+consoleTour, s.plan.ConsoleHint(ctx, s.env))
	}
}

// consoleTour says what to look at in the console.
const consoleTour = `In it, Activity shows each row as it is written. Open a message to see everything that it caused.
Chats and agents shows why each agent was woken or not. Work shows who claimed what.
`

// readTyped sends the lines that a person types until the input ends.
func (s *demoRun) readTyped(ctx context.Context, stdin io.Reader) error {
	return ForEachLine(ctx, stdin, func(text string, group bool) error {
		chat := s.server.API.DM(s.server.You)
		if group {
			chat = s.server.Group
		}
		s.server.Say(chat, s.server.You, text)
		return nil
	})
}
