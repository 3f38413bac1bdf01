package attention

import (
	"strconv"
	"strings"
	"time"
)

// A Knock notifies an agent of an event without revealing its content.
type Knock struct {
	From         string       `json:"from"`  // kind and id of the author: "human:77"
	Where        string       `json:"where"` // kind and id of the place: "thread:T1"
	Directedness Directedness `json:"directedness"`
	Policy       Policy       `json:"policy"`
	Priority     Priority     `json:"priority"`
	Topic        string       `json:"topic"`    // in the host's words, possibly with the title of a thread
	PullWith     string       `json:"pullWith"` // the tool that shows the content

	// Of an obligation that is presented again.
	Age           string `json:"age,omitempty"`
	Blocks        Blocks `json:"blocks,omitempty"`
	DefaultAction string `json:"defaultAction,omitempty"` // what its author does without an answer, as a header value
}

// PullThread is the tool that a knock names.
const PullThread = "chat.read_thread"

func newKnock(v *situation, d *Decision) *Knock {
	k := &Knock{
		From: AuthorLabel(v.event.Author), Where: placeLabel(v.event.Conversation), PullWith: PullThread,
		Directedness: d.Directedness, Policy: d.Policy, Priority: d.Priority, Topic: knockTopic(v),
	}
	if o := v.event.Obligation; o != nil && v.event.kind() == KindReturn {
		k.Age, k.Blocks, k.DefaultAction = v.facts.Waited.Truncate(time.Second).String(), o.Blocks,
			HeaderValue(o.DefaultAction)
	}
	return k
}

// maxTitle limits the title of a thread in a knock, in characters.
const maxTitle = 60

// knockTopic describes the event without its content: its kind, the agent's own roles, streams
// and work, the quoted title of a thread, and the length of the text.
func knockTopic(v *situation) string {
	what := "a message"
	switch v.event.kind() {
	case KindReturn:
		return "what its author waits for, and what is still open"
	case KindEdit:
		what = "an edited message"
	case KindReaction:
		return reactionTopic(v)
	}
	why := "in a thread that you take part in"
	switch {
	case v.mentions.role:
		why = "for a role that you have"
	case v.ownsStream():
		why = "in a stream that you own"
	case v.facts.OwnsThread:
		why = "in a thread that you own"
	}
	if title := v.event.Conversation.Title; title != "" && v.event.inThread() {
		why += ", titled " + `"` + strings.ReplaceAll(HeaderValue(cutRunes(title, maxTitle)), `"`, "'") + `"`
	}
	if v.event.inThread() && v.facts.Work != "" {
		why += ", where your work on " + HeaderValue(v.facts.Work) + " is open"
	}
	return what + " " + why + ", " + size(len(v.words), v.event.Attachments)
}

func reactionTopic(v *situation) string {
	row, err := ParseSignal(v.event.Signal)
	what, meaning := "message", row.Meaning
	if v.facts.Asked {
		what = "question"
		if row.Signal == SignalAgree {
			meaning = "approved: go on"
		}
	}
	if err != nil {
		return "a reaction to your " + what
	}
	return "the reaction " + string(row.Signal) + " (" + meaning + ") to your " + what
}

func size(words, attachments int) string {
	length := "long"
	switch {
	case words <= 12:
		length = "short"
	case words <= 80:
		length = "a paragraph"
	}
	if attachments > 0 {
		length += ", attachments: " + strconv.Itoa(min(attachments, 99))
	}
	return length
}

// AuthorLabel names an author in a header or a knock by kind and id. The bridge assigns the
// id; a display name is never included.
func AuthorLabel(a Author) string {
	kind := string((&Event{Author: a}).authorKind())
	id := strings.TrimPrefix(a.ID, kind+":")
	if id == "" {
		id = "unknown"
	}
	return HeaderValue(kind + ":" + id)
}

// placeLabel names a place in a knock by the kind and id of the thread, or else of the
// conversation.
func placeLabel(c Conversation) string {
	kind := string((&Event{Conversation: c}).conversationKind())
	if c.ThreadID != "" {
		return HeaderValue("thread:" + c.ThreadID)
	}
	return HeaderValue(kind + ":" + strings.TrimPrefix(c.ID, kind+":"))
}
