package view

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"sync"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Titles are the titles of chats, learned from messages. The zero Titles is empty. Its methods
// may be called from any goroutine.
type Titles struct {
	mu    sync.RWMutex
	known map[protocol.PeerID]string
}

const (
	maxTitles = 10_000 // one more forgets all of them
	maxTitle  = 40     // characters
)

// Learn notes the title of the chat that a row's message comes from, if it has one.
func (t *Titles) Learn(e *activitylog.Entry) {
	if !e.Is(activitylog.SendStart) || e.Type != string(protocol.TypeTGMessage) &&
		e.Type != string(protocol.TypeChatMessage) {
		return
	}
	var m struct {
		From    protocol.PeerID
		Content protocol.ChatMessage
	}
	if json.Unmarshal(e.Payload, &m) == nil && m.Content.Chat != nil {
		t.Note(m.From, m.Content.Chat.Title)
	}
}

// Note sets the title of a chat, unless the title is empty.
func (t *Titles) Note(chat protocol.PeerID, title string) {
	title = text.Clip(strings.NewReplacer("“", "'", "”", "'").Replace(strings.TrimSpace(title)), maxTitle)
	if title == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTitles {
		t.known = map[protocol.PeerID]string{}
	}
	t.known[chat] = title
}

// Title returns the title of a chat, or of the chat after which an agent is named, or "".
func (t *Titles) Title(id string) string {
	chat := id
	if name, ok := strings.CutPrefix(id, "agent:"); ok {
		chat = strings.Replace(name, "-", ":", 1) // the spawner names the agent of a plain topic like this
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.known[protocol.PeerID(chat)]
}

// All returns the titles by chat.
func (t *Titles) All() map[protocol.PeerID]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.known)
}

// Called returns the name of an identity or a topic for people: the role and title of a chat,
// such as tg:“Launch crew”, and otherwise the id. The identity of an agent contains its name.
func (t *Titles) Called(id string) string {
	role, _, _ := strings.Cut(id, ":")
	title := t.Title(id)
	if title == "" || role == "agent" {
		return id
	}
	return role + ":“" + title + "”"
}

// Both returns an identity with the title of its chat in parentheses, if it has one.
func (t *Titles) Both(id string) string { return t.beside(id, id) }

// identities matches words in a text that may be an identity or the name of an agent.
var identities = regexp.MustCompile(`[A-Za-z][\w.]*[:-][\w:.-]*\w`)

// Within returns a text with the titles of its chats, each once, after the identity of the chat
// or the name of its agent.
func (t *Titles) Within(words string) string {
	told := map[string]bool{}
	return identities.ReplaceAllStringFunc(words, func(id string) string {
		whole := id
		if !strings.Contains(id, ":") {
			whole = "agent:" + id
		}
		title := t.Title(whole)
		if title == "" || told[title] {
			return id
		}
		told[title] = true
		return t.beside(id, whole)
	})
}

// beside returns words with the title of an identity's chat in parentheses, if it has one.
func (t *Titles) beside(words, id string) string {
	title := t.Title(id)
	if title == "" {
		return words
	}
	return words + " (“" + title + "”)"
}
