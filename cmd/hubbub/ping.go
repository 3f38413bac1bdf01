package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

func newPing() *cobra.Command {
	var (
		times    int
		interval time.Duration
		timeout  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Measure the round trip to the bus",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if times < 1 {
				return program.Usage("--count must be at least 1")
			}
			return ping(cmd, times, interval, timeout)
		},
	}
	cmd.Flags().IntVarP(&times, "count", "n", 5, "how many pings")
	cmd.Flags().DurationVar(&interval, "interval", 200*time.Millisecond, "time between two pings")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for each answer, and for the connection")
	return cmd
}

func ping(cmd *cobra.Command, times int, interval, timeout time.Duration) error {
	env, p := program.From(cmd), newPrinter(cmd)
	late := fmt.Errorf("no answer within %s (--timeout)", timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, late)
	defer cancel()
	s, err := open(ctx, env, newID("ping"))
	if err != nil {
		return err
	}
	defer s.close()
	if !p.json {
		p.line("%s is %s %s, %s", s.bus, s.server.ServerInfo.Name, s.server.ServerInfo.Version, s.server.ServerID)
	}
	var trips []time.Duration
	for i := range times {
		if i > 0 && !retry.Sleep(cmd.Context(), interval) {
			break // interrupted: show what was measured
		}
		trip, err := s.ping(cmd.Context(), timeout, late)
		if err != nil {
			return fmt.Errorf("ping %d of %d: %w", i+1, times, err)
		}
		trips = append(trips, trip)
		if !p.json {
			p.line("ping %d  %s", i+1, round(trip))
		}
	}
	return summarize(cmd, s, trips)
}

// ping measures one round trip.
func (s *session) ping(ctx context.Context, timeout time.Duration, late error) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	from := time.Now()
	err := s.call(ctx, protocol.MethodPing, struct{}{}, nil)
	return time.Since(from), err
}

func summarize(cmd *cobra.Command, s *session, trips []time.Duration) error {
	if len(trips) == 0 {
		return errors.New("nothing was measured")
	}
	slices.Sort(trips)
	var sum time.Duration
	for _, t := range trips {
		sum += t
	}
	least, middle, most := trips[0], trips[len(trips)/2], trips[len(trips)-1]
	return printLine(cmd, map[string]any{
		"bus": s.bus, "serverId": s.server.ServerID, "version": s.server.ServerInfo.Version, "count": len(trips),
		"minMicros": least.Microseconds(), "medianMicros": middle.Microseconds(),
		"meanMicros": (sum / time.Duration(len(trips))).Microseconds(), "maxMicros": most.Microseconds(),
	}, "%s: min %s, median %s, max %s", text.Count(len(trips), "round trip"), round(least), round(middle), round(most))
}

// round rounds a duration to three or four digits.
func round(d time.Duration) time.Duration {
	if d >= time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
