package chorus

import (
	"sync"
	"time"

	"hubbub/peers/bridge"
	"hubbub/protocol"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A sender that answers an agent within fastAnswer, again and again, is a program. No person
// reads and writes that fast for so long. Programs are sometimes slower: a sender counts as a
// program once it has given fastAnswers more fast answers than slow ones, until a pause.
const (
	fastAnswer  = 8 * time.Second
	fastAnswers = 8
	pause       = 30 * time.Second
	maxPaced    = 32 // senders of one channel
)

// A paceTracker finds the programs among the senders of channels by how fast they answer, since a
// service need not say who is an agent. A slow message of a sender without fast answers, a message
// after a pause, and a command are a person's, and clear their channel. It is empty after a
// restart.
type paceTracker struct {
	now      func() time.Time
	mu       sync.Mutex // guards all below
	channels *lru.Cache[protocol.PeerID, *channelPace]
}

// A channelPace holds the last message from an agent in a channel, and who answered it.
type channelPace struct {
	agent   protocol.PeerID
	at      time.Time
	said    int // messages from agents
	senders map[string]*senderPace
}

// A senderPace counts the answers of a sender.
type senderPace struct {
	fast    int // more fast answers than slow ones
	said    int // the agent's message that was answered last
	program bool
}

func newPaceTracker(now func() time.Time) *paceTracker {
	return &paceTracker{now: now, channels: newCache[protocol.PeerID, *channelPace](maxEchoes)}
}

// recordAgentMessage records that an agent said something in a channel.
func (t *paceTracker) recordAgentMessage(agent, channel protocol.PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.channels.Get(channel)
	if !found {
		c = &channelPace{senders: map[string]*senderPace{}}
		t.channels.Add(channel, c)
	}
	c.agent, c.at = agent, t.now()
	c.said++
}

// recordMessage records a new message in a channel. If its sender is a program, by its pace, it returns
// the agent that it answers.
func (t *paceTracker) recordMessage(channel protocol.PeerID, sender, text string) (answered protocol.PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, found := t.channels.Get(channel)
	if !found {
		return ""
	}
	s := c.senders[sender]
	if s == nil {
		s = &senderPace{}
	}
	elapsed := t.now().Sub(c.at)
	if elapsed >= pause || elapsed >= fastAnswer && s.fast == 0 || isCommand(text) || len(c.senders) >= maxPaced {
		clear(c.senders)
		return ""
	}
	c.senders[sender] = s
	switch {
	case s.said == c.said:
	case elapsed < fastAnswer:
		s.fast++
	default:
		s.fast--
	}
	s.said = c.said
	s.program = s.program || s.fast > fastAnswers
	if !s.program {
		return ""
	}
	return c.agent
}

// isCommand reports whether a text is a command from a person.
func isCommand(text string) bool {
	verb, _ := bridge.ParseCommand("/", text)
	return verb != "" || bridge.ParseHalt("/", text) != ""
}
