package chorus

import (
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"

	lru "github.com/hashicorp/golang-lru/v2"
)

// echoWindow is how long a text is recognized as an agent's own after a service brings it to
// other inboxes. minEcho is its minimum length, since people also say "yes".
const (
	echoWindow = 10 * time.Minute
	minEcho    = 12
	maxEchoes  = 1000
)

// An echoFilter recognizes what agents recently said in channels, if a service brings it to
// another channel. It is empty after a restart.
type echoFilter struct {
	now    func() time.Time
	recent *lru.Cache[string, recentMessage] // keyed by text
}

type recentMessage struct {
	agent   protocol.PeerID
	channel protocol.PeerID
	at      time.Time
}

func newEchoFilter(now func() time.Time) *echoFilter {
	return &echoFilter{now: now, recent: newCache[string, recentMessage](maxEchoes)}
}

// record records what an agent said in a channel.
func (f *echoFilter) record(agent, channel protocol.PeerID, text string) {
	if text = strings.TrimSpace(text); agent != "" && len(text) >= minEcho {
		f.recent.Add(text, recentMessage{agent, channel, f.now()})
	}
}

// author returns the agent that recently said a text in another channel, or "". Behind another
// inbox of the same channel, a similar text is sufficient, since services add or cut text.
func (f *echoFilter) author(channel protocol.PeerID, text string) protocol.PeerID {
	text = strings.TrimSpace(text)
	isRecent := func(m recentMessage) bool { return m.channel != channel && f.now().Sub(m.at) < echoWindow }
	if m, found := f.recent.Get(text); found && isRecent(m) {
		return m.agent
	}
	_, room, _ := strings.Cut(channel.Name(), ".")
	if len(text) < minEcho {
		return ""
	}
	for _, original := range f.recent.Keys() {
		m, found := f.recent.Peek(original)
		if _, other, _ := strings.Cut(m.channel.Name(), "."); found && other == room && isRecent(m) &&
			attention.IsForward(text, original) {
			return m.agent
		}
	}
	return ""
}
