package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"hubbub/cmd/hubbub/internal/demo"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/hubbub/internal/up"
	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol/http1"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
	"github.com/spf13/cobra"
)

// answerTimeout bounds the wait for one answer. Starting many agents takes a while.
const answerTimeout = time.Minute

// untilIdle is the time after which idle programs have returned the memory that messages used.
const untilIdle = 15 * time.Second

func newChatCommand() *cobra.Command {
	var chats, messages int
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Measure what a chat message costs",
		Long: "Start the real programs and a Bot API server in a temporary folder. In each of --chats direct\n" +
			"chats, which run at the same time, a person writes --messages messages, one after each answer\n" +
			"of a scripted agent. The time of a message runs from the update to the call of sendMessage.\n" +
			"Processor time is read from /proc, and so is memory, once the programs have been idle for 15\n" +
			"seconds. If strace is installed, a second round counts disk syncs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if chats < 1 || chats > 1000 || messages < 1 || messages > 10_000 {
				return program.Usage("--chats must be from 1 to 1000, and --messages from 1 to 10000")
			}
			return benchChat(cmd, chats, messages)
		},
	}
	cmd.Flags().IntVar(&chats, "chats", 1, "number of chats, each with an agent of its own")
	cmd.Flags().IntVar(&messages, "messages", 100, "number of messages in each chat")
	return cmd
}

// chatSettings is the settings file of the measured programs. The spawn rate, Telegram's pacing
// and the wait for more messages from the same author do not delay anything.
const chatSettings = `[bus]
listen = %q

[system]
max-agents = 1001
spawn-rate = 1001

[broker]

[tg]
api-url = %q
allow-user = [%s]
min-send-interval = "1ms"
bot-per-second = 0

[agent]
harness = "scripted"
compose-window = "1ms"
`

