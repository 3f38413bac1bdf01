package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// A Turn is one run of a harness over one event or several merged ones. The
// agent makes it; a harness changes nothing in it.
type Turn struct {
	ID      string // names the turn in Progress and Cancel; stable over attempts
	Attempt int    // of the first delivery in this call, from 1
	// Attempted, if set, is called before each delivery with its attempt, so
	// that the agent can store it. An error ends Turn with that error.
	Attempted func(attempt int) error

	// Deferrals is how often the event was put off and came back.
	Deferrals int

	// Chat is the topic of the chat to which the turn belongs, such as tg:42; it
	// is another than every chat's for a digest.
	Chat string

	// Event is the event as the model may see it; merged fragments are one
	// event whose EventID is that of the last.
	Event Event

	// System is the system prompt: the operator's text and the standing rules.
	System string
	// Contract is the part of System with which the collaboration broker tells the
	// agent how it works with others. Empty without a broker.
	Contract string
	// Prompt is the user turn, ready-made: header, fence and body, or the
	// knock, or the digest. It contains everything the model may see of Event.
	Prompt string
	// Correction tells what was wrong with the answer of the last try; the prompt has it. Empty: nothing was.
	Correction string
	// Images came with the event; the prompt names them in this order. None where
	// Capabilities.Images is false.
	Images []Image

	Workspace string // absolute folder in which the model may work; empty = none

	// ChatServer is this agent's own MCP server with the chat.* tools, for
	// harnesses that drive another program (acp). Nil where it does not run.
	ChatServer *MCPServer
	// Approver asks a person before a sensitive tool runs. Nil where nobody can be asked.
	Approver Approver
	// MCP are further MCP servers for this turn: the operator's, and those of
	// the chorus channel, headers exactly as given.
	MCP []MCPServer
}

// An Image is one that came with an event.
type Image struct {
	MimeType string
	Data     []byte
}

// ElicitPrefix begins the name of what a tool of an MCP server asks while it runs:
// "elicit:SERVER.TOOL".
const ElicitPrefix = "elicit:"

// An Approver has people decide whether tools may run.
type Approver interface {
	// Sensitive reports whether the configuration says that a person decides about a tool:
	// "shell", or "mcp:SERVER.TOOL".
	Sensitive(tool string) bool
	// Approve waits until a person has decided about one call. Nil means that it may run
	// now, once, and that this stands on record; the error says why not.
	Approve(ctx context.Context, tool string, arguments json.RawMessage) error
}

// ConversationKey names the conversation and thread for what a harness remembers from one
// turn to the next. Ids of conversations are those that their chats gave them, and
// may be alike; in Telegram the id of a conversation is the chat's own.
func (t *Turn) ConversationKey() string {
	conversation := t.Event.Conversation
	key := conversation.ID + "\x1f" + conversation.ThreadID
	if t.Chat == "" || t.Event.Digest || t.Chat == "tg:"+conversation.ID {
		return key
	}
	return t.Chat + "\x1f" + key
}

// An Event is what a C2A delivery carries, independent of the draft. Strings
// are the words of the drafts ("to_me", "must_respond", "buffered", "urgent").
type Event struct {
	EventID        string
	MergedEventIDs []string // all fragments in order, the last included; nil for a single event
	Sequence       int64    // timing.sequence: the mailbox's own growing number
	Recipient      string   // identity of this agent
	Role           string   // "user" unless the agent says otherwise
	IdempotencyKey string   // stable over attempts with the same words
	Revision       string   // tells its words from those before and after an edit
	ChatEvent
	Decision
	Knock  *Knock // set for notify; then Content is nil
	Digest bool   // a rolled-up summary
}

// Text joins the fragments of an event: of each its text, or the kinds of its
// files where it has none.
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
			silent = false // what follows are its files, which it tells of
			lines = append(lines, p.QuoteText())
		case p.Text != "": // of a voice message
			lines = append(lines, "("+p.Kind+", as transcribed: "+p.Text+")")
		case silent:
			files = append(files, p.Kind)
		}
	}
	flush()
	return strings.Join(lines, "\n")
}

// ChatEvent is what happened in a chat, as its bridge tells it.
type ChatEvent struct {
	CreatedAt    string // RFC 3339
	Source       Source
	Conversation Conversation
	Author       Author
	Mentions     []string // resolved, such as "agent:lead"
	Content      []Part   // one text part per fragment; nil with Knock
	Signal       string   // of a reaction

	Recipients []protocol.Party     // of draft 2026-08-11, as all below
	Obligation *protocol.Obligation // what its author waits for
}

// SetObligation says that the author of an event waits for agents.
func (s *ChatEvent) SetObligation(o *attention.Obligation, recipients []string) {
	s.Obligation = &protocol.Obligation{Blocks: string(o.Blocks), DefaultAction: o.DefaultAction}
	for _, id := range recipients {
		s.Recipients = append(s.Recipients, protocol.Party{ID: id, Kind: string(attention.AuthorAgent)})
	}
}

// A Decision is what attention decided about an event.
type Decision struct {
	Directedness string // to_me, to_my_role, to_other, ambient
	Policy       string // must_respond, may_respond, ack_only, must_not_respond
	Reason       string // why, such as "direct_message"
	Priority     string // low, normal, urgent
	DeadlineMS   int64  // milliseconds from delivery; 0 = none
	Mode         string // immediate, buffered, notify, digest
	Context      string // thread_window and the like; may be empty
}

// NewDecision returns a decision as its event carries it, with the policy in the words
// of the draft in use.
func NewDecision(d *attention.Decision, policy attention.Policy) Decision {
	return Decision{
		Directedness: string(d.Directedness), Policy: string(policy), Reason: d.Reason, Priority: string(d.Priority),
		DeadlineMS: d.DeadlineMS, Mode: string(d.Injection), Context: d.Context,
	}
}

// Source names where an event came from.
type Source struct {
	Platform    string `json:"platform"`
	WorkspaceID string `json:"workspaceId,omitempty"`
}

// Conversation names where an event was said.
type Conversation struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"` // dm, channel, thread, system, tool
	StreamID string `json:"streamId,omitempty"`
	ThreadID string `json:"threadId,omitempty"`
	// Title is for people; untrusted.
	Title string `json:"title,omitempty"`
	// Service and Context are what a Chorus service says of its channel; untrusted.
	Service string `json:"-"`
	Context string `json:"-"`
}

// Author says who wrote an event.
type Author struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"` // human, agent, system
	DisplayName string `json:"displayName,omitempty"`
	Username    string `json:"-"`
}

// Name is what to call an author.
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
	Type     string `json:"type"`           // "text", "file" for an attachment's metadata, or "quote" for the message that is answered
	Text     string `json:"text,omitempty"` // of a voice message, what is said in it
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Kind     string `json:"-"` // of a file: photo, voice and the like
}

// QuoteText returns a quote as lines of Markdown, for a content that is one text.
func (p *Part) QuoteText() string {
	return "> In reply to " + cmp.Or(p.Name, "somebody") + ":\n> " + strings.ReplaceAll(p.Text, "\n", "\n> ")
}

// A Knock says that an event exists, without its body.
type Knock = attention.Knock

// An MCPServer is a server of the Model Context Protocol: URL (streamable
// HTTP) or Command (stdio), never both. Headers and Env may hold secrets.
type MCPServer struct {
	Name    string            `json:"name"` // prefixes its tools: name__tool
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command []string          `json:"command,omitempty"` // program and arguments, run without a shell
	Env     map[string]string `json:"env,omitempty"`     // added to a minimal environment
	Dir     string            `json:"dir,omitempty"`
}
