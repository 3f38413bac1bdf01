package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"
)

// A hookSender signs bodies with openssl and posts them with curl.
type hookSender struct {
	s           *fixture
	url, secret string
}

// newSender creates a hook and its sender.
func newSender(s *fixture, args ...string) *hookSender {
	s.t.Helper()
	for _, tool := range []string{"curl", "openssl", "base64", "od"} {
		if _, err := exec.LookPath(tool); err != nil {
			s.t.Skipf("%s is missing", tool)
		}
	}
	printed := strings.Fields(s.hubbub(append([]string{"hook", "add"}, args...)...))
	return &hookSender{s, printed[0], printed[1]}
}

// asGitHub and asStandard are shell scripts that POST $body to $url, signed with $secret.
const (
	asGitHub = `signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$secret" -r | cut -d' ' -f1)
printf %s "$body" | curl -sS -w ' %{http_code}' --data-binary @- -H 'Content-Type: application/json' -H 'X-GitHub-Event: push' \
	-H "X-GitHub-Delivery: $id" -H "X-Hub-Signature-256: sha256=$signature" "$url"`
	asStandard = `key=$(printf %s "${secret#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n') at=$(date +%s)
signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
printf %s "$body" | curl -sS -w ' %{http_code}' --data-binary @- -H 'Content-Type: application/json' \
	-H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature" "$url"`
)

// post posts a body and returns the response with its status.
func (p *hookSender) post(how, id, body string) string {
	p.s.t.Helper()
	cmd := exec.CommandContext(p.s.t.Context(), "sh", "-euc", how)
	cmd.Env = append(os.Environ(), "url="+p.url, "secret="+p.secret, "id="+id, "body="+body)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.s.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// mustContain fails the test unless an answer contains all wanted texts.
func mustContain(t *testing.T, answer string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(answer, want) {
			t.Errorf("%q; want %s", answer, want)
		}
	}
}

// TestHook_ReachesAgent checks that signed posts of external programs reach the agent of a chat,
// which must answer them or only stores them: each once, whichever program is killed after the
// 200. A post mentions nobody, and why shows it.
func TestHook_ReachesAgent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newScriptedFixture(t)
	at := "--listen=" + bustest.FreeAddress(t)
	s.start("chorus", at)
	will := s.api.User("Will")
	chat := s.api.DM(will)
	s.api.Say(chat, will, "hello")
	s.awaitTexts(chat, 1)
	topic := string(topicOf(chat))
	loud, quiet := newSender(s, "loud", "--chat", topic, "--oblige"), newSender(s, "quiet", "--chat", topic)

	mustContain(t, quiet.post(asStandard, "msg_1", `{"text":"stop"}`), "accepted", " 200")
	s.await("the quiet event", func() bool {
		return slices.ContainsFunc(recordsOf[protocol.AttentionDecision](s), func(a *protocol.AttentionDecision) bool {
			return a.EventID == "hook:quiet:msg_1" && a.Reason == "status+quoted" && a.Policy == "must_not_respond"
		})
	})
	said := func(n int) string { return fmt.Sprintf(`do chat_send_message {"text":"Build %d is red."}`, n) }
	mustContain(t, loud.post(asGitHub, "g-1", said(1)), "accepted", " 200")
	s.awaitTexts(chat, 2)
	mustContain(t, loud.post(asGitHub, "g-2", said(1)), "duplicate", " 200")

	s.run["bus"].kill()
	mustContain(t, loud.post(asStandard, "msg_2", said(2)), "accepted", " 200")
	s.run["chorus"].kill()
	s.start("bus")
	s.start("chorus", at)
	s.awaitTexts(chat, 3)
	s.run["tg"].kill()
	mustContain(t, loud.post(asStandard, "msg_3", said(3)), "accepted", " 200")
	s.run["chorus"].kill()
	s.restart("system")
	s.start("tg")
	s.start("chorus", at)
	s.awaitTexts(chat, 4)
	mustContain(t, loud.post(asStandard, "msg_3", said(3)), "duplicate", " 200")

	var why string
	s.await("the end of the event", func() bool {
		why = s.why("hook:loud:msg_3")
		return strings.Contains(why, "ended: responded")
	})
	if strings.Count(why, topic) != 0 || !strings.Contains(why, "because assignment") {
		t.Errorf("hubbub why says\n%s", why)
	}
	mustContain(t, s.hubbub("hook", "list"), "loud   "+topic, "its agent", "quiet", "nobody")
	loud.secret = strings.Fields(s.hubbub("hook", "rotate", "loud"))[1] + "x"
	mustContain(t, loud.post(asGitHub, "g-3", "anything"), "the signature does not match", " 403")
	mustContain(t, s.hubbub("hook", "list"), "refused at", "the signature does not match")
	s.hubbub("hook", "remove", "quiet")
	mustContain(t, quiet.post(asStandard, "msg_9", "x"), "there is no such hook", " 404")
	if got := s.api.Texts(chat.ID); !slices.Equal(got[1:], []string{"Build 1 is red.", "Build 2 is red.", "Build 3 is red."}) {
		t.Errorf("the chat reads %q", got)
	}
}

