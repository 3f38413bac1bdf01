package mx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"maunium.net/go/mautrix/event"
)

// A parsedEvent is the content of a message, before anything is looked up.
type parsedEvent struct {
	room, sender, event string
	thread              string // ID of the message that began it
	source              string // sourceId, if it is not the event's own
	edits               string // the message that it replaces

	data  eventData
	files []bridge.StoredFile

	command, arguments string // such as "pair", without the prefix
	skip               string // why no agent receives it; empty if the agents do
}

// An eventData is the content of a chat_message as far as it is known when the event arrives.
// Mentions and the author of an answered message depend on the agents that are assigned when it
// is delivered.
type eventData struct {
	Content protocol.ChatMessage `json:"content"`
	Names   []string             `json:"names,omitempty"`   // mentioned, lower case, in order
	ReplyTo string               `json:"replyTo,omitempty"` // the answered message
}

// A rawEvent is an event as the homeserver sends it.
type rawEvent struct {
	ID      string          `json:"event_id"`
	Type    string          `json:"type"`
	Sender  string          `json:"sender"`
	Key     *string         `json:"state_key"`
	Time    int64           `json:"origin_server_ts"`
	Redacts string          `json:"redacts"`
	Content json.RawMessage `json:"content"`
}

func (e *rawEvent) state() string {
	if e.Key == nil {
		return ""
	}
	return *e.Key
}

// parseMessage parses a message of a person.
func (a *account) parseMessage(e *rawEvent) (*parsedEvent, error) {
	var m event.MessageEventContent
	if err := json.Unmarshal(e.Content, &m); err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	h := a.newEvent(e, protocol.EventMessage)
	if m.RelatesTo != nil && m.RelatesTo.Type == event.RelReplace {
		h.edits, h.source = m.RelatesTo.EventID.String(), sourceID(m.RelatesTo.EventID.String())
		h.data.Content.Event = protocol.EventEdit
		if m.NewContent == nil {
			h.skip = "an edit without new content"
			return h, nil
		}
		m = *m.NewContent
	}
	h.setRelation(m.RelatesTo)
	m.RemoveReplyFallback()
	switch m.MsgType {
	case event.MsgNotice:
		h.data.Content.Event = protocol.EventStatus // it asks nobody for anything
	case event.MsgVerificationRequest:
		h.skip = "a request to verify a device"
	case event.MsgImage, event.MsgFile, event.MsgAudio, event.MsgVideo, event.MsgLocation:
		h.setFile(&m)
	}
	h.setText(e, &m, a)
	return h, nil
}

// newEvent returns an event for the bus with what all kinds have.
func (a *account) newEvent(e *rawEvent, kind string) *parsedEvent {
	h := &parsedEvent{sender: e.Sender, event: e.ID}
	h.data.Content.Event = kind
	if e.Time > 0 {
		h.data.Content.CreatedAt = time.UnixMilli(e.Time).UTC().Format(time.RFC3339)
	}
	return h
}

// setRelation sets the thread and the answered message.
func (h *parsedEvent) setRelation(r *event.RelatesTo) {
	h.thread = r.GetThreadParent().String()
	h.data.ReplyTo = r.GetNonFallbackReplyTo().String()
}

// setFile adds the file of a message.
func (h *parsedEvent) setFile(m *event.MessageEventContent) {
	if m.MsgType == event.MsgLocation {
		return
	}
	kind := map[event.MessageType]string{
		event.MsgImage: "photo", event.MsgAudio: "audio", event.MsgVideo: "video",
	}[m.MsgType]
	if kind == "audio" && m.MSC3245Voice != nil {
		kind = "voice"
	}
	f := protocol.Attachment{Kind: cmp.Or(kind, "document"), Name: m.GetFileName()}
	if m.Info != nil {
		f.MimeType, f.Size = m.Info.MimeType, int64(m.Info.Size)
	}
	if m.URL != "" {
		h.files = []bridge.StoredFile{{Attachment: f, ID: string(m.URL)}}
	}
}

// setText sets the text of a message, and whom it mentions.
func (h *parsedEvent) setText(e *rawEvent, m *event.MessageEventContent, a *account) {
	words := m.Body
	if m.MsgType.IsMedia() {
		words = m.GetCaption()
	}
	if m.Format == event.FormatHTML && m.FormattedBody != "" && (!m.MsgType.IsMedia() || words != "") {
		words = cmp.Or(markdownOf(m.FormattedBody), words)
	}
	switch {
	case m.MsgType == event.MsgLocation:
		words = "[location: " + strings.TrimPrefix(m.GeoURI, "geo:") + "] " + words
	case m.MsgType == event.MsgEmote:
		words = "* " + localpart(h.sender) + " " + words
	}
	h.data.Content.Text = strings.TrimSpace(words)
	if h.data.Content.Text == "" && len(h.files) == 0 && h.skip == "" {
		h.skip = "a message with nothing in it"
	}
	h.data.Names = a.mentions(e.Content, m.Mentions, h.data.Content.Text)
	if m.MsgType == event.MsgText && h.edits == "" {
		h.parseCommand(a)
	}
}

// mentions returns the names that a message mentions: those with @ outside of code and quotes,
// and those in m.mentions. Without m.mentions, a text that begins with the bot's name mentions it.
func (a *account) mentions(raw json.RawMessage, given *event.Mentions, words string) []string {
	names := bridge.MentionedNames(words, func(at int) bool { return isSilent(words, at) })
	own := strings.ToLower(localpart(string(a.bot)))
	if given != nil {
		for _, user := range given.UserIDs {
			switch {
			case user == a.bot:
				names = bridge.AppendUnique(names, own)
			case len(names) < 50:
				names = bridge.AppendUnique(names, bridge.UserMention+user.String())
			}
		}
	}
	var as map[string]json.RawMessage
	if json.Unmarshal(raw, &as) == nil && as["m.mentions"] == nil {
		name, rest, found := strings.Cut(words, " ")
		if bare := strings.TrimRight(name, ":,"); found && bare != name && rest != "" && strings.EqualFold(bare, own) {
			names = bridge.AppendUnique(names, own)
		}
	}
	return names
}

// isSilent reports whether a byte of a text is in code or a quote.
func isSilent(words string, at int) bool {
	line := words[strings.LastIndexByte(words[:at], '\n')+1 : at]
	return strings.HasPrefix(strings.TrimSpace(line), ">") || strings.Count(line, "`")%2 == 1 ||
		strings.Count(words[:at], "```")%2 == 1
}

// parseReaction parses a reaction to a message.
func (a *account) parseReaction(e *rawEvent) (*parsedEvent, error) {
	var r event.ReactionEventContent
	if err := json.Unmarshal(e.Content, &r); err != nil {
		return nil, fmt.Errorf("reading a reaction: %w", err)
	}
	h := a.newEvent(e, protocol.EventReaction)
	if r.RelatesTo.Type != event.RelAnnotation || r.RelatesTo.EventID == "" {
		h.skip = "a reaction to nothing"
	}
	h.data.ReplyTo = r.RelatesTo.EventID.String()
	h.data.Content.Text = text.Clip(r.RelatesTo.Key, 100)
	h.data.Content.Signal = a.opts.Glyphs.SignalOf(r.RelatesTo.Key)
	return h, nil
}

// authorOf returns the author of an event. Bots of bridges cannot be told from people.
func (a *account) authorOf(user, name string) *protocol.Author {
	return &protocol.Author{ID: user, Kind: string(attention.AuthorHuman), DisplayName: name, Username: localpart(user)}
}
