package agent

import (
	"cmp"
	"context"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/mailbox/intake"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// handleCollabEvent handles events from the broker for this agent, such as a wake, which is
// stored like any other event.
func (a *Agent) handleCollabEvent(ctx context.Context, d *peer.Delivery, fact *protocol.CollabEvent) error {
	switch from := d.Message.From; {
	case from == protocol.PeerBroker:
		a.broker.Heard()
	case protocol.RoleOf(from) != protocol.RoleCLI:
		return peer.Reject("only the collaboration broker may send collab_events")
	}
	defer a.turns.Notify()
	switch fact.Type {
	case collab.EventWoken.Name:
		return a.handleWake(ctx, d, fact)
	case collab.EventDecisionChanged.Name:
		decided, err := collab.EventDecisionChanged.Read(fact)
		if err != nil {
			return peer.Reject("the decision cannot be read: " + err.Error())
		}
		defer a.approvals.changed.Notify()
		return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { decisions.Apply(tx, decided) })
	case collab.EventObligationOpened.Name, collab.EventObligationChanged.Name:
		duty, err := collab.EventObligationChanged.Read(fact)
		if err != nil {
			return peer.Reject("the obligation cannot be read: " + err.Error())
		}
		return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { obligations.ApplyBroker(tx, &duty) })
	case collab.EventQuestionUpdated.Name:
		question, err := collab.EventQuestionUpdated.Read(fact)
		if err != nil {
			return peer.Reject("the question cannot be read: " + err.Error())
		}
		return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
			if question.State == collab.QuestionDeclined {
				lifecycle.HandleEscalationDecline(tx, question.ID)
			}
		})
	case collab.EventClaimOffered.Name:
		claim, err := collab.EventClaimOffered.Read(fact)
		if err != nil {
			return peer.Reject("the claim cannot be read: " + err.Error())
		}
		return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.HandleOffer(claim.EventID) })
	}
	return nil
}

func (a *Agent) handleWake(ctx context.Context, d *peer.Delivery, fact *protocol.CollabEvent) error {
	w, err := collab.EventWoken.Read(fact)
	if err != nil {
		return peer.Reject("the wake cannot be read: " + err.Error())
	}
	if fact.ID == "" {
		return peer.Reject("the wake has no id")
	}
	c := wakeContent(&w)
	c.SourceID, c.CreatedAt, c.Mentions = fact.ID, d.Message.Timestamp, []string{string(a.id)}
	if o, at := obligationOf(&w); o != nil {
		c.Obligation, c.CreatedAt, c.Recipients = o, at,
			[]protocol.Party{{ID: string(a.id), Kind: string(attention.AuthorAgent)}}
	}
	e := entryOf(d, c)
	e.Chat, e.Origin = protocol.TopicBroker, originOf(&w)
	err = a.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		by, answered := cmp.Or(string(w.SenderIdentity), w.SenderID), e.Origin.AnsweredID
		if answered != "" {
			tx.ShowAnswered(answered, by)
		}
		if answered == "" || !lifecycle.HandleEscalationAnswer(tx, answered, w.Question.Answer, by) {
			intake.Store(tx, e)
			if e.Origin.OnBehalfOf != "" {
				mailbox.StartExchange(tx)
			}
		}
		if w.DeliveryID != "" {
			key := "ack:" + w.DeliveryID + ":" + string(d.Message.MessageID)
			tx.Enqueue(protocol.TopicBroker, key, collab.DeliveryAck.Message(a.id, collab.IDParams{ID: w.DeliveryID}))
		}
	})
	return rejection(err)
}

// originOf returns the broker's records that a wake is about.
func originOf(w *collab.Wake) mailbox.Origin {
	o := mailbox.Origin{DeliveryID: w.DeliveryID}
	if w.Conversation != nil {
		o.ConversationID, o.Lead = w.Conversation.ID,
			cmp.Or(string(w.Conversation.MasterIdentity), w.Conversation.MasterID)
	}
	if w.WorkItem != nil {
		o.WorkItemID, o.Owner, o.OnBehalfOf = w.WorkItem.ID,
			cmp.Or(string(w.WorkItem.OwnerIdentity), w.WorkItem.OwnerID), w.WorkItem.OnBehalfOf
	}
	switch {
	case isAnswer(w):
		o.AnsweredID = w.Question.ID
	case w.Question != nil && w.Question.State == collab.QuestionOpen:
		o.QuestionID, o.OnBehalfOf = w.Question.ID, w.Question.OnBehalfOf
	}
	if w.Sweep { // not caused by a person
		o.OnBehalfOf = ""
	}
	if w.Message != nil {
		o.MessageID, o.ConversationID = w.Message.ID, w.Message.ConversationID
	}
	if w.Flight != nil {
		o.FlightID = w.Flight.ID
	}
	return o
}

