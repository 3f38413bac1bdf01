package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// Limits on what one message may bring.
const (
	maxText        = 256 << 10 // bytes
	maxAttachments = 64
	maxMentions    = 64
	maxID          = 400 // bytes of an id that others minted
)

// handle sets the handlers of the messages that reach an agent.
func (a *Agent) handle() {
	for t, h := range map[protocol.MessageType]peer.Handler{
		protocol.TypeConfigure:      a.receiveConfigure,
		protocol.TypeTGMessage:      a.receiveChat,
		protocol.TypeChatMessage:    a.receiveChat,
		protocol.TypeDeliveryStatus: a.receiveStatus,
		protocol.TypeCollabResult:   a.broker.Take,
		protocol.TypeCollabEvent:    a.receiveFact,
		protocol.TypeAgentEvent:     a.receiveAgentEvent,
	} {
		a.peer.Handle(t, h)
	}
}

// receiveConfigure remembers a chat that the agent talks to. A chat speaks for itself;
// people at the command line and the spawner may name any.
func (a *Agent) receiveConfigure(ctx context.Context, d *peer.Delivery) error {
	var c protocol.Configure
	if err := d.Decode(&c); err != nil || c.TalkTo == "" {
		return peer.Reject(`configure needs content.talkto, such as {"talkto":"tg:42"}`)
	}
	from := d.Message.From
	role := protocol.RoleOf(from)
	if c.TalkTo != from.Topic() && role != protocol.RoleCLI && role != protocol.RoleSystem {
		return peer.Reject(fmt.Sprintf("%s may not configure this agent for %s", from, c.TalkTo))
	}
	return a.box.InTx(ctx, func(tx *mailbox.Tx) { tx.JoinChat(c.TalkTo, "") })
}

// receiveChat stores a chat event. Nil means that it is in the mailbox, or was before.
func (a *Agent) receiveChat(ctx context.Context, d *peer.Delivery) error {
	var c protocol.ChatMessage
	if err := json.Unmarshal(d.Message.Content, &c); err != nil {
		return peer.Reject("the content is not a chat message: " + err.Error())
	}
	if problem := checkChat(&c); problem != "" {
		return peer.Reject(problem)
	}
	mailbox.Complete(&c, &d.Message)
	e := entryOf(d, c)
	e.Chat = d.Message.From.Topic()
	err := a.box.InTx(ctx, func(tx *mailbox.Tx) { tx.TakeIn(e) })
	if err != nil {
		return rejection(err)
	}
	a.opts.crash("stored")
	a.turns.Poke()
	return nil
}

// entryOf returns what a message brought, to be stored.
func entryOf(d *peer.Delivery, c protocol.ChatMessage) *mailbox.Entry {
	return &mailbox.Entry{
		SourceID: c.SourceID, Received: time.Now(), Content: c,
		Carrier: mailbox.Carrier{MessageID: d.Message.MessageID, TraceParent: d.Message.TraceParent},
	}
}

// rejection makes an error of the mailbox a rejection if it will never pass.
func rejection(err error) error {
	var stranger *mailbox.Stranger
	if errors.As(err, &stranger) {
		return peer.Reject(stranger.Error())
	}
	return err
}

// checkChat says what is wrong with a chat message, or nothing.
func checkChat(c *protocol.ChatMessage) string {
	switch {
	case len(c.Text) > maxText:
		return fmt.Sprintf("the text has %d bytes; at most %d are taken", len(c.Text), maxText)
	case len(c.Attachments) > maxAttachments || len(c.Mentions) > maxMentions:
		return fmt.Sprintf("at most %d attachments and %d mentions are taken", maxAttachments, maxMentions)
	case len(c.SourceID) > maxID, c.Chat != nil && len(c.Chat.ID)+len(c.Chat.ThreadID) > maxID, c.Author != nil && len(c.Author.ID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	}
	return ""
}

// receiveStatus notes what became of one of the agent's messages.
func (a *Agent) receiveStatus(ctx context.Context, d *peer.Delivery) error {
	var s protocol.DeliveryStatus
	if err := d.Decode(&s); err != nil {
		return peer.Reject("the content is not a delivery_status: " + err.Error())
	}
	return a.box.InTx(ctx, func(tx *mailbox.Tx) { tx.Delivered(d.Message.From.Topic(), &s) })
}

// receiveAgentEvent takes events of other agents and of the spawner. None asks
// anything of this agent; they are on the bus's record.
func (a *Agent) receiveAgentEvent(_ context.Context, d *peer.Delivery) error {
	var head struct {
		Event string `json:"event"`
	}
	if err := d.Decode(&head); err != nil {
		return peer.Reject("the content is not an agent_event: " + err.Error())
	}
	a.opts.Log.Debug().Str("peer", string(d.Message.From)).Str("event", strings.ToValidUTF8(head.Event, "?")).Msg("agent event")
	return nil
}
