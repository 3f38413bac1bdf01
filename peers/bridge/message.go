package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Limits of what passes through a bridge, in bytes except where it says characters.
const (
	maxEvent     = 1000 << 10 // of the content of a message, below the bus's smallest frame limit
	maxReplyText = 64 << 10
	maxFileName  = 255
	MaxQuote     = 1_000 // characters of a message that is answered
	MaxReason    = 300   // characters of a reason that is stored or shown
)

// NewMessage returns the message that brings an event to an agent. event is the event's own
// messageId; each agent but the first gets another one.
func NewMessage(t protocol.MessageType, e *Event, event string, content *protocol.ChatMessage) (protocol.Message,
	error) {
	if content.Forwarded != "" {
		content.Text = "> " + strings.ReplaceAll(strings.TrimSuffix("Forwarded from "+content.Forwarded+":\n"+
			content.Text, "\n"), "\n", "\n> ")
	}
	content.SourceID, content.Sequence = e.Source, e.ID
	if content.Event == protocol.EventReaction && content.ReplyTo != nil && content.Author != nil {
		setReactionTarget(content)
	}
	m := protocol.NewMessage(t, e.Chat, *content)
	if len(m.Content) > maxEvent { // the bus would close the connection that all chats share
		return m, outbox.Permanent(fmt.Errorf("the message has %d bytes; at most %d can be delivered", len(m.Content),
			maxEvent))
	}
	m.MessageID = messageIDFor(event, e)
	return m, nil
}

// setReactionTarget adds the members that draft 2026-08-11 defines for a reaction: the actor, the
// target, and the agent that wrote the target.
func setReactionTarget(c *protocol.ChatMessage) {
	c.ReactionID, c.TargetEventID = c.SourceID, c.ReplyTo.SourceID
	c.Actor = &protocol.Party{ID: c.Author.ID, Kind: c.Author.Kind}
	if agent := c.ReplyTo.Author; protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		c.Recipient = &protocol.Party{ID: agent, Kind: string(attention.AuthorAgent)}
	}
}

// messageIDFor returns the messageId of an event's message to one agent. The chat's first agent
// gets the event's own ID.
func messageIDFor(event string, e *Event) protocol.MessageID {
	if len(e.Agents) == 0 || e.Agents[0] == e.Agent {
		return protocol.MessageID(event)
	}
	return protocol.MessageID(event + "." + e.Agent.Name())
}

// ErrBeingSent postpones a reaction that may be to the message being sent: the chat system shows a
// message before it returns its ID.
var ErrBeingSent = outbox.Later(200*time.Millisecond,
	errors.New("the message that this may be about is still being sent"))

// resolveSourceIDs replaces the messageIds of events, by which an agent may refer to messages, with
// their sourceIds. inReplyTo is the one of the reply's message; isSource recognizes sourceIds.
func resolveSourceIDs(tx *store.Tx, content *protocol.ChatReply, inReplyTo protocol.MessageID,
	isSource func(string) bool) {
	content.InReplyTo = cmp.Or(content.InReplyTo, string(inReplyTo))
	for _, name := range []*string{&content.InReplyTo, &content.ReplyTo} {
		if *name != "" && !isSource(*name) {
			event, _, _ := strings.Cut(*name, ".") // see messageIDFor
			*name = cmp.Or(store.Value[string](tx, `SELECT source_id FROM events WHERE bus_id = ?`, event), *name)
		}
	}
}

// CheckReply returns why no chat can ever show a reply, or nil. It removes surrounding white
// space from the text. units counts the characters of a caption as the chat system does.
func CheckReply(content *protocol.ChatReply, units func(string) int) error {
	shown := strings.TrimFunc(content.Text, unicode.IsSpace)
	if shown == "" && content.Text != "" && content.Signal == "" {
		return errors.New("the text is only white space, which chats do not show")
	}
	content.Text = shown
	switch {
	case len(content.Draft) > protocol.MaxDraft:
		return fmt.Errorf("the draft has %d bytes; at most %d are shown", len(content.Draft), protocol.MaxDraft)
	case len(content.Text) > maxReplyText:
		return fmt.Errorf("the text has %d bytes; at most %d are allowed", len(content.Text), maxReplyText)
	case content.Signal != "" && !slices.Contains(Signals, content.Signal):
		return fmt.Errorf("unknown signal %q; the signals are %s", content.Signal, strings.Join(Signals, ", "))
	case content.Signal != "" && content.InReplyTo == "":
		return errors.New("a signal needs inReplyTo, the sourceId of the message that it is about")
	case content.Edits != "" && content.Text == "":
		return errors.New("buttons and an edit need a text")
	}
	return cmp.Or(content.CheckIDs(), checkFile(content, units))
}

