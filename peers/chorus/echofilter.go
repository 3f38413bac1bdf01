package chorus

import (
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"

	lru "github.com/hashicorp/golang-lru/v2"
)

// echoWindow is how long after an agent said a text it is recognized when a service brings it to
// an inbox. A text of fewer than minEcho bytes is recognized only under the agent's name and for
// shortEchoWindow, since people also say "yes".
const (
	echoWindow      = 10 * time.Minute
	shortEchoWindow = 30 * time.Second
	minEcho         = 12
	maxEchoes       = 1000
)

// An echoFilter recognizes what agents recently said in channels, if a service brings it to an
// inbox. It is empty after a restart.
type echoFilter struct {
	now    func() time.Time
	recent *lru.Cache[recentMessage, time.Time]
}

type recentMessage struct {
	agent   protocol.PeerID
	channel protocol.PeerID
	text    string
}

func newEchoFilter(now func() time.Time) *echoFilter {
	return &echoFilter{now: now, recent: newCache[recentMessage, time.Time](maxEchoes)}
}

// record records what an agent said in a channel.
func (f *echoFilter) record(agent, channel protocol.PeerID, text string) {
	if text = strings.TrimSpace(text); agent != "" && text != "" {
		f.recent.Add(recentMessage{agent, channel, text}, f.now())
	}
}

// author returns the agent that recently said a text, or "". Under the name of that agent or of its
// inbox, the text is its own even in the same channel. Under another name, it was said elsewhere.
// In the same room a similar text is sufficient, since services add or cut text.
func (f *echoFilter) author(channel protocol.PeerID, sender, text string) protocol.PeerID {
	text = strings.TrimSpace(text)
	sender = strings.TrimPrefix(sender, "agent:")
	_, room, _ := strings.Cut(channel.Name(), ".")
	for _, m := range f.recent.Keys() {
		at, found := f.recent.Peek(m)
		window, isShort := echoWindow, min(len(text), len(m.text)) < minEcho
		if isShort {
			window = shortEchoWindow
		}
		if !found || f.now().Sub(at) >= window {
			continue
		}
		_, other, _ := strings.Cut(m.channel.Name(), ".")
		named := strings.EqualFold(sender, m.agent.Name()) || strings.EqualFold(sender, string(inboxOfPeer(m.channel)))
		if !named && (m.channel == channel || isShort) {
			continue
		}
		if text == m.text || other == room && attention.IsForward(text, m.text) {
			return m.agent
		}
	}
	return ""
}
