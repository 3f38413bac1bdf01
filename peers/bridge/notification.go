package bridge

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	contract "hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// onEvent shows a chat an event from the broker about something that began in the chat: its work,
// its questions, and the messages of its conversation.
func (r commandRunner) onEvent(ctx context.Context, d *peer.Delivery) error {
	var event protocol.CollabEvent
	if err := d.Decode(&event); err != nil || d.Message.From != protocol.PeerBroker {
		return peer.Reject("only the collaboration broker sends collab_event")
	}
	return store.InTx(ctx, r.router.db, func(tx *store.Tx) {
		chat, refusal := r.router.adapter.FindChat(tx, d.Topic)
		if refusal != "" {
			tx.Fail(peer.Reject(refusal))
			return
		}
		words, conversation, err := r.describeEvent(tx, &event)
		if err != nil {
			tx.Fail(peer.Reject(err.Error()))
			return
		}
		thread, found := strings.CutPrefix(conversation, string(chat)+"/")
		if !found {
			thread = ""
		}
		r.post(tx, chat, thread, "event:"+event.ID, words)
	})
}

// describeEvent returns the text that a chat shows for an event, and its conversation.
// The text is empty if nobody in a chat needs the event.
func (r commandRunner) describeEvent(tx *store.Tx, event *protocol.CollabEvent) (words, conversation string,
	err error) {
	switch event.Type {
	case contract.EventMessagePosted.Name:
		m, err := contract.EventMessagePosted.Read(event)
		return r.displayName(tx, m.AuthorID, m.AuthorIdentity) + ": " + m.Text, m.ConversationID, err
	case contract.EventQuestionCreated.Name:
		q, err := contract.EventQuestionCreated.Read(event)
		return q.Title + "\n\n" + r.answerHint(q.ID), q.ConversationID, err
	case contract.EventQuestionAnswered.Name:
		q, err := contract.EventQuestionAnswered.Read(event)
		return r.describeAnswer(tx, &q), q.ConversationID, err
	case contract.EventQuestionUpdated.Name:
		q, err := contract.EventQuestionUpdated.Read(event)
		if q.State == contract.QuestionDeclined {
			words = fmt.Sprintf("%s declined to answer “%s”.", r.displayName(tx, q.AskedOfID, q.AskedOfIdentity),
				text.Clip(q.Title, 100))
		}
		return words, q.ConversationID, err
	case contract.EventWorkCreated.Name, contract.EventWorkUpdated.Name:
		w, err := contract.EventWorkUpdated.Read(event)
		words = r.describeWork(tx, &w)
		if w.State == contract.WorkReview {
			words += fmt.Sprintf(r.usage("\n/done %s accepts it; /work %s @NAME TEXT sends it back."), w.ID, w.ID)
		}
		return words, w.ConversationID, err
	}
	return r.describeWakeEvent(tx, event)
}

// describeWakeEvent is describeEvent for reminders and for wakes that a person asked for.
func (r commandRunner) describeWakeEvent(tx *store.Tx, event *protocol.CollabEvent) (words, conversation string,
	err error) {
	switch event.Type {
	case contract.EventWakeDecided.Name:
		w, err := contract.EventWakeDecided.Read(event)
		for _, c := range w.Decision.Candidates {
			if c.Chosen {
				words = fmt.Sprintf("Reminder: %s is waiting for %s, who %s.", withTitle(w.RecordID, w.Title),
					r.displayName(tx, c.AgentID, c.Identity), c.Reason)
				if w.RecordKind == contract.KindQuestion && protocol.IsPerson(c.Identity) {
					words += " " + r.answerHint(w.RecordID)
				}
			}
		}
		return words, w.ConversationID, err
	case contract.EventDeliveryChanged.Name:
		d, err := contract.EventDeliveryChanged.Read(event)
		if d.EndpointID != "" && d.Wake == contract.WakeWoken {
			return fmt.Sprintf("@%s was woken again%s, at %s.", d.TargetAgentID, forRecord(&d), d.EndpointID),
				d.ConversationID, err
		}
		return fmt.Sprintf("@%s could not be reached%s. It is woken when it's back.", d.TargetAgentID, forRecord(&d)),
			d.ConversationID, err
	case contract.EventWoken.Name:
		w, err := contract.EventWoken.Read(event)
		if w.Conversation != nil {
			conversation = w.Conversation.ID
		}
		return fmt.Sprintf("@%s is back and was woken (%s).", w.TargetAgentID, w.Reason), conversation, err
	}
	return "", "", nil
}

// describeWork describes a work item in one line.
func (r commandRunner) describeWork(tx *store.Tx, w *contract.WorkItem) string {
	words := w.Describe(func(name string, id protocol.PeerID) string { return r.displayName(tx, name, id) })
	return fmt.Sprintf("%s: %s. %s.", w.ID, strings.TrimRight(w.Title, "."), words)
}

// describeWake says who was woken, and why.
func describeWake(d *contract.Decision) string {
	words := d.Describe()
	if d.Outcome != contract.OutcomeNobody {
		words += " (" + d.Reason + ")"
	}
	if rest, woke := strings.CutPrefix(words, "woke "); woke {
		return "Woke " + rest + "."
	}
	return "@" + words + "." // it begins with the agent's name
}

// displayName returns the name by which people in chats know the person or agent in a
// record.
func (r commandRunner) displayName(tx *store.Tx, name string, id protocol.PeerID) string {
	if protocol.IsPerson(id) {
		return cmp.Or(r.router.opts.Commands.DisplayName(tx, id), string(id))
	}
	return "@" + name
}

// describeAnswer describes the answer to a question.
func (r commandRunner) describeAnswer(tx *store.Tx, q *contract.Question) string {
	return fmt.Sprintf("%s answered “%s”: %s", r.displayName(tx, q.AskedOfID, q.AskedOfIdentity),
		text.Clip(q.Title, 100), q.Answer)
}

// answerHint says how people answer a question in a chat.
func (r commandRunner) answerHint(id string) string {
	return r.usage("To answer, send /done ") + id + " ANSWER."
}

// withTitle returns the ID of a record with its title.
func withTitle(id, title string) string {
	if title == "" {
		return id
	}
	return id + " (" + text.Clip(title, 100) + ")"
}

// forRecord names the record that a delivery is about, if people know it.
func forRecord(d *contract.Delivery) string {
	if id := cmp.Or(d.WorkItemID, d.QuestionID); id != "" {
		return " for " + id
	}
	return ""
}
