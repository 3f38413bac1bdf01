package mx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
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
	mentionsOnlyByName bool   // its client knows no m.mentions
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

// parseMessage parses a message from a person.
func (a *account) parseMessage(e *rawEvent) (*parsedEvent, error) {
	m, err := decodeMessage(e.Content)
	if err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	if e.Type == event.EventSticker.Type {
		m.MsgType = event.CapMsgSticker
	}
	h := a.newEvent(e, protocol.EventMessage)
	if m.RelatesTo != nil && m.RelatesTo.Type == event.RelReplace {
		h.edits = relatedID(m.RelatesTo.EventID)
		h.source = sourceID(h.edits)
		h.data.Content.Event = protocol.EventEdit
		if h.edits == "" || m.NewContent == nil {
			h.skip = "an edit of no message or without new content"
			return h, nil
		}
		m = *m.NewContent
	}
	h.setRelation(m.RelatesTo)
	m.RemoveReplyFallback()
	if m.RelatesTo.GetReplyTo() != "" && (strings.HasPrefix(m.Body, "> <@") || strings.HasPrefix(m.Body, "> * <@")) {
		m.Body = event.TrimReplyFallbackText(m.Body) // the library does this with HTML only
	}
	switch m.MsgType {
	case event.MsgNotice:
		h.data.Content.Event = protocol.EventStatus // it asks nobody for anything
	case event.MsgVerificationRequest:
		h.skip = "a request to verify a device"
	case event.MsgImage, event.MsgFile, event.MsgAudio, event.MsgVideo, event.CapMsgSticker:
		h.setFile(&m)
	}
	h.setText(e, &m, a)
	return h, nil
}

// decodeMessage reads the content of a message. A member whose type is not that of the
// specification counts as missing, so that the text is not lost.
func decodeMessage(raw json.RawMessage) (m event.MessageEventContent, err error) {
	if err = json.Unmarshal(raw, &m); err == nil {
		return m, nil
	}
	var members map[string]json.RawMessage
	if err = json.Unmarshal(raw, &members); err != nil {
		return m, err
	}
	maps.DeleteFunc(members, func(name string, value json.RawMessage) bool {
		alone := mustJSON(map[string]json.RawMessage{name: value})
		return json.Unmarshal([]byte(alone), new(event.MessageEventContent)) != nil
	})
	m = event.MessageEventContent{}
	err = json.Unmarshal([]byte(mustJSON(members)), &m)
	return m, err
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
	h.thread = relatedID(r.GetThreadParent())
	h.data.ReplyTo = relatedID(r.GetNonFallbackReplyTo())
}

// relatedID returns the ID to which an event relates. A client wrote it, so relatedID returns "" for
// an ID that no event can have.
func relatedID(of id.EventID) string {
	s := of.String()
	if !strings.HasPrefix(s, "$") || len(s) > maxEventID || strings.Contains(s, " ") || !text.IsCleanName(s) {
		return ""
	}
	return s
}

// maxEventID is the limit of Matrix, in bytes.
const maxEventID = 255

// setFile adds the file of a message.
func (h *parsedEvent) setFile(m *event.MessageEventContent) {
	kind := map[event.MessageType]string{
		event.MsgImage: "photo", event.MsgAudio: "audio", event.MsgVideo: "video",
		event.CapMsgSticker: "sticker",
	}[m.MsgType]
	if kind == "audio" && m.MSC3245Voice != nil {
		kind = "voice"
	}
	name := m.GetFileName()
	name = name[strings.LastIndexByte(name, '/')+1:]
	f := protocol.Attachment{Kind: cmp.Or(kind, "document"), Name: cleanName(name)}
	if m.Info != nil {
		f.MimeType, f.Size = m.Info.MimeType, int64(m.Info.Size)
	}
	if m.URL != "" {
		h.files = []bridge.StoredFile{{Attachment: f, ID: string(m.URL)}}
	} else if m.File != nil {
		h.files = []bridge.StoredFile{{Attachment: f, ID: mustJSON(m.File)}}
	}
}

