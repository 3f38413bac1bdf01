package cmd_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWork_InGroupChat checks that a person in a Telegram group can create work, see who is woken
// and why, have it answered, get a reminder to review it, send it back and close it. It also
// checks a question and a message for an agent outside the chat.
func TestWork_InGroupChat(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newFixture(t)
	start(t, t, "hubbub-broker", []string{"HUBBUB_DATA=" + s.data, "HUBBUB_BUS=" + s.tap.address()}, "--sweep-interval=200ms", "--stale-after=3s")
	will := s.api.User("Will")
	group := s.api.Supergroup(-1002, "ops")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("in the group:\n%s", strings.Join(s.api.Texts(group.ID), "\n"))
		}
	})
	from := 0
	await := func(want string) string { // returns the first text since the last message that matches want
		t.Helper()
		at := -1
		expr := regexp.MustCompile(want)
		s.await(want, func() bool {
			at = slices.IndexFunc(s.api.Texts(group.ID)[from:], expr.MatchString)
			return at >= 0
		})
		return s.api.Texts(group.ID)[from+at]
	}
	say := func(text, want string) string {
		t.Helper()
		from = len(s.api.Texts(group.ID))
		s.api.Say(group, will, text)
		return await(want)
	}

	say("@hubbub_bot hello", "scripted agent")
	say("/who", `@tg--1002, online`)
	said := say("/work Write the release notes", `^wi-\w+: Write the release notes\. open, owner @tg--1002\.`)
	if !strings.Contains(said, "Woke tg--1002 (tg--1002: was invoked") {
		t.Errorf("who was woken and why: %s", said)
	}
	id, _, _ := strings.Cut(said, ":")
	await(`^@tg--1002: .*Write the release notes`)
	await(`^` + id + `: .* review, owner @tg--1002, next move @will, not accepted yet\.\n/done ` + id)
	await(`^Reminder: ` + id + ` \(Write the release notes\) is waiting for @will, who has the next move`)
	say("/work "+id, `(?i)woke (tg--1002|nobody)`)

	say("/work "+id+" @tg--1002 shorter, please", `^`+id+`: .* working, owner @tg--1002`)
	await(`^@tg--1002: .*shorter, please`)
	await(`^` + id + `: .* review`)
	say("/done "+id+" well done", `^`+id+`: Write the release notes\. done`)
	say("/work", "No work is open here")
	say("/work list", "No work is open here")

	// Each step is explained.
	why := ""
	s.await("the end of the work in why", func() bool {
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "why", id, "--data="+s.data).CombinedOutput()
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

	// An agent that is not in the chat is reached by name.
	start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + s.tap.address()}, "--id=agent:helper", "--harness=scripted", "--compose-window=100ms")
	s.await("the helper", func() bool {
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "who", "@helper", "--bus=ws://"+s.bus, "--data="+s.data).Output()
		return err == nil && strings.Contains(string(out), "online")
	})
	say("@helper is the build green?", `Passed on to @helper`)
	await(`^@helper: .*is the build green`)
	say("/ask @helper which region?", `^Asked @helper \(q-\w+\)\. Woke helper`)
	await(`^@helper answered “which region\?”: `)
	said = say("/ask @will and the size?", `^Asked @will \(q-\w+\)\. To answer, send /done q-\w+ ANSWER\.`)
	question := regexp.MustCompile(`q-\w+`).FindString(said)
	await(`^Reminder: ` + question + ` \(and the size\?\) is waiting for @will, who has the next move on ` + question + `\. To answer, send /done ` + question)
	say("/done "+question+" two nodes", `^@will answered “and the size\?”: two nodes$`)
	say("/done "+question, `^`+question+` is closed`)
	say("/done wi-none", `refused: there is no work item`)
	say("/ask", "/ask @NAME QUESTION")
	say("/work @nobody do it", `^wi-\w+: do it\. open, owner @nobody\.\n@nobody is away and is woken when it comes back`)

	// A person is reminded in their own chat of work that is in no chat.
	bob := s.api.User("Bob")
	dm := s.api.DM(bob)
	s.api.Say(dm, bob, "hello")
	s.awaitTexts(dm, 1)
	s.hubbub("work", "create", "check the bill", "--owner", fmt.Sprintf("tg:%d", bob.ID), "--id", "wi-bob")
	s.await("the reminder", func() bool {
		return slices.Contains(s.api.Texts(dm.ID), "Reminder: wi-bob (check the bill) is waiting for @bob, who has the next move on wi-bob.")
	})
	told := regexp.MustCompile(`(?s)created: open.*woke nobody: \d+: has the next move on wi-bob.* is a person.*reminder, as nothing had happened: tells \d+: has the next move on wi-bob`)
	s.await("why of it", func() bool { return told.MatchString(s.why("wi-bob")) })
}
