package mx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"hubbub/peers/store"
	"hubbub/protocol/retry"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
)

// A syncResponse is the part of a sync that the bridge uses. Events stay as they are.
type syncResponse struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[string]*joinedRoom `json:"join"`
		Leave  map[string]*joinedRoom `json:"leave"`
		Invite map[string]struct {
			State eventList `json:"invite_state"`
		} `json:"invite"`
	} `json:"rooms"`
	keySync
}

type eventList struct {
	Events []json.RawMessage `json:"events"`
}

type joinedRoom struct {
	State    eventList `json:"state"`
	Timeline struct {
		eventList
		Limited  bool   `json:"limited"`
		Previous string `json:"prev_batch"`
	} `json:"timeline"`
	Ephemeral eventList `json:"ephemeral"`
}

// syncFilter leaves out what the bridge does not use.
const syncFilter = `{"presence":{"types":[]},"account_data":{"types":[]},"room":{"account_data":{"types":[]},` +
	`"timeline":{"limit":100},"ephemeral":{"types":["m.typing","m.receipt"]}}}`

// syncLoop receives events. Each sync is on disk, with the token of the next one, before the
// next one begins.
func (b *Bridge) syncLoop(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		err := b.sync(ctx)
		if err == nil {
			failures = 0
			continue
		}
		if errors.Is(err, mautrix.MUnknownToken) {
			b.fatal(fmt.Errorf("%w: %w", ErrToken, err))
			return nil
		}
		failures++
		pause := pauseAfter(err, failures)
		if ctx.Err() == nil {
			b.log.Warn().Err(err).Dur("pause_ms", pause).Msg("sync failed; the homeserver keeps the events")
		}
		retry.Sleep(ctx, pause)
	}
	return nil
}

// sync makes one sync and stores its events.
func (b *Bridge) sync(ctx context.Context) error {
	since, err := store.ReadValue[string](ctx, b.db, `SELECT since FROM account`)
	if err != nil {
		return err
	}
	query := map[string]string{"filter": syncFilter, "timeout": "0"}
	if since != "" {
		query["since"] = since
		query["timeout"] = strconv.FormatInt(b.opts.SyncTimeout.Milliseconds(), 10)
	}
	var got syncResponse
	err = b.get(ctx, b.opts.SyncTimeout+requestTime, mautrix.ClientURLPath{"v3", "sync"}, query, &got)
	if err == nil && got.Next == "" { // without it, the next sync would take new messages for old ones
		err = errNoAnswer
	}
	if err != nil {
		return err
	}
	b.crash("received")
	for room, r := range got.Rooms.Join {
		if since != "" && r.Timeline.Limited {
			if err := b.fillGap(ctx, room, r); err != nil {
				return err
			}
		}
	}
	if b.cipher != nil {
		if err := b.decryptSync(ctx, &got, since == ""); err != nil {
			return err
		}
	}
	err = store.InTx(context.WithoutCancel(ctx), b.db, func(tx *store.Tx) { b.storeSync(tx, &got, since == "") })
	if err != nil {
		return fmt.Errorf("storing a sync: %w", err)
	}
	b.crash("stored")
	b.ingest.arrived.Notify()
	for room, r := range got.Rooms.Join {
		b.onEphemeral(room, r.Ephemeral.Events)
	}
	return nil
}

// storeSync stores the events of a sync, and the token of the next one.
func (b *Bridge) storeSync(tx *store.Tx, got *syncResponse, initial bool) {
	for room, r := range got.Rooms.Join {
		b.storeEvents(tx, "old", room, r.State.Events)
		old := b.beforeJoin(r.Timeline.Events, initial)
		b.storeEvents(tx, "old", room, r.Timeline.Events[:old])
		b.storeEvents(tx, "event", room, r.Timeline.Events[old:])
		b.ingest.handleReceipts(tx, room, r.Ephemeral.Events)
	}
	for room, r := range got.Rooms.Leave {
		b.storeEvents(tx, "event", room, r.State.Events)
		b.storeEvents(tx, "event", room, r.Timeline.Events)
	}
	for room, r := range got.Rooms.Invite {
		raw := mustJSON(r.State.Events)
		key := raw
		for _, e := range r.State.Events {
			var head event.Event
			if json.Unmarshal(e, &head) == nil && head.GetStateKey() == string(b.bot) && head.ID != "" {
				key = head.ID.String()
			}
		}
		b.store(tx, "invite", room, "invite:"+digest(room, key), raw)
	}
	tx.Exec(`UPDATE account SET since = ?`, got.Next)
}

