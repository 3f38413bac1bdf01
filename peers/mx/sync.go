package mx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

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
		if errorCode(err) == "M_UNKNOWN_TOKEN" {
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
	since, err := store.Read(ctx, b.db, func(tx *store.Tx) string {
		return store.Value[string](tx, `SELECT since FROM account`)
	})
	if err != nil {
		return err
	}
	query := map[string]string{"filter": syncFilter, "timeout": "0"}
	if since != "" {
		query["since"] = since
		query["timeout"] = strconv.FormatInt(b.opts.SyncTimeout.Milliseconds(), 10)
	}
	var got syncResponse
	asked, cancel := context.WithTimeout(ctx, b.opts.SyncTimeout+requestTime)
	_, err = b.api.MakeFullRequest(asked, mautrix.FullRequest{
		Method:            http.MethodGet,
		URL:               b.api.BuildURLWithQuery(mautrix.ClientURLPath{"v3", "sync"}, query),
		ResponseJSON:      &got,
		ResponseSizeLimit: maxSync,
	})
	cancel()
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
	err = store.InTx(context.WithoutCancel(ctx), b.db, func(tx *store.Tx) { b.storeSync(tx, &got, since == "") })
	if err != nil {
		return fmt.Errorf("storing a sync: %w", err)
	}
	b.crash("stored")
	b.ingest.arrived.Notify()
	for room, r := range got.Rooms.Join {
		b.typeists.onEphemeral(room, r.Ephemeral.Events)
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
		b.storeReceipts(tx, room, r.Ephemeral.Events)
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
	var e struct {
		Type    string                    `json:"type"`
		Key     string                    `json:"state_key"`
		Content event.MemberEventContent  `json:"content"`
		Was     *event.MemberEventContent `json:"prev_content"`
		More    struct {
			Was *event.MemberEventContent `json:"prev_content"`
		} `json:"unsigned"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Type != "m.room.member" || e.Key != string(b.bot) ||
		e.Content.Membership != event.MembershipJoin {
		return false
	}
	was := e.More.Was
	if was == nil {
		was = e.Was
	}
	return was == nil || was.Membership != event.MembershipJoin // else it only changed its name
}

func (b *Bridge) storeEvents(tx *store.Tx, kind, room string, list []json.RawMessage) {
	for _, raw := range list {
		var head struct {
			ID string `json:"event_id"`
		}
		if json.Unmarshal(raw, &head) != nil || head.ID == "" {
			b.log.Error().Str("room", room).Msg("event without an ID dropped")
			continue
		}
		b.store(tx, kind, room, head.ID, string(raw))
	}
}

// store stores an event once.
func (b *Bridge) store(tx *store.Tx, kind, room, key, raw string) {
	tx.Exec(`INSERT OR IGNORE INTO inbox (event, kind, room, raw, received_at) VALUES (?, ?, ?, ?, ?)`, key, kind, room,
		raw, nowMicros())
}

// A receipt says that a person has read a message.
type receipt struct {
	Event string `json:"event"`
	User  string `json:"user"`
	At    int64  `json:"at"` // milliseconds since 1970
}

// storeReceipts stores the read receipts for messages of agents.
func (b *Bridge) storeReceipts(tx *store.Tx, room string, list []json.RawMessage) {
	for _, raw := range list {
		var e struct {
			Type    string                                                     `json:"type"`
			Content map[string]map[string]map[string]struct{ Timestamp int64 } `json:"content"`
		}
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &head) != nil || head.Type != "m.receipt" || json.Unmarshal(raw, &e) != nil {
			continue
		}
		for of, kinds := range e.Content {
			for user := range kinds["m.read"] {
				if user != string(b.bot) && store.Value[bool](tx, `SELECT 1 FROM sends s JOIN replies r ON r.id = s.reply
					WHERE s.event = ? AND r.agent <> ''`, of) {
					b.store(tx, "receipt", room, "receipt:"+of+":"+user,
						mustJSON(receipt{of, user, time.Now().UnixMilli()}))
				}
			}
		}
	}
}

// fillGap reads the events between the last sync and a timeline that the homeserver cut, and puts
// them before it.
func (b *Bridge) fillGap(ctx context.Context, room string, r *joinedRoom) error {
	if slices.ContainsFunc(r.Timeline.Events, b.isOwnJoin) {
		return nil
	}
	var missed []json.RawMessage
	from := r.Timeline.Previous
	for from != "" && len(missed) < maxBackfill {
		var page struct {
			Chunk []json.RawMessage `json:"chunk"`
			End   string            `json:"end"`
		}
		err := b.call(ctx, http.MethodGet, mautrix.ClientURLPath{"v3", "rooms", room, "messages"},
			map[string]string{"dir": "b", "from": from, "limit": "100"}, nil, &page)
		if code := errorCode(err); code == "M_FORBIDDEN" || code == "M_NOT_FOUND" {
			break
		}
		if err != nil {
			return fmt.Errorf("reading what was missed in %s: %w", room, err)
		}
		for _, raw := range page.Chunk {
			known, err := store.Read(ctx, b.db, func(tx *store.Tx) bool { return isKnown(tx, raw) })
			if err != nil {
				return err
			}
			if known {
				page.End = ""
				break
			}
			missed = append(missed, raw)
			if b.isOwnJoin(raw) {
				page.End = ""
				break
			}
		}
		from = page.End
	}
	if len(missed) >= maxBackfill {
		b.log.Error().Str("room", room).Msg("more than 1000 messages were missed in a room; older ones are not read")
	}
	slices.Reverse(missed)
	r.Timeline.Events = append(missed, r.Timeline.Events...)
	return nil
}

func isKnown(tx *store.Tx, raw json.RawMessage) bool {
	var head struct {
		ID string `json:"event_id"`
	}
	return json.Unmarshal(raw, &head) == nil &&
		store.Value[bool](tx, `SELECT 1 FROM inbox WHERE event = ?`, head.ID)
}

var errNotJoined = errors.New("the bot is not a member of this room")
