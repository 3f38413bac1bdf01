package chorus_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/protocol"
)

// sameChannel returns a message of alice in the channel c.
func sameChannel(id, content, callback string) map[string]any {
	m := posted("c", id, content, callback)
	m["message"].(map[string]any)["sender"] = "alice"
	return m
}

// nextChat reads messages until a chat_message comes.
func nextChat(t *testing.T, agent *bustest.Scripted) (m protocol.ChatMessage) {
	t.Helper()
	if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestInbox_OneChannelIsOneRoom puts two agents behind two inboxes into one channel. They receive
// the same event, a message to nobody obliges neither, and without a claim neither answers a
// role.
func TestInbox_OneChannelIsOneRoom(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	startBroker(t, r.bus, filepath.Join(t.TempDir(), "broker.db"))
	system := r.bus.Join(t, protocol.PeerSystem, "system:*")
	names := []string{"alpha", "beta"}
	inboxes, agents := map[string]string{}, map[string]*bustest.Scripted{}
	for _, name := range names {
		agents[name] = r.bus.Join(t, protocol.AgentID("w-"+name), protocol.Pattern(protocol.AgentID("w-"+name)))
		inboxes[name] = r.inbox(chorus.InboxName(name))
	}
	say := func(id, content string) (received []protocol.ChatMessage) {
		t.Helper()
		for _, name := range names {
			if status, answer := post(t, inboxes[name], sameChannel(id, content, callback.url+"/"+name)); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		for range names {
			if id == "m1" { // the channels of both inboxes request their agents
				channel := system.NextOf(t, protocol.TypeSpawnRequest).Message.From
				inbox, _, _ := strings.Cut(channel.Name(), ".")
				system.Send(t, channel.Topic(), protocol.TypeRouteAssigned,
					protocol.RouteAssigned{Topic: channel.Topic(), Agent: protocol.AgentID("w-" + inbox)})
			}
		}
		for _, name := range names {
			received = append(received, nextChat(t, agents[name]))
		}
		return received
	}
	for i, c := range []struct{ text, mentions string }{
		{"hello you two", "[]"},
		{"@timber can you look?", "[]"},
		{"@backend-agents who can look?", "[]"},
		{"what about this?", "[]"},
		{"@beta look", "[agent:w-beta]"},
		{"@w-alpha look", "[agent:w-alpha]"},
		{"@alpha and @w-beta look", "[agent:w-alpha agent:w-beta]"},
	} {
		received := say(fmt.Sprint("m", i+1), c.text)
		if received[0].SourceID != received[1].SourceID {
			t.Errorf("%q is %s and %s; want one event", c.text, received[0].SourceID, received[1].SourceID)
		}
		for j, m := range received {
			if got := fmt.Sprint(m.Mentions); got != c.mentions {
				t.Errorf("%q mentions %s to %s; want %s", c.text, got, names[j], c.mentions)
			}
		}
	}
	role := say("m8", "@backend-agents who can look?")[0]
	named := say("m9", "@alpha can you look?")[0]
	for _, c := range []struct{ to, agent, status string }{
		{role.SourceID, "alpha", protocol.StatusFailed}, {named.SourceID, "beta", protocol.StatusFailed}, {named.SourceID, "alpha", protocol.StatusDelivered},
	} {
		agents[c.agent].Send(t, protocol.Topic("chorus:"+c.agent+".c"), protocol.TypeChatReply, protocol.ChatReply{Text: "I can.", InReplyTo: c.to, IdempotencyKey: c.agent + c.to})
		var s protocol.DeliveryStatus
		if err := agents[c.agent].NextOf(t, protocol.TypeDeliveryStatus).Decode(&s); err != nil || s.Status != c.status || s.Status == protocol.StatusFailed && !strings.Contains(s.Reason, "claim") {
			t.Errorf("the answer of %s to %s: %+v, %v; want %s", c.agent, c.to, s, err, c.status)
		}
	}
}

// TestInbox_RoomCountsAgentThatStarts starts the agent behind one inbox of a
// channel long after the agent behind the other. A message to nobody obliges
// neither.
func TestInbox_RoomCountsAgentThatStarts(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	system := r.bus.Join(t, protocol.PeerSystem, "system:*")
	for _, name := range []string{"alpha", "beta"} {
		if status, answer := post(t, r.inbox(chorus.InboxName(name)), sameChannel("m1", "hello you two", callback.url)); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
	}
	requests := []protocol.PeerID{
		system.NextOf(t, protocol.TypeSpawnRequest).Message.From,
		system.NextOf(t, protocol.TypeSpawnRequest).Message.From,
	}
	for _, channel := range requests {
		inbox, _, _ := strings.Cut(channel.Name(), ".")
		id := protocol.AgentID("w-" + inbox)
		agent := r.bus.Join(t, id, protocol.Pattern(id))
		system.Send(t, channel.Topic(), protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: channel.Topic(), Agent: id})
		if m := nextChat(t, agent); len(m.Mentions) > 0 {
			t.Errorf("the message mentions %v to %s; want nobody", m.Mentions, id)
		}
	}
}

// TestInbox_SoleAgentIsAddressed covers channels with one agent: a message that names nobody
// known is for that agent, even while other inboxes have channels of the same name.
func TestInbox_SoleAgentIsAddressed(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	one, two := r.inbox("one"), r.inbox("two")
	for i, text := range []string{"hello", "@timber look", "@backend-agents look", "is it done?", "@one look"} {
		for inbox, id := range map[string]string{one: fmt.Sprint("m", i), two: fmt.Sprint("n", i)} {
			if status, answer := post(t, inbox, sameChannel(id, text, callback.url)); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		for range 2 {
			if m := nextChat(t, agent); fmt.Sprint(m.Mentions) != "[agent:a]" {
				t.Errorf("%q of %s mentions %v; want the agent", m.Text, m.SourceID, m.Mentions)
			}
		}
	}
}

// TestInbox_ProgramsAreAgents checks that an author counts as an agent if the service declares it,
// or if it answers our agent at once, again and again. A person with the agent's name is a person.
func TestInbox_ProgramsAreAgents(t *testing.T) {
	r := startNew(t, func(o *chorus.Options) { o.Now = newClock().now })
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	says := func(id, sender, kind, text string) protocol.ChatMessage {
		t.Helper()
		m := sameChannel(id, text, callback.url)
		message := m["message"].(map[string]any)
		if message["sender"] = sender; kind != "" {
			message["senderKind"] = kind
		}
		if status, answer := post(t, inbox, m); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		return nextChat(t, agent)
	}
	for i, c := range []struct{ sender, kind, want string }{
		{"a", "", "human a [agent:a]"}, {"A", "", "human A [agent:a]"}, {"ops", "", "human ops [agent:a]"},
		{"a", "human", "human a [agent:a]"}, {"timber", "bot", "agent timber []"}, {"timber", "", "human timber [agent:a]"},
	} {
		m := says(fmt.Sprint("k", i), c.sender, c.kind, "is it done?")
		if got := fmt.Sprint(m.Author.Kind, " ", m.Author.ID, " ", m.Mentions); got != c.want {
			t.Errorf("%s, declared as %q, is %s; want %s", c.sender, c.kind, got, c.want)
		}
	}
	var m protocol.ChatMessage
	for i := range 9 {
		said := says(fmt.Sprint("p", i), "pine", "", fmt.Sprint("and what of ", i, "?"))
		if i < 8 && said.Author.Kind != "human" {
			t.Fatalf("after %d answers it is an agent", i)
		}
		agent.Send(t, "chorus:ops.c", protocol.TypeChatReply, protocol.ChatReply{Text: fmt.Sprint("It is ", i), InReplyTo: said.SourceID, IdempotencyKey: fmt.Sprint(i)})
		agent.NextOf(t, protocol.TypeDeliveryStatus)
	}
	if m = says("p9", "pine", "", "and what of 9?"); m.Author.Kind != "agent" || m.Author.ID != "chorus:pine" || m.ReplyTo == nil || m.ReplyTo.Author != "agent:a" {
		t.Errorf("after 9 answers: %+v, in reply to %+v; want an agent that answers ours", m.Author, m.ReplyTo)
	}
}
