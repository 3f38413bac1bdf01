package tg

import (
	"context"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
)

// Queues returns the queues of each bot in a database, in the order for display. They settle items
// as the bridge does.
func Queues(ctx context.Context, db *store.DB) (all []bridge.Queue, err error) {
	bots, err := store.ReadAll(ctx, db, store.Scalar[int64], `SELECT bot FROM bots ORDER BY bot`)
	for _, bot := range bots {
		b := New("", db, nil)
		b.setBot(bot)
		all = append(all, bridge.Queue{Outbox: b.out.telegram, Name: queueTelegram, Bot: bot, DB: db})
		for _, name := range []string{bridge.QueueAgents, bridge.QueueReports, bridge.QueueChats,
			bridge.QueueCommands} {
			all = append(all, bridge.Queue{Outbox: b.router.Queue(name), Name: name, Bot: bot, DB: db})
		}
	}
	return all, err
}
