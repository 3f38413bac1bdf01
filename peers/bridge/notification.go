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

// takeEvent shows what became of something that a chat began: its work, its questions, and
// what is said in its conversation.
func (r commandRunner) takeEvent(ctx context.Context, d *peer.Delivery) error {
	var fact protocol.CollabEvent
	if err := d.Decode(&fact); err != nil || d.Message.From != protocol.PeerBroker {
		return peer.Reject("only the collaboration broker tells facts")
	}
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		chat, refusal := r.adapter.FindChat(tx, d.Topic)
		if refusal != "" {
			tx.Fail(peer.Reject(refusal))
			return
		}
		said, conversation, err := r.describeEvent(tx, &fact)
		if err != nil {
			tx.Fail(peer.Reject(err.Error()))
			return
		}
		place, here := strings.CutPrefix(conversation, string(chat)+"/")
		if !here {
			place = ""
		}
		r.post(tx, chat, place, "fact:"+fact.ID, said)
	})
}

// describeEvent says a fact in words; facts that nobody in a chat needs have none.
func (r commandRunner) describeEvent(tx *store.Tx, fact *protocol.CollabEvent) (said, conversation string, err error) {
	switch fact.Type {
	case contract.EventMessagePosted.Name:
		m, err := contract.EventMessagePosted.Read(fact)
		return r.displayName(tx, m.AuthorID, m.AuthorIdentity) + ": " + m.Text, m.ConversationID, err
	case contract.EventQuestionCreated.Name:
		q, err := contract.EventQuestionCreated.Read(fact)
		return q.Title + "\n\n" + answerHint(q.ID), q.ConversationID, err
	case contract.EventQuestionAnswered.Name:
		q, err := contract.EventQuestionAnswered.Read(fact)
		return r.describeAnswer(tx, &q), q.ConversationID, err
	case contract.EventQuestionUpdated.Name:
		q, err := contract.EventQuestionUpdated.Read(fact)
		if q.State == contract.QuestionDeclined {
			said = fmt.Sprintf("%s does not answer “%s”.", r.displayName(tx, q.AskedOfID, q.AskedOfIdentity), text.Clip(q.Title, 100))
		}
		return said, q.ConversationID, err
	case contract.EventWorkCreated.Name, contract.EventWorkUpdated.Name:
		w, err := contract.EventWorkUpdated.Read(fact)
		said = r.describeWork(tx, &w)
		if w.State == contract.WorkReview {
			said += fmt.Sprintf("\n/done %s accepts it; /work %s @NAME TEXT sends it back.", w.ID, w.ID)
		}
		return said, w.ConversationID, err
	}
	return r.describeWakeEvent(tx, fact)
}

// describeAnswer says what the answer to a question is.
func (r commandRunner) describeAnswer(tx *store.Tx, q *contract.Question) string {
	return fmt.Sprintf("%s answers “%s”: %s", r.displayName(tx, q.AskedOfID, q.AskedOfIdentity), text.Clip(q.Title, 100), q.Answer)
}

// describeWakeEvent is news of reminders, and of wakes that a person asked for.
func (r commandRunner) describeWakeEvent(tx *store.Tx, fact *protocol.CollabEvent) (said, conversation string, err error) {
	switch fact.Type {
	case contract.EventWakeDecided.Name:
		w, err := contract.EventWakeDecided.Read(fact)
		for _, c := range w.Decision.Candidates {
			if c.Chosen {
				said = fmt.Sprintf("A reminder: %s waits for %s, who %s.", withTitle(w.RecordID, w.Title), r.displayName(tx, c.AgentID, c.Identity), c.Reason)
				if w.RecordKind == contract.KindQuestion && protocol.IsPerson(c.Identity) {
					said += " " + answerHint(w.RecordID)
				}
			}
		}
		return said, w.ConversationID, err
	case contract.EventDeliveryChanged.Name: // of a wake that a person here asked for
		d, err := contract.EventDeliveryChanged.Read(fact)
		if d.EndpointID != "" && d.Wake == contract.WakeWoken {
			return fmt.Sprintf("@%s was woken again%s, at %s.", d.TargetAgentID, forRecord(&d), d.EndpointID), d.ConversationID, err
		}
		return fmt.Sprintf("The wake of @%s%s reached nobody. It is told when it comes.", d.TargetAgentID, forRecord(&d)), d.ConversationID, err
	case contract.EventWoken.Name:
		w, err := contract.EventWoken.Read(fact)
		if w.Conversation != nil {
			conversation = w.Conversation.ID
		}
		return fmt.Sprintf("@%s has come, and was woken (%s).", w.TargetAgentID, w.Reason), conversation, err
	}
	return "", "", nil
}

// withTitle names something as people know it.
func withTitle(id, title string) string {
	if title == "" {
		return id
	}
	return id + " (" + text.Clip(title, 100) + ")"
}

// forRecord names what a delivery is about, if people know it.
func forRecord(d *contract.Delivery) string {
	if id := cmp.Or(d.WorkItemID, d.QuestionID); id != "" {
		return " for " + id
	}
	return ""
}
