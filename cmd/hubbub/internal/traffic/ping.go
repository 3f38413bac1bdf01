package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// NewPing returns the command `hubbub ping`.
func NewPing() *cobra.Command {
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
	cmd.Flags().IntVarP(&times, "count", "n", 5, "number of pings")
	cmd.Flags().DurationVar(&interval, "interval", 200*time.Millisecond, "time between two pings")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second,
		"how long to wait for the connection and for each answer")
	return cmd
}

func ping(cmd *cobra.Command, times int, interval, timeout time.Duration) error {
	env, p := program.From(cmd), output.NewPrinter(cmd)
	late := fmt.Errorf("no answer within %s (--timeout)", timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, late)
	defer cancel()
	s, err := busclient.Open(ctx, env, busclient.NewID("ping"))
	if err != nil {
		return err
	}
	defer s.Close()
	if !p.JSON {
		p.Linef("%s is %s %s, %s", s.Bus, s.Server.ServerInfo.Name, s.Server.ServerInfo.Version, s.Server.ServerID)
	}
	var trips []time.Duration
	for i := range times {
		if i > 0 && !retry.Sleep(cmd.Context(), interval) {
			break // interrupted: print what was measured
		}
		trip, err := pingOnce(cmd.Context(), s, timeout, late)
		if err != nil {
			return fmt.Errorf("ping %d of %d: %w", i+1, times, err)
		}
		trips = append(trips, trip)
		if !p.JSON {
			p.Linef("ping %d  %s", i+1, roundDuration(trip))
		}
	}
	return summarize(cmd, s, trips)
}

// pingOnce measures one round trip.
func pingOnce(ctx context.Context, s *busclient.Session, timeout time.Duration, late error) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	from := time.Now()
	err := s.Call(ctx, protocol.MethodPing, struct{}{}, nil)
	return time.Since(from), err
}

func summarize(cmd *cobra.Command, s *busclient.Session, trips []time.Duration) error {
	if len(trips) == 0 {
		return errors.New("nothing was measured")
	}
	slices.Sort(trips)
	var sum time.Duration
	for _, t := range trips {
		sum += t
	}
	least, middle, most := trips[0], trips[len(trips)/2], trips[len(trips)-1]
	return output.Line(cmd, map[string]any{
		"bus": s.Bus, "serverId": s.Server.ServerID, "version": s.Server.ServerInfo.Version, "count": len(trips),
		"minMicros": least.Microseconds(), "medianMicros": middle.Microseconds(),
		"meanMicros": (sum / time.Duration(len(trips))).Microseconds(), "maxMicros": most.Microseconds(),
	}, "%s: min %s, median %s, max %s", text.Counted(
		len(trips), "round trip",
	), roundDuration(least), roundDuration(middle), roundDuration(most))
}

// roundDuration rounds a duration to three or four digits.
func roundDuration(d time.Duration) time.Duration {
	if d >= time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