// setText sets the text of a message, and whom it mentions.
func (h *parsedEvent) setText(e *rawEvent, m *event.MessageEventContent, a *account) {
	words := m.Body
	if m.MsgType.IsMedia() && m.MsgType != event.CapMsgSticker {
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
	h.data.Names = a.mentions(m.Mentions, h.data.Content.Text)
	h.mentionsOnlyByName = m.Mentions == nil
	if m.MsgType == event.MsgText && h.edits == "" {
		h.parseCommand(a)
	}
}

// mentions returns the names that a message mentions: those with @ outside of code and quotes,
// and those in m.mentions, where "room" means everybody.
func (a *account) mentions(given *event.Mentions, words string) []string {
	words = strings.ReplaceAll(words, "＠", "@") // of Chinese and Japanese keyboards
	names := bridge.MentionedNames(words, codeOrQuotes(words))
	own := strings.ToLower(localpart(string(a.bot)))
	if given != nil {
		if given.Room {
			names = bridge.AppendUnique(slices.DeleteFunc(names, func(n string) bool { return n == "room" }), "all")
		}
		for _, user := range given.UserIDs {
			switch {
			case user == a.bot:
				names = bridge.AppendUnique(names, own)
			case len(names) < 50:
				names = bridge.AppendUnique(names, bridge.UserMention+user.String())
			}
		}
	}
	return names
}

// beginsWithName reports whether a text begins with a name as people address each other: a colon or
// comma follows, and then more.
func beginsWithName(words, name string) bool {
	if len(words) < len(name)+3 || name == "" || !strings.EqualFold(words[:len(name)], name) {
		return false
	}
	rest := words[len(name)+1:]
	return strings.ContainsAny(words[len(name):len(name)+1], ":,") && strings.TrimSpace(rest) != "" &&
		strings.IndexFunc(rest, unicode.IsSpace) == 0
}

// cleanName returns a name that somebody chose as one line without invisible characters.
func cleanName(name string) string {
	return text.Clip(text.CleanName(text.OneLine(name)), bridge.MaxReason)
}

// codeOrQuotes returns a function that reports whether a byte of a text, which is no backquote, is in code or a
// quote. Call it with increasing positions: it reads each part of the text once.
func codeOrQuotes(words string) func(at int) bool {
	read, ticks := 0, 0 // ticks: backquotes directly before read
	span, block := 0, 0 // backquotes that opened code in this line and in the text
	blank, quoted := true, false
	endRun := func() {
		switch {
		case ticks == 0:
		case block > 0:
			if ticks >= block {
				block = 0
			}
		case span == ticks:
			span = 0
		case span == 0 && ticks >= 3:
			block = ticks
		case span == 0:
			span = ticks
		}
		ticks = 0
	}
	return func(at int) bool {
		for _, r := range words[read:at] {
			if r == '`' {
				blank = false
				ticks++
				continue
			}
			endRun()
			switch {
			case r == '\n':
				blank, quoted, span = true, false, 0
			case !unicode.IsSpace(r):
				blank, quoted = false, quoted || blank && r == '>'
			}
		}
		endRun()
		read = at
		return quoted || block > 0 || span > 0
	}
}

// parseReaction parses a reaction to a message.
func (a *account) parseReaction(e *rawEvent) (*parsedEvent, error) {
	var r event.ReactionEventContent
	if err := json.Unmarshal(e.Content, &r); err != nil {
		return nil, fmt.Errorf("reading a reaction: %w", err)
	}
	h := a.newEvent(e, protocol.EventReaction)
	h.data.ReplyTo = relatedID(r.RelatesTo.EventID)
	if r.RelatesTo.Type != event.RelAnnotation || h.data.ReplyTo == "" {
		h.skip = "a reaction to nothing"
	}
	h.data.Content.Text = text.Clip(r.RelatesTo.Key, 100)
	h.data.Content.Signal = a.opts.Glyphs.SignalOf(r.RelatesTo.Key)
	return h, nil
}

// authorOf returns the author of an event. Bots of bridges cannot be distinguished from people.
func (a *account) authorOf(user, name string) *protocol.Author {
	return &protocol.Author{ID: user, Kind: string(attention.AuthorHuman), DisplayName: name, Username: localpart(user)}
}
