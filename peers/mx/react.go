package mx

import (
	"cmp"
	"context"
	"fmt"

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
	made, before := o.event, "" // an earlier attempt may have made the reaction
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		made = cmp.Or(made,
			store.Value[string](tx, `SELECT event FROM reactions WHERE target = ? AND signal = ?`, target, o.body))
		before = store.Value[string](tx, `SELECT event FROM reactions mine WHERE target = ?1 AND agent = ?2
			AND NOT EXISTS (SELECT 1 FROM reactions WHERE target = ?1 AND event = mine.event AND agent <> ?2)`, target,
			o.agent)
	})
	if err != nil {
		return "", err
	}
	if o.body == "seen" {
		if err := out.api.MarkRead(ctx, id.RoomID(o.chat.room), id.EventID(target)); err != nil {
			out.log.Warn().Err(err).Msg("read receipt not accepted by the homeserver; the reaction says the same")
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
	if before != "" && before != made {
		_, err := out.api.RedactEvent(ctx, id.RoomID(o.chat.room), id.EventID(before),
			mautrix.ReqRedact{TxnID: o.txn + "-r"})
		if err != nil && outbox.WillRetry(out.classifyError(err)) {
			return "", err
		}
		if err != nil { // such as for a message that the homeserver no longer has
			out.log.Warn().Err(err).Msg("reaction not removed: the homeserver refuses; the new one is shown beside it")
		}
	}
	return made, store.Exec(context.WithoutCancel(ctx), out.db,
		`INSERT OR REPLACE INTO reactions (target, agent, signal, event) VALUES (?, ?, ?, ?)`, target, o.agent,
		o.body, made)
}
