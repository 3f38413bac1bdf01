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
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// Limits on what one message may bring.
const (
	maxText        = 256 << 10 // bytes
	maxAttachments = 64
	maxMentions    = 64
	maxID          = 400 // bytes of an id that others minted
	maxBy          = 100 // of the name of who halts
)

// registerHandlers sets the handlers of the messages that reach an agent.
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

// decoding returns a handler that reads the content of a message and has it taken.
func decoding[T any](what string, take func(ctx context.Context, d *peer.Delivery, content *T) error) peer.Handler {
	return func(ctx context.Context, d *peer.Delivery) error {
		var content T
		if err := d.Decode(&content); err != nil {
			return peer.Reject("the content is not " + what + ": " + err.Error())
		}
		return take(ctx, d, &content)
	}
}

// handleConfigure remembers a chat that the agent talks to. A chat speaks for itself;
// people at the command line and the spawner may name any.
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
		return peer.Reject(fmt.Sprintf("at most %d people are taken", maxMentions))
	}
	return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		tx.AddChat(c.TalkTo, "")
		if c.People != nil {
			mailbox.SetPeople(tx, c.TalkTo, c.People)
		}
	})
}

// handleHalt stops the turns of a chat or, if the agent itself is named, all turns, or
// lets them run again. An operator may also have the agent's budgets counted anew.
func (a *Agent) handleHalt(ctx context.Context, d *peer.Delivery, c *protocol.Configure) error {
	change := (*mailbox.Tx).Halt
	switch {
	case c.Halt == "off":
		change = (*mailbox.Tx).Resume
	case c.Halt == "anew" && c.TalkTo == a.id.Topic():
		change = mailbox.ResetBudget
	case c.Halt != "on":
		return peer.Reject("halt is on or off, or, of the agent itself, anew")
	case protocol.CheckTopic(string(c.TalkTo)) != nil:
		return peer.Reject("talkto is no topic")
	}
	by := text.Clip(cmp.Or(c.By, string(d.Message.From)), maxBy)
	cause := mailbox.Source{MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent}
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { change(tx, c.TalkTo, by, cause) })
	a.turns.Notify()
	return err
}

// handleChat stores a chat event. Nil means that it is in the mailbox, or was before.
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
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		if unshown = tx.AwaitsDecisionMessage(e); !unshown && !tx.HandleDecisionReply(e, a.opts.AllowWords, a.opts.DenyWords) && !mailbox.HandleCloseCommand(tx, e) {
			mailbox.HandleReaction(tx, e)
			mailbox.HandleAskCommand(tx, e)
			tx.StoreEvent(e)
		}
	})
	switch {
	case err != nil:
		return rejection(err)
	case unshown: // held: its chat sends it again
		return errors.New("the reaction is about a message that is not known yet; send it again later")
	}
	a.approvals.notifyAll()
	a.opts.failpoint("stored")
	a.turns.Notify()
	return nil
}

// entryOf returns what a message brought, to be stored.
func entryOf(d *peer.Delivery, c protocol.ChatMessage) *mailbox.Entry {
	return &mailbox.Entry{
		SourceID: c.SourceID, ReceivedAt: time.Now(), Content: c,
		Source: mailbox.Source{MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent},
	}
}

// rejection makes an error of the mailbox a rejection if it will never pass.
func rejection(err error) error {
	if stranger, ok := errors.AsType[*mailbox.ForeignEventError](err); ok {
		return peer.Reject(stranger.Error())
	}
	return err
}

// checkChat says what is wrong with a chat message, or nothing.
func checkChat(c *protocol.ChatMessage) string {
	switch {
	case len(c.Text) > maxText:
		return fmt.Sprintf("the text has %d bytes; at most %d are taken", len(c.Text), maxText)
	case len(c.Attachments) > maxAttachments || c.ReplyTo != nil && len(c.ReplyTo.Attachments) > maxAttachments || len(c.Mentions) > maxMentions:
		return fmt.Sprintf("at most %d attachments and %d mentions are taken", maxAttachments, maxMentions)
	case len(c.SourceID) > maxID, c.Chat != nil && len(c.Chat.ID)+len(c.Chat.ThreadID) > maxID, c.Author != nil && len(c.Author.ID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	}
	if problem := checkObliging(c); problem != "" {
		return problem
	}
	switch {
	case !text.IsCleanName(c.SourceID), c.Chat != nil && !text.IsCleanName(c.Chat.ID+c.Chat.ThreadID), c.Author != nil && !text.IsCleanName(c.Author.ID):
		return "an id has control characters or others that nobody sees"
	}
	return ""
}

// handleDeliveryStatus notes what became of one of the agent's messages.
func (a *Agent) handleDeliveryStatus(ctx context.Context, d *peer.Delivery, s *protocol.DeliveryStatus) error {
	return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.HandleDeliveryStatus(d.Message.From.Topic(), s) })
}

// handleAgentEvent takes events of other agents and of the spawner. A reaction of an agent may
// close what this one owes it; no other asks anything: they are on the bus's record.
func (a *Agent) handleAgentEvent(ctx context.Context, d *peer.Delivery, head *protocol.Reaction) error {
	if head.Event == protocol.EventReaction {
		return a.handleReaction(ctx, d, head)
	}
	if head.Event == "wanted" && d.Message.From == protocol.PeerSystem {
		a.announceRequested.Notify()
	}
	a.opts.Log.Debug().Str("peer", string(d.Message.From)).Str("event", strings.ToValidUTF8(head.Event, "?")).Msg("agent event")
	return nil
}

// send makes one attempt to send what is queued. A chat must have its bridge there;
// records are sent whether anybody listens or not.
func (a *Agent) send(ctx context.Context, item outbox.Item) error {
	var m protocol.Message
	if err := json.Unmarshal(item.Body, &m); err != nil {
		return outbox.Permanent(fmt.Errorf("a queued message cannot be read: %w", err))
	}
	topic := protocol.Topic(item.Destination)
	err := a.peer.Deliver(ctx, topic, item.Attempt, m)
	report := m.Type == protocol.TypeAgentEvent && protocol.IsIdentity(topic) // of a turn: answers wait behind it
	switch {
	case errors.Is(err, peer.ErrStopped):
		return outbox.Retry(time.Second, err)
	case err != nil && report && peer.OutcomeOf(err) != peer.Unsent:
		return outbox.Permanent(err)
	}
	return err
}

// channelServerName is the name under which a harness gets the tools of a Chorus channel.
const channelServerName = "channel"

// servers returns the MCP servers of a turn: the operator's, and that of the chorus
// gateway for a message that came through it. Its address is what the message says, so
// it gets a pass for itself, and not the token.
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
