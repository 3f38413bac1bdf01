package chorus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/netguard"
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
		{"lead", "Miriad", "", "human lead"}, // a person may have any name
		{"Lead", "Miriad", "", "human Lead"},
		{"lead", "Miriad", "agent:lead", "agent agent:lead"},
		{"agent:lead", "Miriad", "", "agent agent:lead"},
		{"agent:gone", "Miriad", "", "human chorus:agent%3Agone"},
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

func TestAuthorOf_FollowsTheDeclaredKind(t *testing.T) {
	onBus := func(id protocol.PeerID) bool { return id == "agent:lead" }
	for _, c := range []struct{ sender, message, want string }{
		{"timber", `"kind":"agent"`, "agent timber"},
		{"timber", `"senderKind":"Bot"`, "agent timber"},
		{"timber", `"kind":"text","sender_kind":"assistant"`, "agent timber"},
		{"lead", `"kind":"agent"`, "agent agent:lead"},
		{"lead", `"senderKind":"user"`, "human lead"},
		{"agent:lead", `"kind":"human"`, "human chorus:agent%3Alead"},
		{"Studio", `"kind":"human"`, "human Studio"},
		{"Jenkins", `"kind":"system"`, "system Jenkins"},
		{"bob", `"kind":7`, "human bob"},
		{"bob", `"kind":null,"senderKind":"message"`, "human bob"},
	} {
		body := fmt.Sprintf(`{"channel":{"id":"c","service":"Studio"},"message":{"id":"m","sender":%q,"content":"hi",%s},"callback":"https://8.8.8.8/"}`, c.sender, c.message)
		p, err := ParseInboxMessage([]byte(body), netguard.New(nil))
		if err != nil {
			t.Fatal(err)
		}
		if a := authorOf(p, "", onBus); a.Kind+" "+a.ID != c.want {
			t.Errorf("%q with %s is %s %s; want %s", c.sender, c.message, a.Kind, a.ID, c.want)
		}
	}
}

// TestPaceTracker_TellsProgramsFromPeople checks that an author who answers fast, again and
// again, with no person in between, counts as a program.
func TestPaceTracker_TellsProgramsFromPeople(t *testing.T) {
	const fast, slow = time.Second, fastAnswer
	type said struct {
		after        time.Duration
		sender, text string
	}
	timber := said{fast, "timber", "and what of that?"}
	for name, c := range map[string]struct {
		round []said // after each message from the agent
		want  bool
	}{
		"always fast":             {[]said{timber}, true},
		"just fast enough":        {[]said{{slow - 1, "timber", "and?"}}, true},
		"in pieces":               {[]said{timber, timber, timber}, true},
		"another program between": {[]said{{fast, "pine", "or this?"}, timber}, true},
		"slow":                    {[]said{{slow, "timber", "and?"}}, false},
		"a person between":        {[]said{timber, {slow, "alice", "well"}}, false},
		"a command":               {[]said{timber, {0, "timber", " /who"}}, false},
		"no command":              {[]said{{fast, "timber", "/etc/hosts says so"}}, true},
	} {
		now := time.Unix(0, 0)
		tracker := newPaceTracker(func() time.Time { return now })
		var answered protocol.PeerID
		for i := range 3 * fastAnswers {
			tracker.recordAgentMessage("agent:a", "chorus:a.c")
			for _, s := range c.round {
				now = now.Add(s.after)
				if got := tracker.recordMessage("chorus:a.c", s.sender, s.text); s.sender == "timber" {
					answered = got
				}
			}
			if i < fastAnswers && answered != "" {
				t.Errorf("%s: a program after %d answers", name, i+1)
			}
		}
		if (answered == "agent:a") != c.want {
			t.Errorf("%s: answers %q; want a program: %t", name, answered, c.want)
		}
	}
	for name, c := range map[string]struct {
		after []time.Duration // of the answers, in turn
		want  bool
	}{
		"sometimes slow": {[]time.Duration{fast, 3 * fast, slow + fast, fast, slow + 4*fast, fast}, true},
		"mostly slow":    {[]time.Duration{fast, slow, slow + fast, fast}, false},
		"a pause":        {[]time.Duration{fast, fast, fast, fast, pause}, false},
	} {
		now := time.Unix(0, 0)
		tracker := newPaceTracker(func() time.Time { return now })
		answers := 0
		for i := range 60 {
			tracker.recordAgentMessage("agent:a", "chorus:a.c")
			now = now.Add(c.after[i%len(c.after)])
			if tracker.recordMessage("chorus:a.c", "timber", "and what of that?") != "" {
				answers++
			}
		}
		if c.want != (answers > 30) || !c.want && answers > 0 {
			t.Errorf("%s: %d of 60 answers are a program's; want most: %t", name, answers, c.want)
		}
	}
	tracker := newPaceTracker(func() time.Time { return time.Unix(0, 0) })
	tracker.recordAgentMessage("agent:a", "chorus:a.c")
	for i := range 20 * maxPaced {
		if got := tracker.recordMessage("chorus:a.c", fmt.Sprint("alice", i/10), "well"); got != "" {
			t.Fatalf("message %d after one of the agent answers %s", i, got)
		}
	}
	if n := len(tracker.channels.Values()[0].senders); n > maxPaced {
		t.Errorf("%d senders are kept", n)
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
		if got := strings.Join(resolveMentions(c.text, "agent:lead", []string{"lead", "ops"}, c.kind == "human", known), " "); got != c.want {
			t.Errorf("%q of a %s means %q; want %q", c.text, c.kind, got, c.want)
		}
	}
}

