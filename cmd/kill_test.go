package cmd_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"hubbub/cmd/internal/demo"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A fault is one program that is killed when a message of a type has been sent,
// or has begun to be.
type fault struct {
	program string // or "agent"
	at      protocol.MessageType
}

// faults kill each program once in the flow of the bootstrap.
var faults = []fault{
	{"tg", protocol.TypeSpawnRequest},
	{"system", protocol.TypeSpawnRequest},
	{"bus", protocol.TypeRouteAssigned},
	{"agent", protocol.TypeConfigure},
	{"agent", protocol.TypeTGMessage},
	{"tg", protocol.TypeTGMessage},
	{"bus", protocol.TypeTGMessage},
	{"system", protocol.TypeTGMessage},
}

// TestKillEachProgram kills every program in the middle of a conversation that
// starts with an empty chat. Each question must then have one answer, in order.
func TestKillEachProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts programs many times")
	}
	s := newSystem(t)
	for i, f := range faults {
		t.Run(fmt.Sprintf("%s at %s", f.program, f.at), func(t *testing.T) {
			s.in(t).converse(t, i, f)
		})
	}
}

// TestKillAtRandom is TestKillEachProgram for `make chaos`.
func TestKillAtRandom(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("HUBBUB_CHAOS_ROUNDS"))
	if err != nil {
		t.Skip("HUBBUB_CHAOS_ROUNDS does not say how often; see make chaos")
	}
	s := newSystem(t)
	kinds := []protocol.MessageType{
		protocol.TypeSpawnRequest, protocol.TypeSpawnResult, protocol.TypeRouteAssigned, protocol.TypeConfigure,
		protocol.TypeTGMessage, protocol.TypeTGReply, protocol.TypeDeliveryStatus,
	}
	for i := range rounds {
		f := fault{[]string{"bus", "system", "tg", "agent"}[rand.N(4)], kinds[rand.N(len(kinds))]}
		t.Run(fmt.Sprintf("%d %s at %s", i, f.program, f.at), func(t *testing.T) {
			s.in(t).converse(t, 1000+i, f)
		})
	}
}

// converse asks two questions in a new chat, kills a program at a step of the
// first, and asks a third when it is up again. Each must be answered once.
func (s *system) converse(t *testing.T, n int, f fault) {
	user := s.api.User(fmt.Sprintf("user %d", n))
	chat := s.api.DM(user)
	ask := func(i int) { s.api.Say(chat, user, fmt.Sprintf("question %d-%d?", n, i)) }
	ask(1)
	ask(2)
	s.await(fmt.Sprintf("%s of chat %d", f.at, chat.ID), func() bool { return s.sent(f.at, topicOf(chat)) })
	if f.program == "agent" {
		s.killAgent(t, chat)
	} else {
		s.restart(f.program)
	}
	ask(3)
	// The three may come as fewer turns: what one author writes in a row is
	// taken together. Nothing may be missing, and nothing said twice.
	asked := func(texts []string, i int) int {
		return strings.Count(strings.Join(texts, "\n"), fmt.Sprintf("question %d-%d?", n, i))
	}
	s.await(fmt.Sprintf("the answers to chat %d", chat.ID), func() bool {
		texts := s.api.Texts(chat.ID)
		return asked(texts, 1) > 0 && asked(texts, 2) > 0 && asked(texts, 3) > 0
	})
	if f.program != "bus" { // which may take the last 250 ms of its log with it
		s.settled(chat)
	}
	// Whatever would come twice comes before the answer to one more question.
	ask(4)
	s.await(fmt.Sprintf("the last answer to chat %d", chat.ID), func() bool { return asked(s.api.Texts(chat.ID), 4) > 0 })
	texts := s.api.Texts(chat.ID)
	last := 0
	for i := 1; i <= 3; i++ {
		if got := asked(texts, i); got != 1 {
			t.Errorf("question %d was answered %d times: %q", i, got, texts)
		}
		at := strings.Index(strings.Join(texts, "\n"), fmt.Sprintf("question %d-%d?", n, i))
		if at < last {
			t.Errorf("question %d was answered before the one before it: %q", i, texts)
		}
		last = at
	}
}

// sent reports whether a message of a type about a chat stands in the log.
func (s *system) sent(kind protocol.MessageType, topic protocol.Topic) bool {
	for _, p := range s.passes() {
		if p.message.Type == kind && p.about(topic) {
			return true
		}
	}
	return false
}

// killAgent kills the agent of a chat, which the spawner starts again.
func (s *system) killAgent(t *testing.T, chat models.Chat) {
	t.Helper()
	var pid int
	s.await(fmt.Sprintf("the process of the agent of chat %d", chat.ID), func() bool {
		for _, p := range s.passes() {
			if p.message.Type == protocol.TypeConfigure && p.about(topicOf(chat)) {
				var err error
				pid, err = demo.FindAgent(s.data, protocol.PeerID(p.entry.Topic).Name())
				return err == nil
			}
		}
		return false
	})
	if err := demo.Kill(pid); err != nil {
		t.Fatalf("killing the agent of chat %d: %v", chat.ID, err)
	}
}

// settled waits until every event of a chat's agent has ended and every reply
// has been reported, so that whatever would come twice has come.
func (s *system) settled(chat models.Chat) {
	s.t.Helper()
	s.await(fmt.Sprintf("the end of every event of chat %d", chat.ID), func() bool {
		events, ended := map[string]bool{}, map[string]bool{}
		replies, reported := map[string]bool{}, map[string]bool{}
		for _, p := range s.passes() {
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
				if r := contentOf[protocol.ChatReply](p); p.entry.Topic == string(topicOf(chat)) && !r.Typing {
					replies[r.IdempotencyKey] = true
				}
			case protocol.TypeDeliveryStatus:
				if d := contentOf[protocol.DeliveryStatus](p); d.Status != protocol.StatusQueued {
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
