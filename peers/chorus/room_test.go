package chorus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
)

func TestConversationKind_IsChannelUnlessDirect(t *testing.T) {
	for context, want := range map[string]string{
		"":                                       "channel",
		"The team uses this for ops.":            "channel",
		"Two teams share it; admin is @alice.":   "channel",
		"A direct message between alice and you": "dm",
		"A DM":                                   "dm",
		"a 1:1 with alice":                       "dm",
		"One-on-one with the founder":            "dm",
		"Private conversation":                   "dm",
		"There are two participants.":            "dm",
		"between the two of you":                 "dm",
	} {
		if got := string(conversationKind(&InboxMessage{Context: context})); got != want {
			t.Errorf("%q is a %s; want a %s", context, got, want)
		}
	}
}

func TestAuthorOf_RecognizesAgentsAndServices(t *testing.T) {
	onBus := func(id protocol.PeerID) bool { return id == "agent:lead" }
	for _, c := range []struct {
		sender, service string
		said            protocol.PeerID
		want            string
	}{
		{"alice", "Miriad — studio", "", "human alice"},
		{"lead", "Miriad", "", "agent agent:lead"},
		{"Lead", "Miriad", "", "agent agent:lead"},
		{"agent:lead", "Miriad", "", "agent agent:lead"},
		{"timber", "Miriad", "agent:w3", "agent agent:w3"},
		{"Miriad", "Miriad — studio", "", "system Miriad"},
		{"miriad — studio", "Miriad — studio", "", "system miriad — studio"},
		{"System", "", "", "system System"},
		{"bob", "", "", "human bob"},
	} {
		a := authorOf(&InboxMessage{Sender: c.sender, Service: c.service}, c.said, onBus)
		if got := a.Kind + " " + a.ID; got != c.want || a.DisplayName != c.sender {
			t.Errorf("%q of %q is %q, shown as %q; want %q", c.sender, c.service, got, a.DisplayName, c.want)
		}
	}
}

func TestResolveMentions(t *testing.T) {
	known := func(name string) string {
		return map[string]string{"bob": "user:bob", "docs": "agent:w2"}[strings.ToLower(name)]
	}
	for _, c := range []struct{ text, kind, want string }{
		{"What's the weather?", "human", "agent:lead"},
		{"@timber can you look?", "human", "agent:lead"}, // its name there, which we do not know
		{"@lead look", "human", "agent:lead"},
		{"@ops look", "human", "agent:lead"},
		{"@bob look", "human", "user:bob"},
		{"@Bob and @lead look", "human", "user:bob agent:lead"},
		{"@docs look", "human", "agent:w2"}, // behind another inbox of the channel
		{"@docs and @ops look", "human", "agent:w2 agent:lead"},
		{"done", "agent", ""},
		{"done @timber", "agent", ""},
		{"@lead over to you", "agent", "agent:lead"},
		{"bob joined", "system", ""},
	} {
		if got := strings.Join(resolveMentions(c.text, &protocol.Author{Kind: c.kind}, "agent:lead", "ops", known), " "); got != c.want {
			t.Errorf("%q of a %s means %q; want %q", c.text, c.kind, got, c.want)
		}
	}
}

// TestEchoFilter_RecognizesAnAgentsText: a service brings what it said in one channel to another under
// a name of the service's. What people say, too, tells nothing, and all of it is bounded.
func TestEchoFilter_RecognizesAnAgentsText(t *testing.T) {
	now := time.Unix(0, 0)
	c := newEchoFilter(func() time.Time { return now })
	c.record("agent:a", "chorus:one.x", "The deploy is done.")
	c.record("agent:a", "chorus:one.x", "Yes!")
	c.record("", "chorus:one.x", "Said by nobody here.")
	for _, s := range []struct {
		channel protocol.PeerID
		text    string
		want    protocol.PeerID
	}{
		{"chorus:two.x", " The deploy is done.\n", "agent:a"}, {"chorus:one.x", "The deploy is done.", ""},
		{"chorus:two.x", "Yes!", ""}, {"chorus:two.x", "Said by nobody here.", ""}, {"chorus:two.x", "The deploy is not done.", ""},
		{"chorus:two.x", "**The deploy is done.**\n— from Studio", ""}, {"chorus:two.x", "bot: the deploy is done", "agent:a"}, {"chorus:two.y", "bot: the deploy is done", ""},
		{"chorus:two.x", "You said the deploy is done, and is it?", ""}, {"chorus:two.x", "deploy is", ""},
	} {
		if got := c.author(s.channel, s.text); got != s.want {
			t.Errorf("%q in %s was said by %q; want %q", s.text, s.channel, got, s.want)
		}
	}
	now = now.Add(echoWindow)
	if got := c.author("chorus:two.x", "The deploy is done."); got != "" {
		t.Errorf("after %s it is still %s's", echoWindow, got)
	}
	for i := range 2*maxEchoes + 1 {
		text := fmt.Sprintf("message number %d", i)
		if c.record("agent:a", "chorus:one.x", text); c.author("chorus:two.x", text) != "agent:a" || c.recent.Len() > maxEchoes {
			t.Fatalf("of %d texts %d are kept", i, c.recent.Len())
		}
	}
}

func TestRoster_HoldsAgentsThatAreOnline(t *testing.T) {
	r := newRoster()
	r.onPresence(protocol.Presence{Peer: "agent:a", State: protocol.PresenceJoined})
	r.onPresence(protocol.Presence{Peer: "cli:b", State: protocol.PresenceJoined})
	there := []bool{r.isOnline("agent:a"), r.isOnline("cli:b")}
	r.onPresence(protocol.Presence{Peer: "agent:a", State: protocol.PresenceLeft})
	if there = append(there, r.isOnline("agent:a")); !slices.Equal(there, []bool{true, false, false}) {
		t.Errorf("on the bus: %v", there)
	}
}
