package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/budget"
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/mailbox/intake"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Bounds of a message.
const (
	maxText        = 256 << 10 // bytes
	maxAttachments = 64
	maxMentions    = 64
	maxID          = 400 // bytes of an id
	maxBy          = 100 // bytes of the name of the requester of a halt
)

// registerHandlers registers the handlers for the messages to an agent.
func (a *Agent) registerHandlers() {
	for t, h := range map[protocol.MessageType]peer.Handler{
		protocol.TypeConfigure:      decoding("a configure", a.handleConfigure),
		protocol.TypeTGMessage:      decoding("a chat message", a.handleChat),
		protocol.TypeChatMessage:    decoding("a chat message", a.handleChat),
		protocol.TypeDeliveryStatus: decoding("a delivery_status", a.handleDeliveryStatus),
		protocol.TypeCollabResult:   a.broker.Take,
		protocol.TypeCollabEvent:    decoding("a collab_event", a.handleCollabEvent),
		protocol.TypeAgentEvent:     decoding("an agent_event", a.handleAgentEvent),
	} {
		a.peer.Handle(t, h)
	}
}

// decoding returns a handler that decodes the content of a message and passes it on.
func decoding[T any](what string, take func(ctx context.Context, d *peer.Delivery, content *T) error) peer.Handler {
	return func(ctx context.Context, d *peer.Delivery) error {
		var content T
		if err := d.Decode(&content); err != nil {
			return peer.Reject("the content is not " + what + ": " + err.Error())
		}
		return take(ctx, d, &content)
	}
}

// handleConfigure stores a chat that the agent talks to. A chat may only configure itself; the
// command line and the spawner may configure any.
func (a *Agent) handleConfigure(ctx context.Context, d *peer.Delivery, c *protocol.Configure) error {
	if c.TalkTo == "" {
		return peer.Reject(`configure needs content.talkto, such as {"talkto":"tg:42"}`)
	}
	from := d.Message.From
	role := protocol.RoleOf(from)
	if c.TalkTo != from.Topic() && role != protocol.RoleCLI && role != protocol.RoleSystem {
		return peer.Reject(fmt.Sprintf("%s may not configure this agent for %s", from, c.TalkTo))
	}
	if c.Halt != "" {
		return a.handleHalt(ctx, d, c)
	}
	if len(c.People) > maxMentions {
		return peer.Reject(fmt.Sprintf("at most %d people are accepted", maxMentions))
	}
	return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		tx.AddChat(c.TalkTo, "")
		if c.People != nil {
			mailbox.SetPeople(tx, c.TalkTo, c.People)
		}
	})
}

// handleHalt halts or resumes the turns of a chat or, if the agent itself is named, of all chats.
// An operator may also reset the agent's budgets.
func (a *Agent) handleHalt(ctx context.Context, d *peer.Delivery, c *protocol.Configure) error {
	change := budget.Halt
	switch {
	case c.Halt == "off":
		change = budget.Resume
	case c.Halt == "anew" && c.TalkTo == a.id.Topic():
		change = budget.Reset
	case c.Halt != "on":
		return peer.Reject("halt must be on or off or, for the agent itself, anew")
	case protocol.CheckTopic(string(c.TalkTo)) != nil:
		return peer.Reject("talkto is not a topic")
	}
	by := text.Clip(cmp.Or(c.By, string(d.Message.From)), maxBy)
	cause := mailbox.Source{MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent}
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { change(tx, c.TalkTo, by, cause) })
	a.turns.Notify()
	return err
}

// handleChat stores a chat event. It returns nil if the event is in the mailbox.
func (a *Agent) handleChat(ctx context.Context, d *peer.Delivery, c *protocol.ChatMessage) error {
	if problem := checkChat(c); problem != "" {
		return peer.Reject(problem)
	}
	if c.Author == nil && c.Actor != nil && c.Event == protocol.EventReaction {
		c.Author = &protocol.Author{ID: c.Actor.ID, Kind: c.Actor.Kind, DisplayName: c.Actor.DisplayName}
		c.SourceID = cmp.Or(c.SourceID, c.ReactionID)
	}
	mailbox.ApplyDefaults(c, &d.Message)
	e := entryOf(d, *c)
	e.Chat = d.Message.From.Topic()
	if c.Event == protocol.EventTyping {
		a.turns.HandleTyping(e)
		return nil
	}
	unshown := false
	err := a.mailbox.InTxAhead(ctx, func(tx *mailbox.Tx) {
		tx.OnCommit(a.turns.Notify)
		tx.OnCommit(d.Next)
		// the button of a decision names its question itself
		unshown = !decisions.IsValue(c.Text) && intake.AwaitsStatus(&tx.View, e)
		switch {
		case unshown:
		case decisions.HandleReply(tx, e, a.approvals.reading), intake.HandleAnswer(tx, e),
			obligations.HandleCloseCommand(tx, e):
			if e.Content.Event == protocol.EventMessage { // an edit has no turn of its own to end
				tx.ReportTaken(e)
			}
		default:
			obligations.HandleReaction(tx, e)
			obligations.HandleAskCommand(tx, e)
			intake.Store(tx, e)
		}
	})
	switch {
	case err != nil:
		return rejection(err)
	case unshown: // its chat keeps it and sends it again
		return errors.New("the event is about a message that is not known yet; send it again later")
	}
	a.approvals.changed.Notify()
	a.broker.Look()
	a.opts.failpoint("stored")
	return nil
}

