package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
)

// A Queue is one queue of a bridge as an operator has it, also while the bridge
// runs: what is settled here is settled as the bridge does.
type Queue struct {
	*outbox.Outbox
	Name string // telegram, agents, status or chats
	Bot  int64
	db   *sql.DB
}

// Queues returns the queues of each bot that used a database of Open, in the order
// in which operators see them.
func Queues(ctx context.Context, db *sql.DB) (all []Queue, err error) {
	bots, err := store.All(ctx, db, store.Column[int64], `SELECT bot FROM bots ORDER BY bot`)
	for _, bot := range bots {
		b := New("", db, nil)
		b.become(bot)
		all = append(all, Queue{b.out.telegram, queueTelegram, bot, db})
		for _, name := range []string{surface.QueueAgents, surface.QueueReports, surface.QueueChats} {
			all = append(all, Queue{b.surface.Queue(name), name, bot, db})
		}
	}
	return all, err
}

// Says returns what an item says, and whose reply it is, if it is an agent's.
func (q *Queue) Says(ctx context.Context, item *outbox.Item) (agent, says string, err error) {
	var s sendItem
	var t struct{ Text string }
	switch q.Name {
	case queueTelegram:
		if json.Unmarshal(item.Body, &s) != nil {
			return "", "", nil
		}
		err = q.db.QueryRowContext(ctx, `SELECT s.body, r.agent FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`,
			s.Reply, s.Part).Scan(&says, &agent)
		if err == nil && json.Unmarshal([]byte(says), &t) == nil {
			says = t.Text
		}
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	case surface.QueueAgents:
		says, _, err = store.One(ctx, q.db, store.Column[string], `SELECT coalesce(json_extract(draft, '$.content.text'), '') FROM events WHERE id = ?`,
			surface.EventOf(item.Body))
	case surface.QueueReports:
		if status := surface.Reported(item.Body); status.MessageID != "" {
			says = fmt.Sprintf("%s is %s", status.MessageID, status.Status)
		}
	}
	return agent, says, err
}
