package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// A Turn is one run of a harness over one event or several merged events. The agent makes it; a
// harness must not modify it.
type Turn struct {
	ID      string // names the turn in Progress and Cancel; the same in every attempt
	Attempt int    // of the first delivery in this call, from 1
	// Attempted, if set, is called with the attempt before each delivery, so that the agent can
	// store it. If it fails, Turn returns that error.
	Attempted func(attempt int) error

	// Deferrals is how often the event was deferred and came back.
	Deferrals int

	// Chat is the topic of the turn's chat, such as tg:42. A digest has a topic that no chat has.
	Chat string

	// Event is the event as the model may see it. Merged fragments form one event, with the
	// EventID of the last fragment.
	Event Event

	// System is the system prompt: the operator's text and the standing rules.
	System string
	// Contract is the part of System in which the collaboration broker explains how the agent
	// works with others. It is empty without a broker.
	Contract string
	// Prompt is the complete user turn: header, fence and body, or the knock, or the digest. It
	// contains everything that the model may see of Event.
	Prompt string
	// Correction says what was wrong with the answer of the last attempt. Prompt includes it. It
	// is empty if nothing was wrong.
	Correction string
	// Images came with the event; Prompt names them in this order. It is empty if
	// Capabilities.Images is false.
	Images []Image

	Workspace string // absolute path of the folder in which the model may work; empty means none

	// ChatServer is the agent's own MCP server with the chat.* tools, for harnesses that drive
	// another program (acp). It is nil if no such server runs.
	ChatServer *MCPServer
	// Approver asks a person before a sensitive tool runs. It is nil if nobody can be asked.
	Approver Approver
	// MCP lists further MCP servers for this turn: those of the operator and those of the Chorus
	// channel, with their headers exactly as given.
	MCP []MCPServer
}

// An Image is an image that came with an event.
type Image struct {
	MimeType string
	Data     []byte
}

// An Approver asks people whether tools may run.
type Approver interface {
	// Sensitive reports whether the configuration requires a person's decision about a tool:
	// "shell" or "mcp:SERVER.TOOL".
	Sensitive(tool string) bool
	// Approve waits until a person has decided on one call. It returns nil if the call may run
	// now, once, and the decision is recorded. Otherwise the error says why not.
	Approve(ctx context.Context, tool string, arguments json.RawMessage) error
	// Ask waits until a person has answered a question in words, and returns the words. The error
	// says why there is no answer. Name begins with FormPrefix.
	Ask(ctx context.Context, name string, question json.RawMessage) (words string, err error)
	// Read reads a yes or a no in the words of the configuration.
	Read(words string) attention.Answer
	// ReadTime reads a time or a day in the zone of the chat. A day without a time of day means the
	// whole day, and gets a fixed time of day.
	ReadTime(words string) (time.Time, error)
}

// ConversationKey identifies the conversation and thread for what a harness remembers between
// turns. Conversation IDs come from their chats, so two chats may use the same one. In Telegram,
// the conversation ID is the ID of the chat.
func (t *Turn) ConversationKey() string {
	conversation := t.Event.Conversation
	key := conversation.ID + "\x1f" + conversation.ThreadID
	if t.Chat == "" || t.Event.Digest || t.Chat == "tg:"+conversation.ID {
		return key
	}
	return t.Chat + "\x1f" + key
}

// An Event is the content of a C2A delivery, independent of the draft. Its strings have the
// values of the drafts ("to_me", "must_respond", "buffered", "urgent").
type Event struct {
	EventID        string
	Now            time.Time // when the turn started, in the time zone of its chat
	MergedEventIDs []string  // all fragments in order, including the last; nil for a single event
	Sequence       int64     // timing.sequence: the mailbox's increasing number
	Recipient      string    // the identity of this agent
	Role           string    // "user" unless the agent says otherwise
	IdempotencyKey string    // the same in all attempts with the same text
	Revision       string    // distinguishes the text from those before and after an edit
	Interrupted    bool      // the agent stopped during the last attempt, which may have reached the program
	ChatEvent
	Decision
	Knock  *Knock // set for notify; Content is nil then
	Digest bool   // the event summarizes several others
}

