package cmd_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-telegram/bot/models"
)

// A workFixture is a Telegram group with an agent and a broker that reminds early.
type workFixture struct {
	*fixture
	will  models.User
	group models.Chat
	from  int // texts before the last message
}

func newWorkFixture(t *testing.T) *workFixture {
	s := newFixture(t)
	start(t, t, "hubbub-broker", []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=" + s.tap.address()}, "--sweep-interval=200ms", "--stale-after=3s")
	f := &workFixture{fixture: s, will: s.api.User("Will"), group: s.api.Supergroup(-1002, "ops")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("in the group:\n%s", strings.Join(s.api.Texts(f.group.ID), "\n"))
		}
	})
	f.say("@hubbub_bot hello", "scripted agent")
	return f
}

// awaitMatch returns the first text since the last message that matches an expression.
func (f *workFixture) awaitMatch(want string) string {
	f.t.Helper()
	at := -1
	expr := regexp.MustCompile(want)
	f.await(want, func() bool {
		at = slices.IndexFunc(f.api.Texts(f.group.ID)[f.from:], expr.MatchString)
		return at >= 0
	})
	return f.api.Texts(f.group.ID)[f.from+at]
}

// say sends a message and returns the first text after it that matches an expression.
func (f *workFixture) say(text, want string) string {
	f.t.Helper()
	f.from = len(f.api.Texts(f.group.ID))
	f.api.Say(f.group, f.will, text)
	return f.awaitMatch(want)
}

// TestWork_InGroupChat checks that a person in a Telegram group can create work, see who is woken
// and why, have it answered, get a reminder to review it, send it back and close it.
func TestWork_InGroupChat(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newWorkFixture(t)
	f.say("/who", `@tg--1002, online`)
	said := f.say("/work Write the release notes", `^wi-\w+: Write the release notes\. open, owner @tg--1002\.`)
	if !strings.Contains(said, "Woke tg--1002 (tg--1002: was invoked") {
		t.Errorf("who was woken and why: %s", said)
	}
	id, _, _ := strings.Cut(said, ":")
	f.awaitMatch(`^@tg--1002: .*Write the release notes`)
	f.awaitMatch(`^` + id + `: .* review, owner @tg--1002, next move @will, not accepted yet\.\n/done ` + id)
	f.awaitMatch(`^Reminder: ` + id + ` \(Write the release notes\) is waiting for @will, who has the next move`)
	f.say("/work "+id, `(?i)woke (tg--1002|nobody)`)

	f.say("/work "+id+" @tg--1002 shorter, please", `^`+id+`: .* working, owner @tg--1002`)
	f.awaitMatch(`^@tg--1002: .*shorter, please`)
	f.awaitMatch(`^` + id + `: .* review`)
	f.say("/done "+id+" well done", `^`+id+`: Write the release notes\. done`)
	f.say("/work", "No work is open here")
	f.say("/work list", "No work is open here")

	// Each step is explained.
	why := ""
	f.await("the end of the work in why", func() bool {
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "why", id, "--data="+f.data).CombinedOutput()
		why = string(out)
		return err == nil && strings.Contains(why, "accepted; last:") && regexp.MustCompile(`since .*: done`).MatchString(why)
	})
	for _, want := range []string{
		`created: open, owner tg--1002`, `woke tg--1002 \(tg--1002: was invoked`, `review_requested: review`,
		`reminder, as nothing had happened: tells \d+: has the next move on ` + id, `review|rejected`, `shorter, please`,
	} {
		if !regexp.MustCompile(want).MatchString(why) {
			t.Errorf("why does not say %q:\n%s", want, why)
		}
	}
}

// TestWork_ReachesPeersOutsideTheChat checks a message, questions and work for an agent and for
// people who are not in the chat.
func TestWork_ReachesPeersOutsideTheChat(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newWorkFixture(t)
	start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + f.tap.address()}, "--id=agent:helper", "--harness=scripted", "--compose-window=100ms")
	f.await("the helper", func() bool {
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "who", "@helper", "--bus=ws://"+f.bus, "--data="+f.data).Output()
		return err == nil && strings.Contains(string(out), "online")
	})
	f.say("@helper is the build green?", `Passed on to @helper`)
	f.awaitMatch(`^@helper: .*is the build green`)
	f.say("/ask @helper which region?", `^Asked @helper \(q-\w+\)\. Woke helper`)
	f.awaitMatch(`^@helper answered “which region\?”: `)
	said := f.say("/ask @will and the size?", `^Asked @will \(q-\w+\)\. To answer, send /done q-\w+ ANSWER\.`)
	question := regexp.MustCompile(`q-\w+`).FindString(said)
	f.awaitMatch(`^Reminder: ` + question + ` \(and the size\?\) is waiting for @will, who has the next move on ` + question + `\. To answer, send /done ` + question)
	f.say("/done "+question+" two nodes", `^@will answered “and the size\?”: two nodes$`)
	f.say("/done "+question, `^`+question+` is closed`)
	f.say("/done wi-none", `refused: there is no work item`)
	f.say("/ask", "/ask @NAME QUESTION")
	f.say("/work @nobody do it", `^wi-\w+: do it\. open, owner @nobody\.\n@nobody is away and is woken when it comes back`)

	// A person is reminded in their own chat of work that is in no chat.
	bob := f.api.User("Bob")
	dm := f.api.DM(bob)
	f.api.Say(dm, bob, "hello")
	f.awaitTexts(dm, 1)
	f.hubbub("work", "create", "check the bill", "--owner", fmt.Sprintf("tg:%d", bob.ID), "--id", "wi-bob")
	f.await("the reminder", func() bool {
		return slices.Contains(f.api.Texts(dm.ID), "Reminder: wi-bob (check the bill) is waiting for @bob, who has the next move on wi-bob.")
	})
	explained := regexp.MustCompile(`(?s)created: open.*woke nobody: \d+: has the next move on wi-bob.* is a person.*reminder, as nothing had happened: tells \d+: has the next move on wi-bob`)
	f.await("why of it", func() bool { return explained.MatchString(f.why("wi-bob")) })
}