// TestHook_AcceptsLibraries posts with the libraries of Standard Webhooks and of GitHub.
func TestHook_AcceptsLibraries(t *testing.T) {
	send := func(how string, p *hookSender, id, body string) string {
		t.Helper()
		out, err := node(t, "HUBBUB_HOOKS", "make test-hooks", filepath.Join("hook", "send.mjs"), how, p.url, p.secret, id, body).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	send("standard", &hookSender{url: "data:,", secret: "whsec_AAAA"}, "", "") // skips before anything starts
	s := newScriptedFixture(t)
	s.start("chorus")
	will := s.api.User("Will")
	chat := s.api.DM(will)
	s.api.Say(chat, will, "hello")
	s.awaitTexts(chat, 1)
	p := newSender(s, "ci", "--chat", string(topicOf(chat)), "--oblige")
	for i, how := range []string{"standard", "github"} {
		said := fmt.Sprintf(`do chat_send_message {"text":"Said by %s: ü."}`, how)
		mustContain(t, send(how, p, "msg_1", said), "accepted", " 200")
		mustContain(t, send(how, p, "msg_1", said), "duplicate", " 200")
		if got := s.awaitTexts(chat, i+2); got[i+1] != "Said by "+how+": ü." {
			t.Errorf("the chat reads %q", got)
		}
	}
	p.secret = "whsec_" + strings.Repeat("A", 44)
	mustContain(t, send("standard", p, "msg_2", "x"), "the signature does not match", " 403")
}

// TestHook_ResumesWaitingWork checks that a post resumes work that waits for it, even if the
// broker was down, and wakes the one with the next move. A repetition changes nothing.
func TestHook_ResumesWaitingWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newFixture(t)
	s.start("broker")
	at := "--listen=" + bustest.FreeAddress(t)
	s.start("chorus", at)
	start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + s.tap.address()}, "--id=agent:lead", "--harness=scripted")
	s.await("the agent", func() bool { return strings.Contains(s.hubbub("who"), "lead") })
	nightly := newSender(s, "nightly", "--arrives")
	for id, thing := range map[string]string{"wi-1": "build-42", "wi-2": "nightly", "wi-3": "build-43"} {
		s.hubbub("work", "create", "release "+thing, "--owner", "lead", "--id", id, "--quiet")
		s.hubbub("work", "wait", id, "the build", "--kind", "artifact", "--on", thing)
	}
	stands := func(id, want string) {
		t.Helper()
		s.await(id+" "+want, func() bool { return strings.Contains(s.hubbub("work", "show", id), want) })
	}
	mustContain(t, nightly.post(asStandard, "msg_1", `{"arrived":"build-42"}`), "accepted", " 200")
	stands("wi-1", "woke lead")
	s.run["broker"].kill()
	mustContain(t, nightly.post(asGitHub, "g-1", `{"zen":"Keep it logically awesome."}`), "accepted", " 200")
	s.run["chorus"].kill()
	s.start("chorus", at)
	s.start("broker")
	stands("wi-2", "woke lead")
	stands("wi-3", "waiting")
	s.hubbub("work", "wait", "wi-1", "the build", "--kind", "artifact", "--on", "build-42")
	mustContain(t, nightly.post(asStandard, "msg_1", `{"arrived":"build-42"}`), "duplicate", " 200")
	stands("wi-1", "waiting")
	s.await("why of it", func() bool {
		why := s.why("wi-2")
		return strings.Contains(why, "waits for the build") && strings.Contains(why, "woke lead (lead: has the next move on wi-2")
	})
}
