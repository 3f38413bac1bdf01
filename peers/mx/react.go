package mx

import (
	"context"
	"fmt"
	"net/http"

	"hubbub/peers/outbox"
	"hubbub/peers/store"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// react shows a signal as a reaction to a message, in place of the agent's last one there. The
// signal seen also moves the bot's read receipt. If several agents send the same signal, one
// reaction is shown, because the bot can react with each emoji only once.
func (out *outbound) react(ctx context.Context, o *outgoing) (string, error) {
	target := eventOf(o.content.InReplyTo)
	if target == "" {
		return "", outbox.Permanent(fmt.Errorf("%q is not a message of Matrix, so it cannot get a reaction",
			o.content.InReplyTo))
	}
	type reaction struct{ agent, signal, event string }
	shown, err := store.Read(ctx, out.db, func(tx *store.Tx) []reaction {
		return store.All(tx, func(r *reaction) []any { return []any{&r.agent, &r.signal, &r.event} },
			`SELECT agent, signal, event FROM reactions WHERE target = ?`, target)
	})
	if err != nil {
		return "", err
	}
	if o.body == "seen" {
		err := out.call(ctx, http.MethodPost,
			mautrix.ClientURLPath{"v3", "rooms", o.chat.room, "receipt", "m.read", target}, nil, struct{}{}, nil)
		if err != nil {
			out.log.Warn().Err(err).Msg("read receipt not accepted by the homeserver; the reaction says the same")
		}
	}
	var made, before string
	users := map[string]int{} // agents by reaction
	for _, r := range shown {
		users[r.event]++
		if r.signal == o.body {
			made = r.event
		}
		if r.agent == o.agent {
			before = r.event
		}
	}
	if made == "" {
		made, err = out.put(ctx, o, "m.reaction", &event.ReactionEventContent{RelatesTo: event.RelatesTo{
			Type: event.RelAnnotation, EventID: id.EventID(target), Key: out.opts.Glyphs[o.body],
		}})
		if err != nil {
			return "", err
		}
	}
	if before != "" && before != made && users[before] == 1 {
		err := out.call(ctx, http.MethodPut,
			mautrix.ClientURLPath{"v3", "rooms", o.chat.room, "redact", before, o.txn + "-r"}, nil, struct{}{}, nil)
		if err != nil {
			return "", err
		}
	}
	return made, store.Autocommit(context.WithoutCancel(ctx), out.db, func(tx *store.Tx) {
		tx.Exec(`INSERT OR REPLACE INTO reactions (target, agent, signal, event) VALUES (?, ?, ?, ?)`, target, o.agent,
			o.body, made)
	})
}