// TestEchoFilter_RecognizesAnAgentsText plays a service that copies an agent's text to another
// channel under a name of its own. A text that people also write identifies nobody, and the
// filter's memory is bounded.
func TestEchoFilter_RecognizesAnAgentsText(t *testing.T) {
	now := time.Unix(0, 0)
	c := newEchoFilter(func() time.Time { return now })
	c.record("agent:a", "chorus:one.x", "The deploy is done.")
	c.record("agent:a", "chorus:one.x", "Yes!")
	c.record("", "chorus:one.x", "Said by nobody here.")
	for _, s := range []struct {
		channel      protocol.PeerID
		sender, text string
		want         protocol.PeerID
	}{
		{"chorus:two.x", "bot", " The deploy is done.\n", "agent:a"}, {"chorus:one.x", "bot", "The deploy is done.", ""},
		{"chorus:two.x", "bot", "Yes!", ""}, {"chorus:two.x", "bot", "Said by nobody here.", ""}, {"chorus:two.x", "bot", "The deploy is not done.", ""},
		{"chorus:two.x", "bot", "**The deploy is done.**\n— from Studio", ""}, {"chorus:two.x", "bot", "bot: the deploy is done", "agent:a"}, {"chorus:two.y", "bot", "bot: the deploy is done", ""},
		{"chorus:two.x", "bot", "You said the deploy is done, and is it?", ""}, {"chorus:two.x", "bot", "deploy is", ""},
		{"chorus:one.x", "A", "The deploy is done.", "agent:a"}, {"chorus:one.x", "one", "The deploy is done.", "agent:a"}, {"chorus:two.x", "a", "Yes!", "agent:a"},
		{"chorus:one.x", "agent:a", "Yes!", "agent:a"}, {"chorus:one.x", "a", "Is the deploy done?", ""}, {"chorus:one.x", "a", "no", ""}, {"chorus:two.y", "a", "hello", ""},
	} {
		if got := c.author(s.channel, s.sender, s.text); got != s.want {
			t.Errorf("%q by %s in %s was said by %q; want %q", s.text, s.sender, s.channel, got, s.want)
		}
	}
	now = now.Add(shortEchoWindow)
	if got := c.author("chorus:one.x", "a", "Yes!"); got != "" {
		t.Errorf("after %s a short text is still %s's", shortEchoWindow, got)
	}
	now = now.Add(echoWindow)
	if got := c.author("chorus:two.x", "bot", "The deploy is done."); got != "" {
		t.Errorf("after %s it is still %s's", echoWindow, got)
	}
	for i := range 2*maxEchoes + 1 {
		text := fmt.Sprintf("message number %d", i)
		if c.record("agent:a", "chorus:one.x", text); i%100 == 0 && c.author("chorus:two.x", "bot", text) != "agent:a" || c.recent.Len() > maxEchoes {
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

// A name is looked up once, and few are.
func TestResolveMentions_LooksUpFewNames(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "@a%d @a%d ", i, i)
	}
	asked := 0
	known := func(name string) string {
		asked++
		return "user:" + name
	}
	got := resolveMentions(text.String()+"@lead", "agent:lead", []string{"lead"}, false, known)
	if asked != bridge.MaxMentions || len(got) != bridge.MaxMentions+1 || got[bridge.MaxMentions] != "agent:lead" {
		t.Errorf("%d names are looked up, and %d are mentioned", asked, len(got))
	}
}