// beforeJoin returns the number of events of a timeline that are older than the bot's membership,
// or than the first start of the bridge. They are not messages for the bot.
func (b *Bridge) beforeJoin(timeline []json.RawMessage, initial bool) int {
	if initial {
		return len(timeline)
	}
	for i, raw := range slices.Backward(timeline) {
		if b.isOwnJoin(raw) {
			return i
		}
	}
	return 0
}

// isOwnJoin reports whether an event is the bot's entry into a room.
func (b *Bridge) isOwnJoin(raw json.RawMessage) bool {
	if !bytes.Contains(raw, []byte("m.room.member")) {
		return false
	}
	type member struct {
		Membership event.Membership `json:"membership"`
	}
	var e struct {
		Type     string
		Key      string `json:"state_key"`
		Content  member
		Unsigned struct {
			Was member `json:"prev_content"`
		}
	}
	return json.Unmarshal(raw, &e) == nil && e.Type == "m.room.member" && e.Key == string(b.bot) &&
		e.Content.Membership == event.MembershipJoin &&
		e.Unsigned.Was.Membership != event.MembershipJoin // else it only changed its name
}

func (b *Bridge) storeEvents(tx *store.Tx, kind, room string, list []json.RawMessage) {
	for _, raw := range list {
		var e rawEvent
		if json.Unmarshal(raw, &e) != nil || e.ID == "" {
			b.log.Error().Str("room", room).Msg("event without an ID dropped")
			continue
		}
		b.store(tx, kind, room, e.ID, string(raw))
	}
}

// store stores an event once.
func (b *Bridge) store(tx *store.Tx, kind, room, key, raw string) {
	tx.Exec(`INSERT OR IGNORE INTO inbox (event, kind, room, raw, received_at) VALUES (?, ?, ?, ?, ?)`, key, kind, room,
		raw, nowMicros())
}

// fillGap reads the events between the last sync and a timeline that the homeserver cut, and puts
// them before it. A state among them is removed from the room's state, which is the one after all
// of them: it keeps its place, so that an older state does not replace it.
func (b *Bridge) fillGap(ctx context.Context, room string, r *joinedRoom) error {
	if slices.ContainsFunc(r.Timeline.Events, b.isOwnJoin) {
		return nil
	}
	var missed []json.RawMessage
	read := map[string]bool{}
	from := r.Timeline.Previous
	for from != "" && len(missed) < maxBackfill {
		var page struct {
			Chunk []json.RawMessage `json:"chunk"`
			End   string            `json:"end"`
		}
		err := b.get(ctx, requestTime, mautrix.ClientURLPath{"v3", "rooms", room, "messages"},
			map[string]string{"dir": "b", "from": from, "limit": "100"}, &page)
		if errors.Is(err, mautrix.MForbidden) || errors.Is(err, mautrix.MNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading what was missed in %s: %w", room, err)
		}
		for _, raw := range page.Chunk {
			var e rawEvent
			_ = json.Unmarshal(raw, &e) // without an ID it is not known
			known, err := store.ReadValue[bool](ctx, b.db, `SELECT EXISTS (SELECT 1 FROM inbox WHERE event = ?)`, e.ID)
			if err != nil {
				return err
			}
			if !known {
				missed = append(missed, raw)
				read[e.ID] = true
			}
			if known || b.isOwnJoin(raw) {
				page.End = ""
				break
			}
		}
		from = page.End
	}
	if len(missed) >= maxBackfill {
		b.log.Error().Str("room", room).Msg("more than 1000 messages were missed in a room; older ones are not read")
	}
	r.State.Events = slices.DeleteFunc(r.State.Events, func(raw json.RawMessage) bool {
		var e rawEvent
		return json.Unmarshal(raw, &e) == nil && read[e.ID]
	})
	slices.Reverse(missed)
	r.Timeline.Events = append(missed, r.Timeline.Events...)
	return nil
}

var errNotJoined = errors.New("the bot is not a member of this room")
