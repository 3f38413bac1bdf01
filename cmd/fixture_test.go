package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/bus/bustest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A fixture is a whole system: Telegram, bridge, bus, spawner and agents.
type fixture struct {
	t     *testing.T // the current test
	whole *testing.T // the test that owns the system
	data  string
	bus   string // address
	tap   *proxy // the programs reach the bus through it
	api   *tgtest.Server
	log   *read.Reader
	run   map[string]*process
	past  map[string][]*process // all runs of a program
	never *[]string             // conditions that did not become true in time
	rooms *int                  // made by groupOf

	agentArgs, tgArgs []string
	botToken          string
}

// programs are the programs of a system, in start order.
var programs = []string{"bus", "system", "tg"}

// newFixture starts a system, with the scripted harness unless the agents' arguments name
// another.
func newFixture(t *testing.T, agents ...string) *fixture {
	t.Helper()
	for _, name := range []string{"hubbub-bus", "hubbub-system", "hubbub-agent", "hubbub-tg"} {
		built(t, name)
	}
	s := &fixture{t: t, whole: t, data: t.TempDir(), bus: bustest.FreeAddress(t), api: tgtest.New(nil), run: map[string]*process{}, past: map[string][]*process{}, never: new([]string), rooms: new(int)}
	// Ten minutes of chaos take more turns than a day's budget.
	s.agentArgs = append([]string{"--harness=scripted", "--compose-window=100ms", "--log-format=json", "--budget-author-turns=0", "--budget-chat-turns=0"}, agents...)
	s.tap = newProxy(t, s.bus)
	web := httptest.NewServer(s.api)
	t.Cleanup(web.Close)
	s.botToken, s.tgArgs = s.api.Token(), []string{"--api-url", web.URL}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agents' logs:\n%s\nand these of the programs:\n%s\nnever came: %q", logsBelow(s.data), s.programLogs(), *s.never)
		}
	})
	s.log = read.Open(filepath.Join(s.data, "activity.db"))
	t.Cleanup(s.log.Close)
	for _, name := range programs {
		s.start(name)
	}
	return s
}

// in returns the same system for a subtest.
func (s *fixture) in(t *testing.T) *fixture {
	part := *s
	part.t = t
	return &part
}

// start starts or restarts a program.
func (s *fixture) start(name string, more ...string) {
	s.t.Helper()
	env := []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=" + s.tap.address(), "HUBBUB_LOG_FORMAT=json"}
	var args []string
	switch name {
	case "bus":
		args = []string{"--listen", s.bus}
	case "system":
		for _, arg := range s.agentArgs {
			args = append(args, "--agent-arg="+arg)
		}
	case "chorus":
		args = []string{"--listen", "127.0.0.1:0"}
	case "tg":
		env = append(env, "TELEGRAM_BOT_TOKEN="+s.botToken)
		args = append([]string{"--allow-all", "--min-send-interval", "10ms", "--group-per-minute", "0", "--poll-timeout", "5s"}, s.tgArgs...)
	}
	s.run[name] = start(s.t, s.whole, "hubbub-"+name, env, append(args, more...)...)
	s.past[name] = append(s.past[name], s.run[name])
}

// restart kills a program and starts it again.
func (s *fixture) restart(name string) {
	s.t.Helper()
	s.run[name].kill()
	s.start(name)
}

// A publication is a message in the log with its outcome.
type publication struct {
	entry   activitylog.Entry // its send_start row
	message protocol.Message
	rows    int
	status  string // of send_finish; "" before
}

// publications returns the messages in the log, in order of send_start.
func (s *fixture) publications() []*publication { return s.publicationsOf(read.Filter{}) }

// publicationsOf returns the messages whose rows match a filter.
func (s *fixture) publicationsOf(f read.Filter) []*publication {
	s.t.Helper()
	var list []*publication
	open := map[string]*publication{}
	err := s.log.Each(s.t.Context(), f, func(e *activitylog.Entry) error {
		if e.Is(activitylog.SendStart) {
			p := &publication{entry: *e}
			if err := json.Unmarshal(e.Payload, &p.message); err != nil {
				return err
			}
			list, open[e.MessageID] = append(list, p), p
		}
		if p := open[e.MessageID]; p != nil {
			p.rows++
			if e.Is(activitylog.SendFinish) {
				p.status = e.Status
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("reading the log: %v", err)
	}
	return list
}

// await waits until condition returns true. It polls less often if the condition is slow, such as
// one that reads the log, to leave the processor to the programs.
func (s *fixture) await(what string, condition func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience+patience)
	defer cancel()
	for {
		began := time.Now()
		if condition() {
			return
		}
		select {
		case <-pauseSince(began):
		case <-ctx.Done():
			*s.never = append(*s.never, s.t.Name()+": "+what)
			s.t.Fatalf("%s never came; the newest messages:\n%sand the programs' logs:\n%s", what, s.newestMessages(), s.programLogs())
		}
	}
}

// pauseSince returns a channel that receives when a test may look again for what it awaits. The pause
// is twenty times as long as the last look, which began at the given time, and at most 2 s. It leaves
// a busy machine to the awaited program.
func pauseSince(began time.Time) <-chan time.Time {
	return time.After(min(max(40*time.Millisecond, 20*time.Since(began)), 2*time.Second))
}

// newestMessages describes the newest messages in the log.
func (s *fixture) newestMessages() string {
	var b strings.Builder
	list := s.publications()
	for _, p := range list[max(len(list)-40, 0):] {
		fmt.Fprintf(&b, "%s %s %s to %s, %s: %.300s\n", p.entry.Time().UTC().Format("15:04:05.000"), p.message.Type,
			p.message.From, p.entry.Topic, p.status, p.message.Content)
	}
	return b.String()
}

// programLogs returns the end of each program's log.
func (s *fixture) programLogs() string {
	var b strings.Builder
	for name, p := range s.run {
		b.WriteString("== " + name + "\n" + newest(p.text()))
	}
	return b.String()
}

// awaitTexts waits until the bot has sent n messages to a chat.
func (s *fixture) awaitTexts(chat models.Chat, n int) []string {
	s.t.Helper()
	s.await(fmt.Sprintf("message %d to chat %d", n, chat.ID), func() bool { return len(s.api.Texts(chat.ID)) >= n })
	return s.api.Texts(chat.ID)
}

// topicOf returns the bus topic of a chat.
func topicOf(chat models.Chat) protocol.Topic {
	return protocol.Topic("tg:" + strconv.FormatInt(chat.ID, 10))
}

// about reports whether a message of the bootstrap concerns a chat.
func (p *publication) about(topic protocol.Topic) bool {
	return protocol.Topic(p.entry.Topic) == topic || p.message.From.Topic() == topic ||
		strings.Contains(string(p.message.Content), `"`+string(topic)+`"`)
}

// contentOf decodes the content of a message. It returns the zero value on an error.
func contentOf[T any](p *publication) T {
	var content T
	_ = json.Unmarshal(p.message.Content, &content)
	return content
}
