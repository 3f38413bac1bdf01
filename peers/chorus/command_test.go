package chorus_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/peers/chorus"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// textMatching reads the texts of a channel up to the first that matches an expression.
func textMatching(t *testing.T, callback *receiver, want string) string {
	t.Helper()
	expr := regexp.MustCompile(want)
	for {
		if c := callback.next(); c.body["type"] == "message" {
			if text := c.body["content"].(string); expr.MatchString(text) {
				return text
			}
			t.Logf("before %q: %s", want, c.raw)
		}
	}
}

// TestCommand_CreatesWorkInAChannel checks that a command in a channel is carried out in its
// author's name, and that the channel receives the outcome. The channel's own agent does not see
// it. With a leading mention of a remote agent, it goes to that agent.
func TestCommand_CreatesWorkInAChannel(t *testing.T) {
	r := startNew(t, nil)
	startBroker(t, r.bus, filepath.Join(t.TempDir(), "broker.db"))
	spawner(t, r.bus, "agent:a")
	own := r.bus.Join(t, "agent:a", "agent:a")
	elsewhere, callback := newReceiver(t), newReceiver(t)
	r.add("ext", elsewhere.url, chorus.AgentSettings{})
	will := askAs(t, r.bus, "cli:will")
	waitFor(t, func() bool {
		got, err := collab.IdentityResolve.Ask(t.Context(), will, collab.LabelParams{Label: "@ext"})
		return err == nil && got.Identity.Status == collab.StatusOnline
	})
	awaitPresence(t, r.bus, "agent:ext")
	inbox, n := r.inbox("ops"), 0
	say := func(text string) {
		t.Helper()
		n++
		if status, answer := post(t, inbox, posted("c", fmt.Sprint("m", n), text, callback.url)); status != http.StatusOK {
			t.Fatalf("%s: %d %s", text, status, answer)
		}
	}
	told := func(want string) string { return textMatching(t, callback, want) }
	answer := func(with string) {
		t.Helper()
		if status, said := post(t, elsewhere.next().body["callback"].(string), `{"type":"message","content":"`+with+`"}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, said)
		}
	}
	say("/who")
	told(`^Agents you can give work to:\n(.*\n)*• @ext, online`)
	say("/work @ext Write the notes")
	given := told(`^wi-\w+: Write the notes\. open, owner @ext\.\nWoke ext \(ext: was invoked`)
	id, _, _ := strings.Cut(given, ":")
	answer("Here they are.")
	told(`^@ext: Here they are\.$`)
	told(`^` + id + `: .* review, owner @ext, next move @alice, not accepted yet\.\n/done ` + id)
	got, err := collab.WorkGet.Ask(t.Context(), will, collab.IDParams{ID: id})
	if err != nil || got.WorkItem.CreatedByIdentity != "chorus:alice" || got.WorkItem.ConversationID != "chorus:ops.c" {
		t.Errorf("the broker has %+v, %v", got.WorkItem, err)
	}
	bound, err := collab.BindingGet.Ask(t.Context(), will, collab.BindingParams{Surface: "chorus", ExternalID: "chorus:ops.c"})
	if collab.Refusal(err) != collab.CodeNotFound {
		t.Errorf("a channel without an agent is bound to %+v, %v", bound, err)
	}
	say("/done " + id)
	told(`^` + id + `: Write the notes\. done`)
	say("/work " + id + " @alice once more")
	told(`^` + id + `: Write the notes\. open, owner @alice`)
	say("/done " + id)
	told(`^` + id + `: Write the notes\. done`)
	say("/ask @ext which region?")
	told(`^Asked @ext \(q-\w+\)\. Woke ext`)
	answer("eu-west")
	told(`^@ext answered “which region\?”: eu-west$`)
	heard := func() (m protocol.ChatMessage) {
		t.Helper()
		if err := own.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	// None of this was for the channel's own agent. This is, and it is not a command.
	say("/ask is it green?")
	if m := heard(); m.Text != "/ask is it green?" {
		t.Errorf("the agent of the channel heard first: %+v", m)
	}
	say("@ext is the build green?")
	told(`^Passed on to @ext`)
	answer("It is.")
	told(`^@ext: It is\.$`)
	if m := heard(); m.Text != "@ext is the build green?" || strings.Contains(strings.Join(m.Mentions, " "), "agent:a") {
		t.Errorf("the agent of the channel is meant by what is for another: %+v", m)
	}
}

// TestCommand_TextWaitsForTheNextMessage covers a newest message whose callback accepts nothing
// more. A message from a hook has no callback and does not count.
func TestCommand_TextWaitsForTheNextMessage(t *testing.T) {
	r := startNew(t, nil)
	startBroker(t, r.bus, filepath.Join(t.TempDir(), "broker.db"))
	spawner(t, r.bus, "agent:a")
	own := r.bus.Join(t, "agent:a", "agent:a")
	will := askAs(t, r.bus, "cli:will")
	old, fresh := newReceiver(t), newReceiver(t)
	inbox := r.inbox("ops")
	say := func(id, text, callback string) {
		t.Helper()
		if status, answer := post(t, inbox, posted("c", id, text, callback)); status != http.StatusOK {
			t.Fatalf("%s: %d %s", text, status, answer)
		}
	}
	told := func(by *receiver, want string) string {
		t.Helper()
		for {
			if c := by.next(); c.body["type"] == "message" {
				text := c.body["content"].(string)
				if !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("the channel was told %q, want %q", text, want)
				}
				return text
			}
		}
	}
	say("m1", "/work @alice Write the notes", old.url)
	id, _, _ := strings.Cut(told(old, `^wi-\w+: Write the notes\. open, owner @alice`), ":")
	gone := make(chan struct{}, 10)
	old.responding(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusGone)
		gone <- struct{}{}
		return true
	})
	update := func(p collab.WorkParams) {
		t.Helper()
		p.ID = &id
		if _, err := collab.WorkUpdate.Ask(t.Context(), will, p); err != nil {
			t.Fatal(err)
		}
	}
	update(collab.WorkParams{State: collab.WorkWorking})
	<-gone
	hook, secret := r.hook("ci", "chorus:ops.c", false)
	if status, answer := post(t, hook, "green", standard(secret, "msg_1", time.Now(), "green")...); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	own.NextOf(t, protocol.TypeChatMessage)
	update(collab.WorkParams{State: collab.WorkDone})
	<-gone
	fresh.responding(func(w http.ResponseWriter, _ *http.Request, n int) bool { // such an answer is not lost either
		if n == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return n == 0
	})
	say("m2", "/who", fresh.url)
	told(fresh, `^`+id+`: Write the notes\. working`)
	told(fresh, `^`+id+`: Write the notes\. working`)
	last := []string{ // in either order: the waiting text may be queued behind the answer
		told(fresh, `^(`+id+`: Write the notes\. done|Agents you|No agent)`),
		told(fresh, `^(`+id+`: Write the notes\. done|Agents you|No agent)`),
	}
	if strings.HasPrefix(last[0], id) == strings.HasPrefix(last[1], id) {
		t.Errorf("the channel was told %q; want what waited and the answer", last)
	}
	if n := len(gone); n != 0 {
		t.Errorf("a callback that is gone was tried %d times more", n)
	}
}