// checkFile returns why a file can never be sent, or nil.
func checkFile(content *protocol.ChatReply, units func(string) int) error {
	f := content.File
	switch {
	case f == nil:
		return nil
	case len(f.Data) == 0 || len(f.Data) > protocol.MaxFileData:
		return fmt.Errorf("the file has %d bytes; 1 to %d are allowed", len(f.Data), protocol.MaxFileData)
	case f.Name == "" || len(f.Name) > maxFileName || !text.IsCleanLine(f.Name) || filepath.Base(f.Name) != f.Name:
		return fmt.Errorf("a file needs a name of 1 to %d bytes without a folder", maxFileName)
	case units(content.Text) > protocol.MaxCaption:
		return fmt.Errorf("the text with a file has %d characters; at most %d are allowed; send the rest as a message",
			units(content.Text), protocol.MaxCaption)
	case len(content.Buttons) > 0 || content.Edits != "":
		return errors.New("a reply with a file cannot have buttons or edit a message")
	}
	return nil
}

// text returns what people read about a notice, once per key. It is empty if they need not know.
func (n *Notice) text() (key, words string) {
	name := n.Agent.Name()
	switch n.Kind {
	case NoticeSlow:
		return "trouble:" + n.Key, "Starting an agent for this chat is taking longer than usual. Your messages are " +
			"saved, and I'll keep trying."
	case NoticeStartFailed:
		return "trouble:" + n.Key, "No agent could be started for this chat: " + n.Reason +
			". Your messages are saved, and I'll keep trying."
	case NoticeAgentFailed:
		return "gone:" + string(n.Agent) + ":" + ThisHour(), fmt.Sprintf("@%s, the agent of this chat, stopped and "+
			"could not be restarted: %s. Your next message starts it again, and it continues with what it hasn't "+
			"answered.", name, n.Reason)
	case NoticeDeclined:
		return "untaken:" + string(n.Agent) + ":" + Today(),
			fmt.Sprintf("@%s isn't accepting messages at the moment. They are saved, and I'll keep trying.", name)
	case NoticeUndelivered:
		return "given-up:" + string(n.Agent) + ":" + Today(), fmt.Sprintf("A message from this chat could not be "+
			"delivered to @%s (%s). Please send it again, in parts if it is long.", name, n.Reason)
	default:
		return "", "" // an absent agent usually returns
	}
}

// Today and ThisHour are parts of the keys of notices that are sent once a day or hour.
func Today() string { return time.Now().UTC().Format(time.DateOnly) }

// ThisHour returns the current hour; see [Today].
func ThisHour() string { return time.Now().UTC().Format("2006-01-02T15") }

// RelayedMessage returns a reply that people have seen as a message for the other agents of the
// chat. A reply without a directedness gets that of its text.
func RelayedMessage(agent protocol.PeerID, reply *protocol.ChatReply, in *protocol.Chat) protocol.ChatMessage {
	m := protocol.ChatMessage{
		Text:       reply.Text,
		Event:      protocol.EventMessage,
		CreatedAt:  protocol.FormatTime(time.Now()),
		Chat:       in,
		Author:     &protocol.Author{ID: string(agent), Kind: string(attention.AuthorAgent), DisplayName: agent.Name()},
		Recipients: reply.Recipients,
		Obligation: reply.Obligation,
		Directedness: cmp.Or(reply.Directedness,
			string(attention.MessageDirectedness(reply.Text, ""))),
	}
	if reply.Edits != "" {
		m.Event = protocol.EventEdit
	}
	return m
}

// Relay delivers what an agent said, and people have seen, to the other agents of the chat as an event,
// once unless it is an edit. put stores the event and returns its ID.
func (v *ChatView) Relay(tx *store.Tx, agent string, r *protocol.ChatReply, source string, put func() int64) {
	var others []protocol.PeerID
	for _, a := range v.Router.Agents(tx, v.ID) {
		if string(a.Agent) != agent {
			others = append(others, a.Agent)
		}
	}
	relayed := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM events WHERE source_id = ?)`, source)
	if len(others) == 0 || agent == "" || r.Text == "" || relayed && r.Edits == "" {
		return
	}
	if id := put(); tx.Err() == nil {
		v.Router.deliverTo(tx, &Event{ID: id, Chat: v.ID, Source: source}, others)
	}
}
