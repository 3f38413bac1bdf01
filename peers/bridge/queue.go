package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
)

// A Queue is a queue of a bridge for operators. It can be used while the bridge runs.
type Queue struct {
	*outbox.Outbox
	Name string // QueueChats, QueueAgents, QueueReports, QueueCommands, or that of the requests to the chat's service
	Bot  int64  // number of the bot, for Telegram
	DB   *store.DB
}

// Describe returns the text of an item and, for the reply from an agent, its author. It reads the
// bridge's tables events (id, data), replies (id, agent) and sends (reply, part, body).
func (q *Queue) Describe(ctx context.Context, item *outbox.Item) (agent, text string, err error) {
	err = store.Autocommit(ctx, q.DB, func(tx *store.Tx) { agent, text = q.describe(tx, item) })
	return agent, text, err
}

func (q *Queue) describe(tx *store.Tx, item *outbox.Item) (agent, text string) {
	switch q.Name {
	case QueueChats:
	case QueueAgents:
		text = store.Value[string](tx,
			`SELECT coalesce(json_extract(data, '$.content.text'), '') FROM events WHERE id = ?`, parseEventID(item.Body))
	case QueueCommands:
		var c Command
		if json.Unmarshal(item.Body, &c) == nil {
			text = c.Verb + " " + c.Text
		}
	case QueueReports:
		if status := ParseReport(item.Body); status.MessageID != "" {
			text = fmt.Sprintf("%s is %s", status.MessageID, status.Status)
		}
	default:
		return describePart(tx, item)
	}
	return "", text
}

// describePart returns the author and the text of a part of a reply, or the kind of an act of the
// bridge itself, such as "join".
func describePart(tx *store.Tx, item *outbox.Item) (agent, text string) {
	var body struct {
		Reply int64
		Part  int
		Act   struct{ Kind string }
	}
	if json.Unmarshal(item.Body, &body) != nil || body.Act.Kind != "" {
		return "", body.Act.Kind
	}
	type row struct{ body, agent string }
	part, _ := store.One(tx, func(r *row) []any { return []any{&r.body, &r.agent} },
		`SELECT s.body, r.agent FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`,
		body.Reply, body.Part)
	var message struct{ Text string }
	if json.Unmarshal([]byte(part.body), &message) == nil {
		return part.agent, message.Text
	}
	return part.agent, part.body
}
