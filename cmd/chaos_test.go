package cmd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/protocol"
)

// TestChaos_KillsAtEveryStep kills every program at every frame. `make chaos` runs it;
// TestKill_LosesNothing is the short form.
func TestChaos_KillsAtEveryStep(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("HUBBUB_CHAOS_ROUNDS"))
	if err != nil {
		t.Skip("HUBBUB_CHAOS_ROUNDS does not say how often; see make chaos")
	}
	var list []*conversation
	for range rounds {
		for _, p := range routes {
			t.Run(string(p.at), func(t *testing.T) { list = append(list, chaosAt(t, p.at)...) })
		}
	}
	sum, _ := checkAll(list) //nolint:errcheck // said by each test
	report(sum.outcomeCounts, fmt.Sprintf("%d kills, one for each program at each step of each message", len(list)))
}

// chaosAt kills every program at every frame of the messages of a type.
func chaosAt(t *testing.T, kind protocol.MessageType) (list []*conversation) {
	s := newFixture(t)
	for _, f := range everyFault(kind) {
		t.Run(f.String(), func(t *testing.T) {
			k := s.in(t).converseWithFault(f)
			list = append(list, k)
			if _, err := checkAll([]*conversation{k}); err != nil {
				t.Error(err)
			}
		})
	}
	fmt.Printf("%3d kills at the steps of %s\n", len(list), kind)
	return list
}

// report prints the outcome.
func report(sum outcomeCounts, what string) {
	fmt.Printf("\n%s:\n\n    %s\n\n", what, sum)
	if sum.unknown > 0 {
		fmt.Print(unknownMeans)
	}
}

const unknownMeans = `unknown: the bridge was killed between its note on disk that a send begins and
Telegram's answer. Telegram cannot be asked whether such a message arrived, so it
is reported to the agent, listed by "hubbub outbox list" and not sent again.

`

// TestChaos_KillsAmongTenChats kills a random program every two seconds while ten chats talk. No
// message may be lost, duplicated or out of order. The exceptions are answers that were on their
// way to Telegram when the bridge died: they are reported as unknown and never repeated.
func TestChaos_KillsAmongTenChats(t *testing.T) {
	length := duration(t, "HUBBUB_CHAOS_TIME")
	s := newFixture(t)
	everyProgram(s)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	done := s.tenChats(ctx, 100*time.Millisecond)
	list := victims
	if some := strings.Fields(os.Getenv("HUBBUB_CHAOS_VICTIMS")); len(some) > 0 {
		list = some
	}
	kills := s.killUntil(ctx, list)
	sum, err := checkAll(<-done)
	report(sum.outcomeCounts, fmt.Sprintf("10 chats talked for %s, kills: %s; slowest round %s", length, counts(kills), sum.slowest))
	if sum.slowest.took > slow {
		s.reportDelay(os.Stdout, sum.slowest, kills)
	}
	if err != nil {
		t.Error(err)
	}
	for text, reason := range s.unknownAnswers() {
		if !strings.Contains(reason, "the program ended during the attempt") {
			t.Errorf("unknown without a need: %.80q, because %s", text, reason)
		}
	}
}

// victims are the programs that are killed at random.
var victims = []string{"bus", "system", "tg", "broker", "chorus", "agent"}

// killUntil kills random programs until ctx ends.
func (s *fixture) killUntil(ctx context.Context, victims []string) (kills []kill) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return kills
		case <-ticker.C:
		}
		victim := victims[rand.N(len(victims))]
		kills = append(kills, kill{time.Now(), victim})
		if victim != "agent" {
			s.restart(victim)
		} else if pids := s.agents(); len(pids) > 0 {
			_ = syscall.Kill(pids[rand.N(len(pids))], syscall.SIGKILL) // it may have ended already
		}
		if n%30 == 0 {
			fmt.Printf("%4d kills among ten chats\n", n)
		}
	}
}

func counts(kills []kill) string {
	n := map[string]int{}
	for _, k := range kills {
		n[k.victim]++
	}
	var list []string
	for _, v := range victims {
		list = append(list, fmt.Sprintf("%s %d", v, n[v]))
	}
	return strings.Join(list, ", ")
}
