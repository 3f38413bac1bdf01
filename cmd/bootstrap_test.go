package cmd_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"
)

// bootstrapSteps are the message types of the bootstrap in section 10 of the specification.
// spawn_result and online may come at any time between them.
var bootstrapSteps = []protocol.MessageType{
	protocol.TypeSpawnRequest, protocol.TypeRouteAssigned, protocol.TypeConfigure, protocol.TypeTGMessage, protocol.TypeTGReply,
}

// TestBootstrap starts several new chats, direct ones and groups, at once, and checks the
// bootstrap of each in the activity log.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	will := s.api.User("Will")
	chats := []models.Chat{
		s.api.DM(will), s.api.DM(s.api.User("Ana")),
		s.api.Group(-501, "a group"), s.api.Supergroup(-100502, "a supergroup"),
	}
	for _, c := range chats {
		text := "what is this?"
		if c.ID < 0 {
			text = "@" + s.api.Bot().Username + " " + text
		}
		s.api.Say(c, will, text)
	}
	for _, c := range chats {
		if got := s.awaitTexts(c, 1)[0]; !strings.Contains(got, "what is this?") {
			t.Errorf("chat %d was answered %q", c.ID, got)
		}
	}
	var all []*publication
	s.await("the end of every message in the log", func() bool {
		all = s.publications()
		return finished(all, chats)
	})
	agents := map[protocol.PeerID]bool{}
	for _, c := range chats {
		agents[checkBootstrap(t, all, topicOf(c))] = true
	}
	if len(agents) != len(chats) {
		t.Errorf("%d agents for %d chats: %v", len(agents), len(chats), agents)
	}
	for _, c := range chats {
		if texts := s.api.Texts(c.ID); len(texts) != 1 {
			t.Errorf("chat %d got %d messages: %q", c.ID, len(texts), texts)
		}
	}
	t.Run("watched in Python", func(t *testing.T) { checkWatcher(s.in(t)) })
}

// checkWatcher lets a program in Python watch assignments, and say a word in the chat. It
// receives a report that Telegram asked for a pause, and then a report that the message was
// shown.
func checkWatcher(s *fixture) {
	if exec.CommandContext(s.t.Context(), "python3", "--version").Run() != nil {
		s.t.Skip("python3 is missing")
	}
	p := &process{t: s.t, name: "the watcher", sign: regexp.MustCompile(`(?m)^ready$`)}
	p.cmd = exec.CommandContext(context.Background(), "python3", "-B", filepath.Join("testdata", "broker", "watch.py"), "ws://"+s.bus)
	p.cmd.Stderr = p
	p.start(s.t)
	const word = "a word of Python"
	s.api.Fail(tgtest.Fault{Method: "sendMessage", Text: word, Status: http.StatusTooManyRequests, RetryAfter: 1, Description: "Too Many Requests: retry after 1"})
	bob := s.api.User("Bob")
	chat := s.api.DM(bob)
	s.api.Say(chat, bob, "what is that?")
	s.await("the word", func() bool { return slices.Contains(s.api.Texts(chat.ID), word) })
	at := string(topicOf(chat))
	for _, want := range []string{
		"system:route agent:system: " + at + " to agent:tg-" + strings.TrimPrefix(at, "tg:") + "\n",
		at + ": accepted word-1 ", "429", at + ": delivered word-1 \n",
	} {
		s.await(want, func() bool { return strings.Contains(p.whole(), want) })
	}
	if heard := p.whole(); strings.Index(heard, "accepted") > strings.Index(heard, "delivered") {
		s.t.Errorf("the watcher heard\n%s", heard)
	}
}

// finished reports whether the log has an answer in each chat and the end of every message. The
// log may lag behind the chats.
func finished(all []*publication, chats []models.Chat) bool {
	answered := map[protocol.Topic]bool{}
	for _, p := range all {
		if p.status == "" {
			return false
		}
		if p.message.Type == protocol.TypeTGReply && !isTyping(p) {
			answered[protocol.Topic(p.entry.Topic)] = true
		}
	}
	return !slices.ContainsFunc(chats, func(c models.Chat) bool { return !answered[topicOf(c)] })
}

// checkBootstrap checks the bootstrap of one chat and returns its agent.
func checkBootstrap(t *testing.T, all []*publication, topic protocol.Topic) protocol.PeerID {
	t.Helper()
	var steps []protocol.MessageType
	var agent protocol.PeerID
	want := map[protocol.MessageType]string{}
	got := map[protocol.MessageType]string{}
	for _, p := range all {
		if !slices.Contains(bootstrapSteps, p.message.Type) || !p.about(topic) || isTyping(p) ||
			p.entry.Topic == string(protocol.TopicRoute) { // a copy for observers of the route
			continue
		}
		if !slices.Contains(steps, p.message.Type) {
			steps = append(steps, p.message.Type)
		}
		if p.rows != 4 || p.status != "ok" {
			t.Errorf("%s of %s has %d rows and ended %q; want 4 and ok", p.message.Type, topic, p.rows, p.status)
		}
		got[p.message.Type] = fmt.Sprintf("%s to %s", p.message.From, p.entry.Topic)
		if p.message.Type == protocol.TypeTGReply {
			agent = p.message.From
		}
	}
	if diff := cmp.Diff(bootstrapSteps, steps); diff != "" {
		t.Errorf("steps of %s: %s", topic, diff)
	}
	want[protocol.TypeSpawnRequest] = fmt.Sprintf("%s to system:spawn", topic)
	want[protocol.TypeRouteAssigned] = fmt.Sprintf("agent:system to %s", topic)
	want[protocol.TypeConfigure] = fmt.Sprintf("%s to %s", topic, agent)
	want[protocol.TypeTGMessage] = want[protocol.TypeConfigure]
	want[protocol.TypeTGReply] = fmt.Sprintf("%s to %s", agent, topic)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("who sent to whom: %s", diff)
	}
	return agent
}

// isTyping reports whether a reply is a typing indicator.
func isTyping(p *publication) bool {
	return strings.Contains(string(p.message.Content), `"typing":true`)
}
