package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/load"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// benchSettings are the values of the flags of bench.
type benchSettings struct {
	scale  float64
	repeat int
	idle   int
	only   string
	serve  string // which floor to be: echo or tcp; empty for none
}

func newBench() *cobra.Command {
	var s benchSettings
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running bus beside a plain WebSocket echo and bare TCP",
		Long: "Runs whole-system workloads against the bus of --bus. Beside each runs the same through two floors:\n" +
			"as many WebSocket round trips through a plain echo (of echo), and the same pattern, message out and answer\n" +
			"back, over bare TCP with length prefixes (of TCP). Compare these ratios: other figures depend on the machine.",
		Args: cobra.NoArgs,
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
	f.Float64Var(&s.scale, "scale", 1, "factor on the number of messages")
	f.IntVar(&s.repeat, "repeat", 3, "times to run each workload; the median is shown")
	f.IntVar(&s.idle, "idle", 0, "measure what so many idle connections cost, instead of the workloads; the bus should be fresh")
	f.StringVar(&s.only, "only", "", "run only the workloads whose name contains this")
	f.StringVar(&s.serve, "serve", "", "be a floor: echo or tcp")
	if err := f.MarkHidden("serve"); err != nil {
		panic(err)
	}
	return cmd
}

// workloads returns what users of a bus do with it, and what shows how its cost grows.
func workloads(scale float64) []load.Workload {
	const depth, size = 64, 100
	workload := func(name string, senders, depth, messages, targets int) load.Workload {
		return load.Workload{
			Name: name, Senders: senders, Depth: depth, Targets: targets, Size: size,
			Messages: max(int(float64(messages)*scale), senders*depth),
		}
	}
	subscriptions := func(name string, n int) load.Workload {
		w := workload(name, 1, depth, 100_000, 1)
		w.Subscriptions = n
		return w
	}
	crowd := workload("beside 4,000 idle connections", 1, depth, 100_000, 1)
	crowd.Idle = 4000
	return []load.Workload{
		workload("unicast, depth 1", 1, 1, 20_000, 1),
		workload("unicast, depth 64", 1, depth, 100_000, 1),
		workload("4 pairs, depth 64", 4, depth, 240_000, 1),
		workload("8 pairs, depth 64", 8, depth, 240_000, 1),
		workload("fan-out to 10", 1, 1, 5_000, 10),
		workload("fan-out to 100", 1, 1, 1_000, 100),
		workload("fan-out to 1,000", 1, 1, 150, 1000),
		subscriptions("beside 10,000 subscriptions", 10_000),
		subscriptions("beside 100,000 subscriptions", 100_000),
		crowd,
	}
}

func bench(cmd *cobra.Command, s benchSettings) error {
	ctx, env := cmd.Context(), program.From(cmd)
	token, err := env.Token()
	if err != nil {
		return err
	}
	if err := reach(ctx, env.Buses[0], token); err != nil {
		return err
	}
	bus := load.Bus{URL: env.Buses[0], Token: token, HTTP: "http" + strings.TrimPrefix(env.Buses[0], "ws")}
	if s.idle > 0 {
		return benchIdle(ctx, cmd, bus, s.idle)
	}
	chosen := workloads(s.scale)
	chosen = slices.DeleteFunc(chosen, func(w load.Workload) bool { return !strings.Contains(w.Name, s.only) })
	if len(chosen) == 0 {
		return program.Usage("no workload has %q in its name; the first is %q", s.only, workloads(1)[0].Name)
	}
	echo, err := startFloor(ctx, "echo")
	if err != nil {
		return err
	}
	defer echo.Stop() //nolint:errcheck // its end is all that matters
	tcp, err := startFloor(ctx, "tcp")
	if err != nil {
		return err
	}
	defer tcp.Stop() //nolint:errcheck // its end is all that matters
	var results []load.Result
	for i, w := range chosen {
		if env.OnTerminal() { // the table comes at the end, minutes from now
			fmt.Fprintf(env.Stderr, "%d of %d: %s\n", i+1, len(chosen), w.Name)
		}
		r, err := w.Compare(ctx, bus, load.EchoFloor{Child: echo}, load.TCPFloor{Child: tcp}, s.repeat)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err() // not the errors that a stop causes
			}
			return err
		}
		results = append(results, r)
	}
	return printAll(cmd, results, "", printResults)
}

// startFloor runs this program as a floor, in a process of its own.
func startFloor(ctx context.Context, kind string) (*load.Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return load.StartChild(exec.CommandContext(ctx, self, "bench", "--serve", kind))
}

func benchIdle(ctx context.Context, cmd *cobra.Command, bus load.Bus, count int) error {
	const settle = 3 * time.Second
	r, err := load.Idle(ctx, bus, count, settle)
	if err != nil {
		return err
	}
	return printLine(cmd, r, "%d idle connections: %.1f KiB of memory and %.2f goroutines each", r.Connections, r.Bytes/1024, r.Goroutines)
}

func printResults(w io.Writer, results []load.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmessages/s\tof echo\tof TCP\tp50 ms\tp99 ms\tp99.9 ms\tCPU s/100k\tCPU µs/delivery\tRSS MiB\t")
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\t%.2f\t%.0f\t\n", r.Workload, r.PerSecond, r.OfEcho, r.OfTCP,
			ms(r.P50), ms(r.P99), ms(r.P999), r.CPU, r.CPUDelivery, float64(r.RSS)/(1<<20))
	}
	return t.Flush()
}