// obligationOf returns the obligation in a wake, and when it was created.
func obligationOf(w *collab.Wake) (o *protocol.Obligation, since string) {
	switch {
	case w.Message != nil:
		return w.Message.Obligation, w.Message.CreatedAt
	case w.Question != nil && w.Question.State == collab.QuestionOpen:
		return w.Question.Obligation, w.Question.CreatedAt
	}
	return nil, ""
}

// isAnswer reports whether a wake has the answer to a question from this agent.
func isAnswer(w *collab.Wake) bool {
	return w.Question != nil && w.Question.State == collab.QuestionAnswered && w.Message == nil && w.WorkItem == nil
}

// wakeContent converts a wake to a chat event: the answer to the agent's own question, a blocker
// if others wait for the agent, an approval if it is to review work, or else an assignment.
func wakeContent(w *collab.Wake) protocol.ChatMessage {
	c := protocol.ChatMessage{
		Event: protocol.EventAssignment, Text: w.Text(),
		Chat: &protocol.Chat{ID: "work", Kind: "channel"}, Author: &protocol.Author{ID: "broker", Kind: "system"},
	}
	switch {
	case isAnswer(w), w.Message != nil && w.Message.Kind == collab.KindStatus: // for information
		c.Event = string(attention.KindAnswer)
	case w.Rule == collab.RuleDependency:
		c.Event = protocol.EventBlocker
	// an owner does not review its own work
	case w.WorkItem != nil && w.WorkItem.State == collab.WorkReview && w.Rule != collab.RuleOwner:
		c.Event = protocol.EventApproval
	}
	if w.WorkItem != nil {
		c.Chat.ID = "work:" + w.WorkItem.ID
		if w.WorkItem.Priority == "urgent" {
			c.Priority = "urgent"
		}
	}
	if w.Conversation != nil {
		c.Chat.ID, c.Chat.Title = w.Conversation.ID, w.Conversation.Title
		if kind := w.Conversation.Kind; kind == "dm" || kind == "thread" {
			c.Chat.Kind = kind
		}
	}
	if w.SenderID != "" {
		c.Author.ID, c.Author.Kind = cmp.Or(string(w.SenderIdentity), w.SenderID), "human"
		if w.SenderKind == collab.SurfaceAgent || w.Message != nil && w.Message.Surface == collab.SurfaceAgent {
			c.Author.Kind = "agent"
		}
	}
	return c
}

// Answer queues the answer to a wake: as the answer to its question, a message in its
// conversation, or the output of its flight. Notices from the agent's program and interim
// messages are posted to the conversation. A notice that there will be no answer also answers the
// question, or is addressed to the agent that asked. Signals are reported as flight states; see
// Disposed.
func (b *broker) Answer(tx *mailbox.Tx, e *mailbox.Entry, kind mailbox.SentKind, id protocol.MessageID,
	reply *protocol.ChatReply) {
	o, m := &e.Origin, protocol.Message{}
	post := collab.PostParams{ID: new(string(id)), ConversationID: o.ConversationID, Text: reply.Text,
		Surface: collab.SurfaceAgent, Obligation: reply.Obligation}
	unanswered := kind == mailbox.SentNotice && mailbox.IsNoAnswerNotice(reply.IdempotencyKey)
	ends := unanswered || kind == mailbox.SentNotice && mailbox.IsEscalationNotice(reply.IdempotencyKey)
	switch {
	case ends && collab.IsEscalationQuestion(o.QuestionID):
		return // see Disposed
	case ends && o.QuestionID != "":
		m = collab.QuestionAnswer.Message(b.agent.id, collab.AnswerParams{ID: o.QuestionID, Answer: reply.Text})
	// for people who read there; it wakes nobody else
	case (kind == mailbox.SentNotice || kind == mailbox.SentInterim) && o.ConversationID != "":
		post.Kind = collab.KindStatus
		if unanswered && e.FromAgent() {
			post.InReplyTo, post.Targets = o.MessageID, []string{e.Content.Author.ID}
		}
		m = collab.MessagePost.Message(b.agent.id, post)
	case kind != mailbox.SentText:
		return
	case o.QuestionID != "":
		m = collab.QuestionAnswer.Message(b.agent.id, collab.AnswerParams{ID: o.QuestionID, Answer: reply.Text})
	case o.ConversationID != "":
		post.InReplyTo, post.WorkItemID = o.MessageID, o.WorkItemID
		for _, p := range reply.Recipients {
			post.Targets = append(post.Targets, p.ID)
		}
		// the requester reads it there, and no other agent needs to
		if post.Obligation == nil && (o.FlightID != "" || o.WorkItemID == "" && e.Content.Author.Kind == "human") {
			post.Kind = collab.KindFinal
		}
		m = collab.MessagePost.Message(b.agent.id, post)
	case o.FlightID != "":
		m = collab.FlightUpdate.Message(b.agent.id,
			collab.FlightParams{ID: o.FlightID, State: collab.FlightCompleted, Output: reply.Text})
	default: // without a conversation, the work item gets a summary
		m = collab.WorkUpdate.Message(b.agent.id, collab.WorkParams{ID: &o.WorkItemID, Summary: &reply.Text})
	}
	tx.Enqueue(protocol.TopicBroker, mailbox.BrokerReplyPrefix+reply.IdempotencyKey, m)
}

