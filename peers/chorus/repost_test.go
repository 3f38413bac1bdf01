package chorus_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	client "hubbub/peers/collab"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestDelivery_KeepsItsIDIfOnlyTheContextChanges checks that an interrupted POST is repeated with
// the same message.id and callback although the contract has changed, so that its receiver
// recognizes the event.
func TestDelivery_KeepsItsIDIfOnlyTheContextChanges(t *testing.T) {
	t.Parallel()
	b, folder := bustest.Start(t, nil), filepath.Join(t.TempDir(), "chorus")
	impatient := func(o *chorus.Options) { o.StopTimeout = time.Millisecond }
	r := start(t, b, folder, impatient)
	outside := newReceiver(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	outside.responding(func(_ http.ResponseWriter, req *http.Request, n int) bool {
		if n == 0 {
			select {
			case <-hold:
			case <-req.Context().Done():
			}
		}
		return false
	})
	stopBroker := startBroker(t, b, filepath.Join(t.TempDir(), "broker.db"))
	will := askAs(t, b, "cli:will")
	r.add("ext", outside.url, chorus.AgentSettings{})
	waitFor(t, func() bool { return announced(t, will, "ext") })
	tg := b.Join(t, "tg:42", "tg:42")
	says(t, tg, "agent:ext", dm("e1", "hello?"))
	first := outside.next()
	if text := first.body["channel"].(map[string]any)["context"].(string); !strings.Contains(text, "How you work with others") {
		t.Fatalf("the context has no contract: %s", text)
	}
	r.stop()
	stopBroker()
	later := start(t, b, folder, impatient)
	again := outside.next()
	if got := again.body["message"].(map[string]any)["id"]; got != "e1" {
		t.Errorf("posted again as %v; want e1", got)
	}
	if was, is := secretOf(first), secretOf(again); was != is {
		t.Errorf("the callback ends with %s; want %s", is, was)
	}
	waitFor(t, func() bool { return tg.Send(t, "agent:ext", protocol.TypeTGMessage, dm("e2", "and?")).DeliveredTo == 1 })
	if next := outside.next(); next.body["message"].(map[string]any)["id"] != "e2" { // turns of a chat come in their order
		t.Errorf("posted next %s; want e2", next.raw)
	}
	if status, answer := post(t, later.url+"/callback/"+secretOf(first), `{"type":"message","content":"here"}`); status != http.StatusOK {
		t.Errorf("the callback: %d %s", status, answer)
	}
}

// announced reports whether the broker knows an agent.
func announced(t *testing.T, broker *client.Client, agent string) bool {
	t.Helper()
	page, err := collab.IdentityList.Ask(t.Context(), broker, collab.PageParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		if e, err := item.Read(); err == nil && e.LogicalAgentID == agent {
			return true
		}
	}
	return false
}

// secretOf returns the end of the callback of a POST.
func secretOf(c call) string {
	address := c.body["callback"].(string)
	return address[strings.LastIndex(address, "/")+1:]
}

// TestDelivery_RefusesAnswersToAnOldText covers an answer that was in flight when the message was
// edited, one whose callback was looked up before, and one by the tools of the earlier delivery.
func TestDelivery_RefusesAnswersToAnOldText(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url, chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "is it safe?"))
	first := outside.next()

	began := make(chan struct{})
	body, slowly := io.Pipe()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(began) }}) // it reads the body: the callback is known
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, first.body["callback"].(string), body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue")
	status := make(chan int, 1)
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	t.Cleanup(client.CloseIdleConnections)
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-began
	edited := dm("e1", "is it safe, and cheap?")
	edited.Event, edited.Sequence = protocol.EventEdit, 2
	says(t, tg, "agent:ext", edited)
	second := outside.next()
	if _, err := io.WriteString(slowly, `{"type":"message","content":"It is safe."}`); err != nil {
		t.Fatal(err)
	}
	slowly.Close()
	if got := <-status; got != http.StatusForbidden {
		t.Errorf("the answer to the old words: %d; want 403", got)
	}
	old := toolsOf(t, first)
	if given, why := old.call("chat.send_message", map[string]any{"inReplyTo": "e1", "text": "It is safe."}); given["reason"] != "cancelled" {
		t.Errorf("the tool of the old delivery says %v %q", given, why)
	}
	if got, why := post(t, second.body["callback"].(string), `{"type":"message","content":"It is both."}`); got != http.StatusOK {
		t.Errorf("the answer to the new words: %d %s", got, why)
	}
	if reply := nextReply(t, tg); reply.Text != "It is both." {
		t.Errorf("the chat got %q", reply.Text)
	}
}

// TestInbox_RepeatedMessageIsNotAFastAnswer checks that a person does not count as a program because
// the service repeats their POST between an agent's messages.
func TestInbox_RepeatedMessageIsNotAFastAnswer(t *testing.T) {
	r, callback := startNew(t, func(o *chorus.Options) { o.Now = newClock().now }), newReceiver(t)
	system, agent := r.bus.Join(t, protocol.PeerSystem, "system:*"), r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	say := func(id string) {
		if status, text := post(t, inbox, posted("c1", id, "and what of that?", callback.url)); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	say("m0")
	system.Next(t)
	system.Send(t, "chorus:ops.c1", protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: "chorus:ops.c1", Agent: "agent:a"})
	agent.Next(t) // configure
	agent.Next(t)
	for i := range 12 {
		agent.Send(t, "chorus:ops.c1", protocol.TypeChatReply, protocol.ChatReply{Text: fmt.Sprint("news ", i), IdempotencyKey: fmt.Sprint("k", i)})
		for callback.kind() != "message" {
		}
		say("m0")
	}
	say("m1")
	var m protocol.ChatMessage
	next := agent.Next(t)
	for next.Message.Type == protocol.TypeDeliveryStatus {
		next = agent.Next(t)
	}
	if err := next.Decode(&m); err != nil || m.Text != "and what of that?" || m.Author.Kind != "human" || m.ReplyTo != nil {
		t.Errorf("%v, got %+v by %+v", err, m, m.Author)
	}
}
