package tg

import (
	"context"
	"encoding/json"
	"fmt"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
)

// A Queue is a queue of a bridge for operators. It can be used while the bridge runs, and settles
// items as the bridge does.
type Queue struct {
	*outbox.Outbox
	Name string // telegram, agents, status, chats or commands
	Bot  int64
	db   *store.DB
}

// Queues returns the queues of each bot in a database, in the order for display.
func Queues(ctx context.Context, db *store.DB) (all []Queue, err error) {
	bots, err := store.Read(ctx, db, func(tx *store.Tx) []int64 {
		return store.All(tx, store.Scalar[int64], `SELECT bot FROM bots ORDER BY bot`)
	})
	for _, bot := range bots {
		b := New("", db, nil)
		b.setBot(bot)
		all = append(all, Queue{b.out.telegram, queueTelegram, bot, db})
		for _, name := range []string{bridge.QueueAgents, bridge.QueueReports, bridge.QueueChats,
			bridge.QueueCommands} {
			all = append(all, Queue{b.router.Queue(name), name, bot, db})
		}
	}
	return all, err
}

// Says returns the text of an item and, for the reply of an agent, its author.
func (q *Queue) Says(ctx context.Context, item *outbox.Item) (agent, says string, err error) {
	err = store.Autocommit(ctx, q.db, func(tx *store.Tx) { agent, says = q.says(tx, item) })
	return agent, says, err
}

func (q *Queue) says(tx *store.Tx, item *outbox.Item) (agent, says string) {
	switch q.Name {
	case queueTelegram:
		var s sendItem
		if json.Unmarshal(item.Body, &s) != nil {
			return "", ""
		}
		type row struct{ body, agent string }
		part, _ := store.One(tx, func(r *row) []any { return []any{&r.body, &r.agent} },
			`SELECT s.body, r.agent FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`,
			s.Reply, s.Part)
		agent, says = part.agent, part.body
		var t struct{ Text string }
		if json.Unmarshal([]byte(part.body), &t) == nil {
			says = t.Text
		}
	case bridge.QueueAgents:
		says = store.Value[string](tx,
			`SELECT coalesce(json_extract(data, '$.content.text'), '') FROM events WHERE id = ?`,
			bridge.ParseEventID(item.Body))
	case bridge.QueueCommands:
		var o bridge.Command
		if json.Unmarshal(item.Body, &o) == nil {
			says = o.Verb + " " + o.Text
		}
	case bridge.QueueReports:
		if status := bridge.ParseReport(item.Body); status.MessageID != "" {
			says = fmt.Sprintf("%s is %s", status.MessageID, status.Status)
		}
	}
	return agent, says
}
