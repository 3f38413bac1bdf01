package cmd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	spawner "hubbub/peers/system"
	processlauncher "hubbub/peers/system/process"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A fault kills a program while a frame of a message is on its way.
type fault struct {
	program string // or "agent"
	at      protocol.MessageType
	leg     hop
}

func (f fault) String() string {
	return fmt.Sprintf("%s while %s is %s", f.program, f.at, f.leg)
}

// routes are the senders and receivers of the messages of a chat, in the order of the bootstrap.
var routes = []struct {
	at       protocol.MessageType
	from, to string
}{
	{protocol.TypeSpawnRequest, "tg", "system"},
	{protocol.TypeSpawnResult, "system", "tg"},
	{protocol.TypeRouteAssigned, "system", "tg"},
	{protocol.TypeConfigure, "tg", "agent"},
	{protocol.TypeTGMessage, "tg", "agent"},
	{protocol.TypeTGReply, "agent", "tg"},
	{protocol.TypeDeliveryStatus, "tg", "agent"},
}

// leaves reports whether the held frame is delivered although the program is killed. It is not if
// the killed program is its sender.
func (f fault) leaves() bool {
	for _, p := range routes {
		if p.at == f.at {
			return f.program != f.leg.writer(p.from, p.to)
		}
	}
	return true
}

// faults kill each program where it has the most to lose: it has not acknowledged a message, or
// does not know that its message was acknowledged.
var faults = []fault{
	{"tg", protocol.TypeSpawnRequest, hopAccept},
	{"system", protocol.TypeSpawnRequest, hopAcknowledge},
	{"system", protocol.TypeRouteAssigned, hopAccept},
	{"tg", protocol.TypeRouteAssigned, hopAcknowledge},
	{"agent", protocol.TypeConfigure, hopAcknowledge},
	{"agent", protocol.TypeTGMessage, hopAcknowledge},
	{"bus", protocol.TypeTGMessage, hopAcknowledge},
	{"tg", protocol.TypeTGMessage, hopAccept},
	{"agent", protocol.TypeTGReply, hopAccept},
	{"tg", protocol.TypeTGReply, hopAcknowledge},
	{"bus", protocol.TypeTGReply, hopAccept},
	{"bus", protocol.TypeSpawnResult, hopDeliver},
}

// everyFault kills every program at every frame of the messages of a type.
func everyFault(kind protocol.MessageType) []fault {
	var all []fault
	for _, l := range legs {
		for _, program := range []string{"bus", "system", "tg", "agent"} {
			if program == "agent" && kind == protocol.TypeSpawnRequest {
				continue // it does not exist yet
			}
			all = append(all, fault{program, kind, l})
		}
	}
	return all
}

// TestKill_LosesNothing kills every program in the middle of a conversation in a new chat. Each
// question must have one answer, in order.
func TestKill_LosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs many times")
	}
	s := newFixture(t)
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			if _, err := checkAll([]*conversation{s.in(t).converseWithFault(f)}); err != nil {
				t.Error(err)
			}
		})
	}
}

// converseWithFault asks two questions in a new chat, kills a program at a step of the first one,
// and asks a third question when the program is up again. Each must be answered once.
func (s *fixture) converseWithFault(f fault) *conversation {
	k := s.newConversation(f.String())
	h := s.tap.hold(f.leg, f.at, string(topicOf(k.chat)))
	k.ask(s, 2)
	s.awaitHeld(h, fmt.Sprintf("%s in chat %d", f, k.chat.ID))
	s.kill(f.program, k.chat)
	h.outcome <- f.leaves()
	if f.program != "agent" { // the spawner restarts agents
		s.start(f.program)
	}
	k.ask(s, 1)
	s.awaitAnswers(k)
	if f.program != "bus" { // the bus may lose the last 250 ms of its log
		s.awaitSettled(k.chat)
	}
	// Any duplicate would come before the answer to another question.
	k.ask(s, 1)
	s.awaitAnswers(k)
	k.check(s)
	k.excuse(s.unknownAnswers())
	return k
}

// awaitHeld waits until the proxy holds a frame.
func (s *fixture) awaitHeld(h *heldMessage, what string) {
	s.t.Helper()
	s.await(what, func() bool {
		select {
		case <-h.came:
			return true
		default:
			return false
		}
	})
}

// awaitAnswers waits until every question of a chat is answered or its answer is reported as
// unknown.
func (s *fixture) awaitAnswers(k *conversation) {
	s.t.Helper()
	s.await(fmt.Sprintf("the answers to chat %d", k.chat.ID), func() bool {
		open := k.open(s, 0)
		if len(open) == 0 {
			return true
		}
		unknown := s.unknownAnswers()
		return !slices.ContainsFunc(open, func(q string) bool { return !unknown.holds(q) })
	})
}

// kill kills a program, or the agent of a chat.
func (s *fixture) kill(program string, chat models.Chat) {
	s.t.Helper()
	if program != "agent" {
		s.run[program].kill()
		return
	}
	var pid int
	s.await(fmt.Sprintf("the process of the agent of chat %d", chat.ID), func() bool {
		var err error
		pid, err = agentPID(s.t.Context(), s.data, fmt.Sprintf("tg-%d", chat.ID))
		return err == nil
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("killing the agent of chat %d: %v", chat.ID, err)
	}
}

// awaitSettled waits until every event of a chat's agent has ended and every reply was reported,
// so that any duplicate has arrived.
func (s *fixture) awaitSettled(chat models.Chat) {
	s.t.Helper()
	s.await(fmt.Sprintf("the end of every event of chat %d", chat.ID), func() bool {
		events, ended := map[string]bool{}, map[string]bool{}
		replies, reported := map[string]bool{}, map[string]bool{}
		for _, p := range s.publications() {
			switch p.message.Type {
			case protocol.TypeTGMessage:
				if p.message.From.Topic() == topicOf(chat) {
					events[contentOf[protocol.ChatMessage](p).SourceID] = true
				}
			case protocol.TypeAgentEvent:
				if d := contentOf[protocol.Disposition](p); d.Event == "disposition" && final(d.Disposition) {
					ended[d.EventID] = true
				}
			case protocol.TypeTGReply:
				// the end of typing has no key, and no status
				if r := contentOf[protocol.ChatReply](p); p.entry.Topic == string(topicOf(chat)) && r.IdempotencyKey != "" {
					replies[r.IdempotencyKey] = true
				}
			case protocol.TypeDeliveryStatus:
				if d := contentOf[protocol.DeliveryStatus](p); d.Status != protocol.StatusAccepted {
					reported[d.IdempotencyKey] = true
				}
			}
		}
		return covers(ended, events) && covers(reported, replies)
	})
}

func final(disposition string) bool { return disposition != "claimed" && disposition != "deferred" }

func covers(have, want map[string]bool) bool {
	for k := range want {
		if !have[k] {
			return false
		}
	}
	return len(want) > 0
}

// agentPID returns the process id of an agent that the spawner with this data folder has started.
func agentPID(ctx context.Context, data, name string) (int, error) {
	handle, err := spawner.HandleOf(ctx, filepath.Join(data, "system.db"), spawner.AgentName(name))
	if err != nil {
		return 0, err
	}
	pid := processlauncher.PID(handle)
	if pid == 0 {
		return 0, fmt.Errorf("no process of agent %s was found", name)
	}
	return pid, nil
}
