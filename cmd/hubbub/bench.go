package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/load"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func newBench() *cobra.Command {
	var (
		scale float64
		idle  int
		only  string
		echo  bool
	)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running bus beside a plain WebSocket echo",
		Long: "Runs whole-system workloads against the bus of --bus, each beside the same number of WebSocket\n" +
			"round trips through a plain echo server. Compare ratios: absolute figures depend on the machine.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if echo {
				return serveEcho(cmd.Context(), cmd.OutOrStdout())
			}
			if scale <= 0 || scale > 100 {
				return program.Usage("--scale must be above 0 and at most 100")
			}
			return bench(cmd, workloads(scale), idle, only)
		},
	}
	cmd.Flags().Float64Var(&scale, "scale", 1, "factor on the number of messages")
	cmd.Flags().IntVar(&idle, "idle", 1000, "idle connections to open; 0 for none")
	cmd.Flags().StringVar(&only, "only", "", "run only the workloads whose name contains this")
	cmd.Flags().BoolVar(&echo, "echo", false, "be the echo server")
	if err := cmd.Flags().MarkHidden("echo"); err != nil {
		panic(err)
	}
	return cmd
}

// workloads are what users of a bus do with it.
func workloads(scale float64) []load.Workload {
	n := func(messages int) int { return max(int(float64(messages)*scale), 64) }
	return []load.Workload{
		{Name: "unicast, depth 1", Senders: 1, Depth: 1, Messages: n(5_000), Targets: 1, Size: 100},
		{Name: "unicast, depth 64", Senders: 1, Depth: 64, Messages: n(60_000), Targets: 1, Size: 100},
		{Name: "4 pairs, depth 64", Senders: 4, Depth: 64, Messages: n(120_000), Targets: 1, Size: 100},
		{Name: "8 pairs, depth 64", Senders: 8, Depth: 64, Messages: n(120_000), Targets: 1, Size: 100},
		{Name: "fan-out to 1,000", Senders: 1, Depth: 1, Messages: n(100), Targets: 1000, Size: 100},
		{Name: "10,000 subscriptions", Senders: 1, Depth: 64, Messages: n(60_000), Targets: 1, Patterns: 10_000, Size: 100},
	}
}

func bench(cmd *cobra.Command, list []load.Workload, idle int, only string) error {
	ctx, env := cmd.Context(), program.From(cmd)
	token, err := env.Token()
	if err != nil {
		return err
	}
	target := load.Target{URL: env.Buses[0], Token: token, HTTP: httpURL(env.Buses[0])}
	echoURL, pid, stop, err := startEcho(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var results []load.Result
	for _, w := range list {
		if !strings.Contains(w.Name, only) {
			continue
		}
		floor, err := w.Floor(ctx, echoURL, pid)
		if err != nil {
			return err
		}
		r, err := w.Run(ctx, target)
		if err != nil {
			return err
		}
		r.FloorRatio = r.PerSecond / floor.PerSecond
		results = append(results, floor, r)
	}
	if idle > 0 && strings.Contains("idle", only) {
		r, err := load.Idle(ctx, target, idle)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if asJSON(cmd) {
		return printResultLines(cmd.OutOrStdout(), results)
	}
	return printResults(cmd.OutOrStdout(), results)
}

func httpURL(ws string) string { return "http" + strings.TrimPrefix(ws, "ws") }

func printResultLines(w io.Writer, results []load.Result) error {
	encoder := json.NewEncoder(w)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func printResults(w io.Writer, results []load.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tmessages/s\tof floor\tp50\tp99\tp99.9\tserver CPU s/100k\tserver RSS MiB\tKiB/conn\t")
	for _, r := range results {
		ratio, perConn := "", ""
		if r.FloorRatio > 0 {
			ratio = fmt.Sprintf("%.2f", r.FloorRatio)
		}
		if r.PerIdleConn > 0 {
			perConn = fmt.Sprintf("%.1f", float64(r.PerIdleConn)/1024)
		}
		round := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\t%.3f\t%.1f\t%s\t\n", r.Workload, r.PerSecond, ratio,
			round(r.P50), round(r.P99), round(r.P999), r.ServerCPU, float64(r.ServerRSS)/(1<<20), perConn)
	}
	return t.Flush()
}

// startEcho starts the echo server as a process of its own.
func startEcho(ctx context.Context) (url string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	child := exec.CommandContext(ctx, self, "bench", "--echo")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := child.Start(); err != nil {
		return "", 0, nil, fmt.Errorf("starting the echo server: %w", err)
	}
	stop = func() {
		child.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
		child.Wait()                       //nolint:errcheck // its end is all that matters
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("the echo server did not start: %w", err)
	}
	return strings.TrimSpace(line), child.Process.Pid, stop, nil
}

func serveEcho(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ws://%s\n", listener.Addr())
	return load.ServeEcho(ctx, listener)
}