// A chatResult is the result of `hubbub bench chat`.
type chatResult struct {
	Chats     int           `json:"chats"`
	Messages  int           `json:"messages"` // in all chats
	PerSecond float64       `json:"messages_per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Start     time.Duration `json:"start_ns"` // until each chat had its first answer
	Programs  []chatProgram `json:"programs"`
}

// A chatProgram is what the processes of one program used.
type chatProgram struct {
	Name      string  `json:"name"`
	Processes int     `json:"processes"`
	CPU       float64 `json:"cpu_ms_per_message"`
	StartCPU  float64 `json:"start_cpu_ms"`      // of all processes, until each chat had its first answer
	Syncs     float64 `json:"syncs_per_message"` // -1 if unknown
	Memory    float64 `json:"memory_mib"`        // of one process: private, without the program's file
}

// A chatBench runs the programs of one measurement.
type chatBench struct {
	ctx    context.Context
	data   string
	server *tgtest.Server
	people []models.User
	sent   map[int64]chan struct{} // by chat: receives when the bot sends a message
}

func benchChat(cmd *cobra.Command, chats, messages int) (err error) {
	data, err := os.MkdirTemp("", "hubbub-bench-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(data) //nolint:errcheck // the system removes temporary files, too
	ctx, cancel := context.WithCancelCause(cmd.Context())
	program.From(cmd).OnBrokenPipe(func() { cancel(nil) })
	b := &chatBench{ctx: ctx, data: data, sent: map[int64]chan struct{}{}}
	var wg sync.WaitGroup
	defer func() { cancel(nil); wg.Wait() }()
	background := func(run func() error) {
		wg.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	programs, err := b.start(chats, background)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	result, err := b.measure(chats, messages, programs)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	err = output.Result(cmd, result, func(p *output.Printer) { printChatResult(p, result) })
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// start starts the Bot API server and the programs, and waits until they are ready.
func (b *chatBench) start(chats int, background func(run func() error)) (*fleet.Fleet, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the Bot API: %w", err)
	}
	b.server = tgtest.New(&tgtest.Options{OnCall: b.record})
	var ids []string
	for i := range chats {
		u := b.server.User(fmt.Sprint("Person ", i))
		b.server.DM(u)
		b.people, ids = append(b.people, u), append(ids, fmt.Sprint(u.ID))
		b.sent[u.ID] = make(chan struct{}, 1)
	}
	server := &http.Server{
		Handler:           b.server,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return b.ctx },
	}
	background(func() error {
		if err := http1.Serve(b.ctx, listener, server, 0); err != nil {
			return fmt.Errorf("serving the Bot API: %w", err)
		}
		return nil
	})
	return b.startPrograms("http://"+listener.Addr().String(), ids, background)
}

func (b *chatBench) startPrograms(api string, ids []string, background func(run func() error)) (*fleet.Fleet, error) {
	address, err := demo.FreeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.data, "hubbub.toml")
	content := fmt.Sprintf(chatSettings, address, api, strings.Join(ids, ", "))
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return nil, err
	}
	settings, err := program.ReadTOML(file)
	if err != nil {
		return nil, err
	}
	plan, err := up.NewPlan(up.Request{
		File: file, Settings: settings, Data: b.data, LogLevel: "warn", Find: program.Find,
		Env: append(up.WithoutSettings(os.Environ()), "TELEGRAM_BOT_TOKEN="+b.server.Token()),
	})
	if err != nil {
		return nil, err
	}
	if err := provision.Provision(b.data, plan.AgentEnv); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(b.data, "bench.log"))
	if err != nil {
		return nil, err
	}
	printer := fleet.NewPrinter(log, fleet.Plain, 6)
	programs := fleet.New(plan.Children, &fleet.Options{Line: printer.Line, Event: printer.Event})
	background(func() error { return errors.Join(programs.Run(b.ctx), log.Close()) })
	for _, c := range plan.Children {
		if err := programs.Ready(b.ctx, c.Name); err != nil {
			lines, _ := os.ReadFile(log.Name()) //nolint:errcheck // the error names the program
			return nil, fmt.Errorf("starting %s: %w\n%s", c.Name, err, lines)
		}
	}
	return programs, nil
}

// measure lets people write, and reads what the processes used.
func (b *chatBench) measure(chats, messages int, programs *fleet.Fleet) (*chatResult, error) {
	began := time.Now()
	if _, err := b.talk(1); err != nil {
		return nil, err
	}
	r := &chatResult{Chats: chats, Messages: chats * messages, Start: time.Since(began)}
	processes, err := b.processes(programs)
	if err != nil {
		return nil, err
	}
	before := make([]float64, len(processes))
	for i := range processes {
		before[i] = processes[i].cpu()
	}
	began = time.Now()
	latencies, err := b.talk(messages)
	if err != nil {
		return nil, err
	}
	r.PerSecond = float64(r.Messages) / time.Since(began).Seconds()
	slices.Sort(latencies)
	r.P50, r.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	for i := range processes {
		p := &processes[i]
		p.used, p.started = p.cpu()-before[i], before[i]
	}
	retry.Sleep(b.ctx, untilIdle)
	for i := range processes {
		processes[i].memory = processes[i].private()
	}
	round := min(messages, 20)
	if err := countSyncs(b.ctx, processes, func() error { _, err := b.talk(round); return err }); err != nil {
		return nil, err
	}
	r.Programs = summarize(processes, float64(r.Messages), float64(chats*round))
	return r, nil
}

// talk lets each person write n messages. It returns the time that each answer took.
func (b *chatBench) talk(n int) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	for _, person := range b.people {
		wg.Go(func() {
			for range n {
				began := time.Now()
				b.server.Say(b.server.DM(person), person, "hello")
				err := b.awaitAnswer(person)
				mu.Lock()
				all = append(all, time.Since(began))
				failed = errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return all, failed
}

// record tells the person of a chat that the bot has sent a message.
func (b *chatBench) record(c tgtest.Call) {
	if c.Method != "sendMessage" && c.Method != "sendRichMessage" {
		return
	}
	select {
	case b.sent[c.ChatID] <- struct{}{}:
	default:
	}
}

func (b *chatBench) awaitAnswer(person models.User) error {
	select {
	case <-b.sent[person.ID]:
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	case <-time.After(answerTimeout):
		return fmt.Errorf("no answer within %s", answerTimeout)
	}
}

// processes returns the processes of the programs and of the agents.
func (b *chatBench) processes(programs *fleet.Fleet) ([]process, error) {
	var all []process
	for _, name := range []string{"bus", "tg", "system", "broker"} {
		all = append(all, process{name: name, pid: programs.PID(name)})
	}
	for _, person := range b.people {
		name := fmt.Sprint("tg-", person.ID)
		pid, err := demo.AgentPID(b.ctx, b.data, name)
		for try := 0; err != nil && try < 50 && retry.Sleep(b.ctx, 200*time.Millisecond); try++ {
			pid, err = demo.AgentPID(b.ctx, b.data, name) // an agent may answer before the spawner has stored it
		}
		if err != nil {
			return nil, err
		}
		all = append(all, process{name: "agent", pid: pid})
	}
	return all, nil
}

// summarize adds up the processes of each program.
func summarize(processes []process, messages, counted float64) (list []chatProgram) {
	for _, p := range processes {
		i := slices.IndexFunc(list, func(c chatProgram) bool { return c.Name == p.name })
		if i < 0 {
			i, list = len(list), append(list, chatProgram{Name: p.name})
		}
		c := &list[i]
		c.Processes++
		c.CPU += 1000 * p.used / messages
		c.StartCPU += 1000 * p.started
		c.Syncs += float64(p.syncs) / counted
		c.Memory = max(c.Memory, float64(p.memory)/(1<<20))
		if p.syncs < 0 {
			c.Syncs = -1
		}
	}
	return list
}

func printChatResult(p *output.Printer, r *chatResult) {
	p.Linef("%s, %s: %.0f messages/s, p50 %.1f ms, p99 %.1f ms;\nfirst answers after %.1f s\n",
		text.Counted(r.Chats, "chat"), text.Counted(r.Messages, "message"), r.PerSecond, r.P50.Seconds()*1e3, r.P99.Seconds()*1e3, r.Start.Seconds())
	t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tprocesses\tCPU ms/message\tsyncs/message\tmemory MiB\tCPU s to start\t")
	var cpu, syncs, start float64
	for _, c := range r.Programs {
		printChatRow(t, c)
		cpu, start = cpu+c.CPU, start+c.StartCPU
		if syncs += c.Syncs; c.Syncs < 0 {
			syncs = -1
		}
	}
	fmt.Fprintf(t, "sum\t\t%.1f\t%s\t\t%.2f\t\n", cpu, countText(syncs), start/1000)
	p.Err = t.Flush()
}

func printChatRow(w io.Writer, c chatProgram) {
	fmt.Fprintf(w, "%s\t%d\t%.1f\t%s\t%.1f\t%.2f\t\n", c.Name, c.Processes, c.CPU, countText(c.Syncs), c.Memory,
		c.StartCPU/1000)
}

func countText(n float64) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f", n)
}