// Text joins the fragments of an event. A fragment without text is replaced by the kinds of its
// files.
func (e *Event) Text() string {
	if e.Signal != "" {
		return "(reaction: " + e.Signal + ")"
	}
	var lines, files []string
	flush := func() {
		if len(files) > 0 {
			lines = append(lines, "(attached: "+strings.Join(files, ", ")+")")
		}
		files = nil
	}
	silent := false // the fragment has no text
	for _, p := range e.Content {
		switch {
		case p.Type == "text":
			flush()
			if silent = p.Text == ""; !silent {
				lines = append(lines, p.Text)
			}
		case p.Type == "quote":
			flush()
			silent = false // the files that follow belong to the quoted message
			lines = append(lines, p.QuoteText())
		case p.Text != "": // a voice message
			lines = append(lines, "("+p.Kind+", as transcribed: "+p.Text+")")
		case silent:
			files = append(files, p.Kind)
		}
	}
	flush()
	return strings.Join(lines, "\n")
}

// A ChatEvent is what happened in a chat, as reported by its bridge.
type ChatEvent struct {
	CreatedAt    string // RFC 3339
	Source       Source
	Conversation Conversation
	Author       Author
	Mentions     []string // resolved, such as "agent:lead"
	Content      []Part   // one text part per fragment; nil with Knock
	Signal       string   // set for a reaction

	Recipients []protocol.Party     // this and the fields below: draft 2026-08-11
	Obligation *protocol.Obligation // what its author waits for
}

// SetObligation records that the author of an event waits for agents.
func (s *ChatEvent) SetObligation(o *attention.Obligation, recipients []string) {
	s.Obligation = &protocol.Obligation{Blocks: string(o.Blocks), DefaultAction: o.DefaultAction}
	for _, id := range recipients {
		s.Recipients = append(s.Recipients, protocol.Party{ID: id, Kind: string(attention.AuthorAgent)})
	}
}

// A Decision is the attention decision about an event.
type Decision struct {
	Directedness string // to_me, to_my_role, to_other, ambient
	Policy       string // must_respond, may_respond, ack_only, must_not_respond
	Reason       string // why, such as "direct_message"
	Priority     string // low, normal, urgent
	DeadlineMS   int64  // milliseconds from delivery; 0 means none
	Mode         string // immediate, buffered, notify, digest
	Context      string // such as thread_window; may be empty
}

// NewDecision converts a decision for its event. The policy is the one of the draft in use.
func NewDecision(d *attention.Decision, policy attention.Policy) Decision {
	return Decision{
		Directedness: string(d.Directedness), Policy: string(policy), Reason: d.Reason, Priority: string(d.Priority),
		DeadlineMS: d.DeadlineMS, Mode: string(d.Injection), Context: d.Context,
	}
}

// A Source is where an event came from.
type Source struct {
	Platform    string `json:"platform"`
	WorkspaceID string `json:"workspaceId,omitempty"`
}

// A Conversation is where an event happened.
type Conversation struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"` // dm, channel, thread, system, tool
	StreamID string `json:"streamId,omitempty"`
	ThreadID string `json:"threadId,omitempty"`
	// Title is for people; it is untrusted.
	Title string `json:"title,omitempty"`
	// Service and Context are what a Chorus service says about its channel; they are untrusted.
	Service string `json:"-"`
	Context string `json:"-"`
}

// An Author is who wrote an event.
type Author struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"` // human, agent, system
	DisplayName string `json:"displayName,omitempty"`
	Username    string `json:"-"`
}

// Name returns the name by which to call an author.
func (a *Author) Name() string {
	for _, name := range []string{a.DisplayName, a.Username, a.ID} {
		if strings.TrimSpace(name) != "" {
			return name
		}
	}
	return "unknown"
}

// A Part is one typed piece of content.
type Part struct {
	// "text", "file" for an attachment's metadata, or "quote" for the quoted message
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"` // for a voice message, its transcript
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Kind     string `json:"-"` // for a file: photo, voice and so on
}

// MarshalJSON writes a text part with its text, even if that is empty, since programs rely on it.
func (p Part) MarshalJSON() ([]byte, error) {
	type plain Part
	if p.Type != "text" {
		return json.Marshal(plain(p))
	}
	return json.Marshal(map[string]string{"type": p.Type, "text": p.Text})
}

// QuoteText returns a quote as lines of Markdown, for content that is a single text.
func (p *Part) QuoteText() string {
	return "> In reply to " + cmp.Or(p.Name, "somebody") + ":\n> " + strings.ReplaceAll(p.Text, "\n", "\n> ")
}

// A Knock says that an event exists, without its body.
type Knock = attention.Knock

// An MCPServer is a server of the Model Context Protocol. It has either a URL (streamable HTTP)
// or a Command (stdio). Headers and Env may contain secrets.
type MCPServer struct {
	Name    string            `json:"name"` // the prefix of its tools: name__tool
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"` // program and arguments, run without a shell
	Env     map[string]string `json:"env,omitempty"`     // added to a minimal environment
	Dir     string            `json:"dir,omitempty"`
}
