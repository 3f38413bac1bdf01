package bench

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/load"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// options are the flags of bench.
type options struct {
	scale  float64
	repeat int
	idle   int
	only   string
	serve  string // baseline to serve: "echo", "tcp", or "" to measure
}

// NewCommand returns the command `hubbub bench`.
func NewCommand() *cobra.Command {
	var s options
	cmd := &cobra.Command{
		Use:   "bench",
		Args:  cobra.NoArgs,
		Short: "Measure a running bus beside a plain WebSocket echo and bare TCP",
		Long: "Run whole-system workloads against the bus of --bus. Each workload also runs against two\n" +
			"baselines: as many WebSocket round trips through a plain echo server (\"of echo\"), and the same\n" +
			"pattern of messages and answers over bare TCP with length prefixes (\"of TCP\"). Compare these\n" +
			"ratios; the other figures depend on the machine.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case s.serve == "echo":
				return load.ServeChild(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), "ws", load.ServeEcho)
			case s.serve == "tcp":
				return load.ServeChild(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), "tcp", load.ServeTCP)
			case s.serve != "":
				return program.Usage("--serve must be echo or tcp")
			case s.scale <= 0 || s.scale > 100:
				return program.Usage("--scale must be above 0 and at most 100")
			case s.repeat < 1 || s.repeat > 100:
				return program.Usage("--repeat must be from 1 to 100")
			case s.idle < 0:
				return program.Usage("--idle must not be negative")
			}
			return bench(cmd, s)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&s.scale, "scale", 1, "factor for the number of messages")
	f.IntVar(&s.repeat, "repeat", 3, "how often to run each workload; the median is shown")
	f.IntVar(
		&s.idle,
		"idle",
		0,
		"measure the cost of this many idle connections instead of the workloads; the bus should have just started",
	)
	f.StringVar(&s.only, "only", "", "run only the workloads whose name contains this")
	f.StringVar(&s.serve, "serve", "", "serve a baseline: echo or tcp")
	if err := f.MarkHidden("serve"); err != nil {
		panic(err)
	}
	cmd.AddCommand(newChatCommand())
	return cmd
}

// workloads returns typical workloads, and workloads that show how costs grow.
func workloads(scale float64) []load.Workload {
	const depth, size = 64, 100
	list := []load.Workload{
		{Name: "unicast, depth 1", Senders: 1, Depth: 1, Messages: 20_000, Targets: 1},
		{Name: "unicast, depth 64", Senders: 1, Depth: depth, Messages: 100_000, Targets: 1},
		{Name: "4 pairs, depth 64", Senders: 4, Depth: depth, Messages: 240_000, Targets: 1},
		{Name: "8 pairs, depth 64", Senders: 8, Depth: depth, Messages: 240_000, Targets: 1},
		{Name: "fan-out to 10", Senders: 1, Depth: 1, Messages: 5_000, Targets: 10},
		{Name: "fan-out to 100", Senders: 1, Depth: 1, Messages: 1_000, Targets: 100},
		{Name: "fan-out to 1,000", Senders: 1, Depth: 1, Messages: 150, Targets: 1000},
		{Name: "beside 10,000 subscriptions", Senders: 1, Depth: depth, Messages: 100_000, Targets: 1,
			Subscriptions: 10_000},
		{
			Name:          "beside 100,000 subscriptions",
			Senders:       1,
			Depth:         depth,
			Messages:      100_000,
			Targets:       1,
			Subscriptions: 100_000,
		},
		{Name: "beside 4,000 idle connections", Senders: 1, Depth: depth, Messages: 100_000, Targets: 1, Idle: 4000},
	}
	for i := range list {
		w := &list[i]
		w.Size, w.Messages = size, max(int(float64(w.Messages)*scale), w.Senders*w.Depth)
	}
	return list
}

func bench(cmd *cobra.Command, s options) error {
	ctx, env := cmd.Context(), program.From(cmd)
	token, err := env.Token()
	if err != nil {
		return err
	}
	if err := busclient.CheckReachable(ctx, env.Buses[0], token); err != nil {
		return err
	}
	bus := load.Bus{URL: env.Buses[0], Token: token, HTTP: "http" + strings.TrimPrefix(env.Buses[0], "ws")}
	if s.idle > 0 {
		r, err := load.Idle(ctx, bus, s.idle, 3*time.Second)
		if err != nil {
			return err
		}
		return output.Line(
			cmd,
			r,
			"%d idle connections: %.1f KiB of memory and %.2f goroutines each",
			r.Connections,
			r.Bytes/1024,
			r.Goroutines,
		)
	}
	chosen := workloads(s.scale)
	chosen = slices.DeleteFunc(chosen, func(w load.Workload) bool { return !strings.Contains(w.Name, s.only) })
	if len(chosen) == 0 {
		return program.Usage("no workload has %q in its name; the first workload is %q", s.only, workloads(1)[0].Name)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	floors := map[string]*load.Child{"echo": nil, "tcp": nil}
	for kind := range floors { // this program again, in separate processes
		if floors[kind], err = load.StartChild(exec.CommandContext(ctx, self, "bench", "--serve", kind)); err != nil {
			return err
		}
		defer floors[kind].Stop() //nolint:errcheck // its end is all that matters
	}
	var results []load.Result
	for i, w := range chosen {
		if env.OnTerminal() { // the table comes only at the end, minutes later
			fmt.Fprintf(env.Stderr, "%d of %d: %s\n", i+1, len(chosen), w.Name)
		}
		r, err := w.Compare(ctx, bus, load.EchoFloor{Child: floors["echo"]}, load.TCPFloor{Child: floors["tcp"]},
			s.repeat)
		if err != nil {
			return cmp.Or(ctx.Err(), err) // hide the errors that a stop causes
		}
		results = append(results, r)
	}
	return output.List(cmd, results, "", printResults)
}

func printResults(p *output.Printer, results []load.Result) {
	t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmessages/s\tof echo\tof TCP\tp50 ms\tp99 ms\tp99.9 ms\tCPU s/100k\tCPU µs/delivery\tRSS MiB\t")
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\t%.2f\t%.0f\t\n", r.Workload, r.PerSecond,
			r.OfEcho, r.OfTCP,
			ms(r.P50), ms(r.P99), ms(r.P999), r.CPU, r.CPUDelivery, float64(r.RSS)/(1<<20))
	}
	p.Err = t.Flush()
}