// Disposed updates the broker's records after a disposition: the claim on the event, its flight,
// and the question that it answers, which is closed once this agent has processed the answer.
func (b *broker) Disposed(tx *mailbox.Tx, e *mailbox.Entry, d attention.Disposition, reason string) {
	if d.Final() {
		b.settleClaim(tx, e, d)
	}
	o := &e.Origin
	held := o.QuestionID != "" && e.Decision.Reason == mailbox.ReasonExchangeHeld &&
		tx.SentAs(mailbox.NoticeEscalation+":"+e.EventID) == nil
	if (collab.IsEscalationQuestion(o.QuestionID) || held) && d.Final() && d != attention.DispositionResponded {
		tx.Enqueue(protocol.TopicBroker, "decline:"+o.QuestionID,
			collab.QuestionDecline.Message(b.agent.id, collab.IDParams{ID: o.QuestionID}))
	}
	if o.AnsweredID != "" && d.Final() && d != attention.DispositionFailed {
		tx.Enqueue(protocol.TopicBroker, "close:"+o.AnsweredID+":"+e.EventID,
			collab.QuestionClose.Message(b.agent.id, collab.IDParams{ID: o.AnsweredID}))
		return
	}
	// the answer itself completes the flight
	completed := d == attention.DispositionResponded && o.ConversationID == "" && o.QuestionID == ""
	state, moves := flightStates[d]
	if o.FlightID == "" || completed || !moves {
		return
	}
	flight := collab.FlightParams{ID: o.FlightID, State: state}
	if state == collab.FlightFailed || state == collab.FlightCancelled {
		flight.Error = reason
	}
	b.moveFlight(tx, e, flight)
}

// flightStates are the flight states for the dispositions of an event.
var flightStates = map[attention.Disposition]collab.FlightState{
	attention.DispositionResponded: collab.FlightCompleted, attention.DispositionAcknowledged: collab.FlightCompleted,
	attention.DispositionDeferred: collab.FlightWaiting, attention.DispositionFailed: collab.FlightFailed,
	attention.DispositionIgnored: collab.FlightCancelled, attention.DispositionSuperseded: collab.FlightCancelled,
}

// settleClaim reports to the broker whether a claimed event was answered. If not, the broker
// offers it to others.
func (b *broker) settleClaim(tx *mailbox.Tx, e *mailbox.Entry, d attention.Disposition) {
	c := tx.CurrentClaim(e.EventID)
	if c.Owner != string(b.agent.id) || !c.FromBroker {
		return
	}
	answered := d == attention.DispositionResponded || d == attention.DispositionAcknowledged
	key := "declined:" + e.EventID
	if answered {
		key = "answered:" + e.EventID
	}
	tx.Enqueue(protocol.TopicBroker, key, collab.SettleClaim(b.agent.id, e.EventID, c.Token, answered))
}

// Started reports to the broker that a woken agent is working.
func (b *broker) Started(tx *mailbox.Tx, e *mailbox.Entry) {
	if e.Origin.FlightID != "" {
		b.moveFlight(tx, e, collab.FlightParams{ID: e.Origin.FlightID, State: collab.FlightRunning})
	}
}

func (b *broker) moveFlight(tx *mailbox.Tx, e *mailbox.Entry, flight collab.FlightParams) {
	tx.Enqueue(protocol.TopicBroker, mailbox.UniqueKey("flight:"+flight.ID, e.Seq),
		collab.FlightUpdate.Message(b.agent.id, flight))
}