// entryOf returns the entry for the content of a message.
func entryOf(d *peer.Delivery, c protocol.ChatMessage) *mailbox.Entry {
	return &mailbox.Entry{
		SourceID: c.SourceID, ReceivedAt: time.Now(), Content: c,
		Source: mailbox.Source{MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent},
	}
}

// rejection turns a permanent error of the mailbox into a rejection.
func rejection(err error) error {
	if stranger, ok := errors.AsType[*intake.ForeignEventError](err); ok {
		return peer.Reject(stranger.Error())
	}
	return err
}

// checkChat returns a problem with a chat message, or "".
func checkChat(c *protocol.ChatMessage) string {
	switch {
	case len(c.Text) > maxText:
		return fmt.Sprintf("the text has %d bytes; the limit is %d", len(c.Text), maxText)
	case len(c.Attachments) > maxAttachments || c.ReplyTo != nil && len(c.ReplyTo.Attachments) > maxAttachments ||
		len(c.Mentions) > maxMentions:
		return fmt.Sprintf("at most %d attachments and %d mentions are accepted", maxAttachments, maxMentions)
	case len(c.SourceID) > maxID, c.Chat != nil && len(c.Chat.ID)+len(c.Chat.ThreadID) > maxID, c.Author != nil &&
		len(c.Author.ID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	}
	if problem := checkObliging(c); problem != "" {
		return problem
	}
	switch {
	case !text.IsCleanName(c.SourceID), c.Chat != nil && !text.IsCleanName(c.Chat.ID+c.Chat.ThreadID),
		c.Author != nil && !text.IsCleanName(c.Author.ID):
		return "an id must be " + text.NameRule
	}
	return ""
}

// handleDeliveryStatus stores the delivery status of a message from the agent. The next message of
// its chat does not wait for the disk.
func (a *Agent) handleDeliveryStatus(ctx context.Context, d *peer.Delivery, s *protocol.DeliveryStatus) error {
	return a.mailbox.InTxAhead(ctx, func(tx *mailbox.Tx) {
		tx.OnCommit(d.Next)
		tx.HandleDeliveryStatus(d.Message.From.Topic(), s)
	})
}

// handleAgentEvent handles events from other agents and the spawner. Reactions of agents to
// obligations are stored. Other events are only logged.
func (a *Agent) handleAgentEvent(ctx context.Context, d *peer.Delivery, head *protocol.Reaction) error {
	if head.Event == protocol.EventReaction {
		return a.handleReaction(ctx, d, head)
	}
	if head.Event == "wanted" && d.Message.From == protocol.PeerSystem {
		a.announceRequested.Notify()
	}
	a.opts.Log.Debug().Str("peer", string(d.Message.From)).Str("event",
		strings.ToValidUTF8(head.Event, "?")).Msg("agent event")
	return nil
}

// send makes one attempt to send a queued message. A message to a chat needs its bridge as a
// receiver; a record does not need any.
func (a *Agent) send(ctx context.Context, item outbox.Item) error {
	var m protocol.Message
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return outbox.Permanent(fmt.Errorf("a queued message cannot be read: %w", err))
	}
	topic := protocol.Topic(item.Destination)
	err := a.peer.Deliver(ctx, topic, item.Attempt, m)
	// answers in the same queue wait behind it
	report := m.Type == protocol.TypeAgentEvent && protocol.IsIdentity(topic)
	switch {
	case errors.Is(err, peer.ErrStopped):
		return outbox.Retry(time.Second, err)
	case err != nil && report && peer.OutcomeOf(err) != peer.Unsent:
		return outbox.Permanent(err)
	}
	return err
}

// channelServerName is the MCP server name under which a harness gets the tools of a Chorus
// channel.
const channelServerName = "channel"

// servers returns the MCP servers of a turn: the operator's and, for a message from a Chorus
// gateway, that of the gateway. The message chooses the gateway's address, so the server gets a
// derived token instead of the agent's token.
func (a *Agent) servers(e *mailbox.Entry) ([]harness.MCPServer, error) {
	if e == nil || len(e.Content.MCP) == 0 || protocol.PeerID(e.Chat).Family() != "chorus" || a.opts.Peer == nil {
		return a.opts.MCP, nil
	}
	var proxy struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(e.Content.MCP, &proxy); err != nil || proxy.URL == "" {
		return a.opts.MCP, nil
	}
	token := a.opts.Peer.Token
	if a.opts.Peer.TokenFunc != nil {
		var err error
		if token, err = a.opts.Peer.TokenFunc(); err != nil {
			return nil, fmt.Errorf("reading the token for the chorus gateway: %w", err)
		}
	}
	server := harness.MCPServer{Name: channelServerName, URL: proxy.URL, Headers: map[string]string{}}
	if token != "" {
		server.Headers["Authorization"] = peer.Bearer(protocol.NewDerivedToken(token, proxy.URL))
	}
	if a.opts.GuardServer != nil {
		server = a.opts.GuardServer(server)
	}
	return append(append([]harness.MCPServer{}, a.opts.MCP...), server), nil
}
