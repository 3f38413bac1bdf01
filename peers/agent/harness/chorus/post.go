package chorus

import (
	"encoding/json"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/chorus"
)

// newPost converts a turn to a POST of the protocol.
func newPost(t *harness.Turn) *chorus.Post {
	e := &t.Event
	p := &chorus.Post{
		Channel: chorus.Channel{
			ID:      channelID(t),
			Name:    channelName(e),
			Service: serviceName(e),
			Context: describeContext(t),
		},
		Message: chorus.Message{ID: e.EventID, Sender: e.Author.Name(), Content: e.Text()},
	}
	if k := e.Knock; k != nil {
		p.Message.Knock, _ = json.Marshal(k) // it contains only strings
		p.Message.Content = fmt.Sprintf(
			"Knock: %s from %s in %s. Its content is not shown. Read it with %s if you can help; otherwise do nothing.",
			k.Topic,
			k.From,
			k.Where,
			k.PullWith,
		)
	}
	return p
}

// channelID identifies the channel of a turn: its chat and thread. Each conversation of the
// broker is a channel.
func channelID(t *harness.Turn) string {
	id := t.Chat
	if id == string(protocol.TopicBroker) {
		id += "/" + t.Event.Conversation.ID
	}
	if thread := t.Event.Conversation.ThreadID; thread != "" {
		id += "/" + thread
	}
	return id
}

func channelName(e *harness.Event) string {
	if e.Conversation.Title == "" && e.Conversation.Kind == "dm" {
		return e.Author.Name()
	}
	return e.Conversation.Title
}

func serviceName(e *harness.Event) string {
	switch {
	case e.Source.Platform == "telegram":
		return "Telegram, through Hubbub"
	case e.Conversation.Service != "":
		return e.Conversation.Service + ", through Hubbub"
	default:
		return "Hubbub"
	}
}

// describeContext describes the channel, says whether the message needs an answer, and how the agent
// works with others as the broker explains it. Only the description of a Chorus service comes from outside.
func describeContext(t *harness.Turn) string {
	c := &t.Event.Conversation
	what := "A direct chat with one person."
	switch {
	case t.Chat == string(protocol.TopicBroker):
		what = "Work, questions and messages from other agents and people, through the collaboration broker."
	case c.Kind != "dm":
		what = "A chat with several people. They reach you by mentioning @" + protocol.PeerID(t.Event.Recipient).
			Name() +
			" or by replying to you."
	}
	if now := t.Event.Now; !now.IsZero() {
		what += " It is " + attention.TimeText(now) + "."
	}
	text := what + " POST what you want to say to the callback. The chat.* tools read earlier messages."
	switch attention.Policy(t.Event.Policy) {
	case attention.PolicyMustRespond:
		text += " This message waits for an answer."
	case attention.PolicyMayRespond:
		text += " This message needs no answer: POST nothing if you have nothing to add."
	}
	if c.Context != "" {
		text += " The service describes the channel as follows: " + c.Context
	}
	if t.Contract != "" {
		text += "\n\n" + t.Contract
	}
	return text
}
