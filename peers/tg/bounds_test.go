package tg

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
	"hubbub/protocol/timetest"

	"github.com/go-telegram/bot/models"
)

func TestPrune_KeepsEachKindForItsTime(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		const day = 24 * time.Hour
		ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMicro() }
		insert := func(query string, args ...any) {
			t.Helper()
			if err := storetest.Exec(b.db, query, args...); err != nil {
				t.Fatal(err)
			}
		}
		for i, age := range []time.Duration{30*day - time.Second, 30*day + time.Second} {
			insert(`INSERT INTO updates (bot, update_id, raw, received_at, state) VALUES (1, ?, '', ?, 'done')`, i, ago(age))
			insert(`INSERT INTO updates (bot, update_id, raw, received_at, state) VALUES (1, ?, '', ?, 'new')`, 10+i, ago(age))
		}
		for i, age := range []time.Duration{-time.Second, time.Second} {
			insert(`INSERT INTO holds (bot, scope, until) VALUES (1, ?, ?)`, i, ago(age))
		}
		for _, age := range []time.Duration{time.Hour - time.Second, time.Hour + time.Second} {
			insert(`INSERT INTO bridge_guesses (bridge, user, at) VALUES ('1', '1', ?)`, ago(age))
		}
		for i, age := range []time.Duration{day - time.Second, day + time.Second} {
			insert(`INSERT INTO bridge_codes (hash, expires_at) VALUES (?, ?)`, i, ago(age))
		}
		for i, age := range []time.Duration{90*day - time.Second, 90*day + time.Second} {
			insert(`INSERT INTO replies (id, bot, chat, agent, key, content, received_at) VALUES (?, 1, 1, '', ?, '{}', ?)`, i+1, i, ago(age))
			insert(`INSERT INTO sends (reply, part, bot, chat, kind, body) VALUES (?, 0, 1, 1, 'text', '')`, i+1)
		}
		for i := range 2 { // the second run finds nothing
			if err := bridge.PruneReplies(t.Context(), b.router, prune); err != nil {
				t.Fatal(err)
			}
			for table, want := range map[string]int{"updates": 3, "holds": 1, "bridge_guesses": 1, "bridge_codes": 1, "replies": 1, "sends": 1} {
				var left int
				if err := storetest.Scan(b.db, []any{&left}, `SELECT count(*) FROM `+table); err != nil || left != want {
					t.Errorf("%d: %d of %s are left, %v; want %d", i, left, table, err, want)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour+2*time.Second)
		defer cancel()
		if err := b.pruneLoop(ctx); err != nil {
			t.Error(err)
		}
		var left int // a day later the other hold, guess and code have expired too
		if err := storetest.Scan(b.db, []any{&left}, `SELECT (SELECT count(*) FROM holds) + (SELECT count(*) FROM bridge_guesses) + (SELECT count(*) FROM bridge_codes)`); err != nil || left != 0 {
			t.Errorf("%d are left, %v", left, err)
		}
		b.db.Close()
		if err := bridge.PruneReplies(t.Context(), b.router, prune); err == nil {
			t.Error("without a database nothing fails")
		}
	})
}

// TestThrottle_WaitsAndStops checks that the end of the program ends a wait, and that a database
// error causes a pause.
func TestThrottle_WaitsAndStops(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		quit := make(chan struct{})
		b.quit = quit
		from := time.Now()
		if !b.out.pause(t.Context(), time.Second) || time.Since(from) != time.Second {
			t.Errorf("it rested for %v", time.Since(from))
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if b.out.pause(stopped, time.Second) {
			t.Error("it rests beyond its context")
		}
		o := &outgoing{chat: &chat{key: 5, telegram: 5, kind: "private"}, part: part{kind: kindText}}
		if wait := b.out.throttle(t.Context(), o); wait != 0 {
			t.Errorf("with nothing sent it waits %v", wait)
		}
		hold := func(d time.Duration) {
			if err := storetest.Exec(b.db, `INSERT OR REPLACE INTO holds (bot, scope, until) VALUES (?, 'chat:5', ?)`, b.bot, time.Now().Add(d).UnixMicro()); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []string{kindText, kindCallback} {
			o.kind = kind
			hold(3 * time.Second)
			from = time.Now()
			if wait := b.out.throttle(t.Context(), o); wait != 0 || time.Since(from) != 3*time.Second {
				t.Errorf("%s: held for 3 s it rested %v and waits %v", kind, time.Since(from), wait)
			}
			hold(4 * time.Second)
			from = time.Now()
			if wait := b.out.throttle(t.Context(), o); wait != 4*time.Second || time.Since(from) != 0 {
				t.Errorf("%s: held for 4 s it rested %v and waits %v", kind, time.Since(from), wait)
			}
			timetest.Advance(10 * time.Second)
		}
		hold(2 * time.Second)
		close(quit)
		if wait := b.out.throttle(t.Context(), o); wait != time.Millisecond {
			t.Errorf("at the end it waits %v", wait)
		}
		b.db.Close()
		if wait := b.out.throttle(t.Context(), o); wait != defaultPause {
			t.Errorf("without a database it waits %v", wait)
		}
	})
}

// TestThrottle_ToleratesClockSetBack checks that a send in the future delays for at most a
// minute.
func TestThrottle_ToleratesClockSetBack(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		if err := storetest.Exec(b.db, `INSERT INTO replies (id, bot, chat, agent, key, content, received_at) VALUES (1, ?1, 5, '', '', '{}', 0);
			INSERT INTO sends (reply, part, bot, chat, kind, body, begun_at) VALUES (1, 0, ?1, 5, 'text', '', ?2)`, b.bot, time.Now().Add(time.Hour).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		o := &outgoing{chat: &chat{key: 5, telegram: 5, kind: "private"}, part: part{kind: kindText}}
		if wait := b.out.throttle(t.Context(), o); wait != time.Minute {
			t.Errorf("it waits %v", wait)
		}
		if err := storetest.Exec(b.db, `INSERT INTO holds (bot, scope, until) VALUES (?, 'chat:5', ?)`, b.bot, time.Now().Add(30*time.Minute).UnixMicro()); err != nil {
			t.Fatal(err)
		}
		if wait := b.out.throttle(t.Context(), o); wait != 30*time.Minute {
			t.Errorf("as long as Telegram asked it waits %v", wait)
		}
	})
}

// TestTypingIndicator_IsBounded also checks that a stopped chat shows no indicator.
func TestTypingIndicator_IsBounded(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		shown := b.out.typing
		shown.tracksPresence = func() bool { return true }
		types := &bridge.Reply{Agent: "agent:lead", Content: protocol.ChatReply{Typing: true}}
		direct := func(key int64) *chat { return &chat{key: key, telegram: key, kind: "private", present: true} }
		left, halted := direct(1), direct(2)
		left.present, halted.stopped = false, 1
		shown.set(t.Context(), left, types)
		shown.set(t.Context(), halted, types)
		if len(shown.busy) != 0 {
			t.Errorf("in silent chats %d type", len(shown.busy))
		}
		for key := range int64(maxTypingKeys + 5) {
			shown.set(t.Context(), direct(key+1), types)
		}
		if len(shown.busy) != 1000 {
			t.Errorf("%d type, want 1000", len(shown.busy))
		}
		shown.set(t.Context(), direct(1), &bridge.Reply{Agent: "agent:lead"})
		shown.clear(2, "agent:other")
		shown.clearChat(3)
		shown.onPresence(protocol.Presence{Peer: "agent:lead", State: protocol.PresenceJoined})
		if len(shown.busy) != 998 {
			t.Errorf("%d type, want 998", len(shown.busy))
		}
		shown.onPresence(protocol.Presence{Peer: "agent:lead", State: protocol.PresenceLeft})
		if len(shown.busy) != 0 {
			t.Errorf("of an agent that left %d type", len(shown.busy))
		}
	})
}

func TestParseSource(t *testing.T) {
	for source, want := range map[string][4]any{
		"tg:42:-5:7":            {int64(42), int64(-5), 7, true},
		"tg:42:-5:7:reaction:3": {int64(42), int64(-5), 7, true},
		"tg:42:-5:1":            {int64(42), int64(-5), 1, true},
		"tg:42:-5:0":            {int64(42), int64(-5), 0, false},
		"tg:42:-5":              {int64(0), int64(0), 0, false},
		"xx:42:-5:7":            {int64(0), int64(0), 0, false},
		"tg:x:-5:7":             {int64(0), int64(-5), 7, false},
		"tg:42:x:7":             {int64(42), int64(0), 7, false},
		"tg:42:-5:x":            {int64(42), int64(-5), 0, false},
	} {
		bot, chat, message, ok := parseSource(source)
		if got := [4]any{bot, chat, message, ok}; got != want {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
	for topic, want := range map[protocol.Topic]int64{"tg:5": 5, "tg:-5": -5, "tg:0": 0, "tg:team": 0, "5": 0, "collab:5": 0} {
		if got, err := chatOf(topic); got != want || (err == nil) != (want != 0) {
			t.Errorf("%s: %d, %v", topic, got, err)
		}
	}
}

func TestFindChat(t *testing.T) {
	alone(t, Options{AllowUsers: []int64{5}}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		ev := &adapter{b.out}
		for _, user := range []int64{5, 6} {
			b.ensureChat(autocommit(t, b.db), &models.Chat{ID: user, Type: models.ChatTypePrivate})
		}
		for topic, want := range map[protocol.Topic][2]string{
			"tg:5": {"tg:5", ""}, "tg:6": {"tg:6", "chat 6 is not admitted"}, "tg:7": {"", "this bot has no chat 7"}, "tg:x": {"", `"tg:x" is not a Telegram chat; the address of a chat is tg:<chat id>`},
		} {
			if id, refusal := ev.FindChat(autocommit(t, b.db), topic); string(id) != want[0] || refusal != want[1] {
				t.Errorf("%s: %q, %q; want %q", topic, id, refusal, want)
			}
		}
	})
}

func TestSend_UnreadableItemIsPermanent(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		if err := storetest.Exec(b.db, `INSERT INTO replies (id, bot, chat, agent, key, content, received_at) VALUES (1, ?1, 5, '', 'a', 'no JSON', 0), (2, ?1, 5, '', 'b', '{}', 0);
			INSERT INTO sends (reply, part, bot, chat, kind, body) VALUES (1, 0, ?1, 5, 'text', '{}'), (2, 0, ?1, 5, 'text', '{}')`, b.bot); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			body string
			open bool
			says string
		}{
			{`no JSON`, false, "the item cannot be read"},
			{`{"reply":1,"part":0}`, false, "reply 1 cannot be read"},
			{`{"reply":2,"part":0}`, true, "this bot has no such chat"},
			{`{"reply":2,"part":1}`, true, "reading reply 2"},
		} {
			err := b.out.send(t.Context(), outbox.Item{Body: []byte(c.body), Attempt: 1})
			if err == nil || outbox.WillRetry(err) != c.open || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.body, err)
			}
		}
		if !b.out.mayHaveSent(outbox.Item{Body: []byte("no JSON")}) {
			t.Error("what cannot be read counts as not begun")
		}
		began := func(attempt int) bool {
			return b.out.mayHaveSent(outbox.Item{Body: []byte(`{"reply":2,"part":0}`), Attempt: attempt})
		}
		if !began(0) || began(1) {
			t.Errorf("begun in its attempt: %v, in another: %v", began(0), began(1))
		}
		b.ensureChat(autocommit(t, b.db), &models.Chat{ID: 5, Type: models.ChatTypePrivate})
		if err := storetest.Exec(b.db, `UPDATE sends SET body = 'no JSON', message = 0 WHERE reply = 2`); err != nil {
			t.Fatal(err)
		}
		o, err := b.out.outgoing(autocommit(t, b.db), &outbox.Item{Body: []byte(`{"reply":2,"part":0}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.out.perform(t.Context(), o); err == nil || outbox.WillRetry(err) || !strings.Contains(err.Error(), "part 0 cannot be read") {
			t.Errorf("a text that cannot be read: %v", err)
		}
		b.db.Close()
		if !began(1) {
			t.Error("without a database nobody knows that it had not begun")
		}
	})
}

func TestAnswerCallback_ClipsText(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		tx := autocommit(t, b.db)
		c := b.ensureChat(tx, &models.Chat{ID: 5, Type: models.ChatTypePrivate})
		for i, text := range []string{strings.Repeat("ä", 200), strings.Repeat("ä", 201)} {
			b.ingest.answerCallback(tx, c, &parsedUpdate{callback: fmt.Sprint(i)}, text)
			var said string
			if err := storetest.Scan(b.db, []any{&said}, `SELECT content ->> '$.text' FROM replies WHERE key = ?`, fmt.Sprint("callback:", i)); err != nil {
				t.Fatal(err)
			}
			if n := utf8.RuneCountInString(said); n != 200 || (said == text) != (i == 0) {
				t.Errorf("of %d characters %d are told: %s", utf8.RuneCountInString(text), n, said)
			}
		}
	})
}

func TestCheckClock(t *testing.T) {
	began := time.Unix(1780315200, 0)
	ended := began.Add(2 * time.Second)
	for _, c := range []struct {
		server time.Time
		level  Level
		says   string
	}{
		{time.Time{}, LevelSkipped, "did not send the time"},
		{began, LevelOK, "agrees"},
		{ended, LevelOK, "agrees"},
		{ended.Add(30 * time.Second), LevelOK, "agrees"},
		{ended.Add(31 * time.Second), LevelProblem, "clock of this machine is 31s behind Telegram's"},
		{began.Add(-31 * time.Second), LevelOK, "agrees"}, // the server's second may have been nearly over
		{began.Add(-32 * time.Second), LevelProblem, "clock of this machine is 31s ahead of Telegram's"},
	} {
		f := checkClock(c.server, began, ended)
		if f.Level != c.level || !strings.Contains(f.Message, c.says) || (f.Advice != "") != (c.level == LevelProblem) {
			t.Errorf("%v: %+v", c.server, f)
		}
	}
}

func TestCheckWebhook(t *testing.T) {
	const ours = "https://ours.example/hook"
	now := time.Unix(1780315200, 0)
	failed := func(ago time.Duration, waiting int) models.WebhookInfo {
		return models.WebhookInfo{URL: ours, PendingUpdateCount: waiting, LastErrorMessage: "no route", LastErrorDate: int(now.Add(-ago).Unix())}
	}
	for name, c := range map[string]struct {
		info   models.WebhookInfo
		bridge BridgeState
		level  Level
		says   string
	}{
		"none":                   {models.WebhookInfo{PendingUpdateCount: 3}, BridgeState{}, LevelOK, "None is set; 3 updates are waiting to be polled."},
		"of no form":             {models.WebhookInfo{URL: "%"}, BridgeState{Webhook: ours}, LevelProblem, "Telegram delivers this bot's updates to an address that cannot be read, so the bot cannot be polled. 0 updates are waiting."},
		"another's":              {models.WebhookInfo{URL: "/x"}, BridgeState{Runs: true, Webhook: ours}, LevelProblem, "Telegram delivers this bot's updates to an address that cannot be read, so the bot cannot be polled. 0 updates are waiting."},
		"failing":                {failed(15*time.Minute-time.Second, 1), BridgeState{Runs: true, Webhook: ours}, LevelProblem, "Telegram cannot deliver to this bridge at ours.example. 1 updates are waiting. The last delivery failed 14m59s ago: no route"},
		"failed long ago":        {failed(15*time.Minute, 1), BridgeState{Runs: true, Webhook: ours}, LevelOK, "Telegram delivers to this bridge at ours.example. 1 updates are waiting."},
		"failed, nothing waits":  {failed(time.Minute, 0), BridgeState{Runs: true, Webhook: ours}, LevelOK, "Telegram delivers to this bridge at ours.example. 0 updates are waiting."},
		"waiting, not failed":    {models.WebhookInfo{URL: ours, PendingUpdateCount: 2, LastErrorDate: int(now.Unix())}, BridgeState{Runs: true, Webhook: ours}, LevelOK, "Telegram delivers to this bridge at ours.example. 2 updates are waiting."},
		"failing, nobody's here": {failed(time.Minute, 2), BridgeState{Webhook: ours}, LevelProblem, "Telegram delivers this bot's updates to ours.example, the address of this data folder's bridge, which is not online. 2 updates are waiting. The last delivery failed 1m0s ago: no route"},
	} {
		f := checkWebhook(&c.info, c.bridge, now)
		if f.Check != "webhook" || f.Level != c.level || f.Message != c.says || (f.Advice != "") != (c.level == LevelProblem) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestDiagnose_ReportsSkippedChecks(t *testing.T) {
	alone(t, Options{}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		look := func(bridge BridgeState) Finding {
			found := Diagnose(t.Context(), api.Token(), b.opts.API, bridge)
			return found[len(found)-1]
		}
		api.Fail(tgtest.Fault{Method: "getWebhookInfo", Status: 502})
		if f := look(BridgeState{}); f.Check != "webhook" || f.Level != LevelSkipped || !strings.HasPrefix(f.Message, "Telegram did not answer: ") {
			t.Errorf("%+v", f)
		}
		api.Fail(tgtest.Fault{Method: "getUpdates", Status: 502})
		if f := look(BridgeState{}); f.Check != "second poller" || f.Level != LevelSkipped || !strings.HasPrefix(f.Message, "It could not be checked: ") {
			t.Errorf("%+v", f)
		}
		from := time.Now()
		if f := look(BridgeState{}); f.Level != LevelOK || time.Since(from) != 7*time.Second {
			t.Errorf("after %v: %+v", time.Since(from), f)
		}
		from = time.Now()
		if f := look(BridgeState{Runs: true}); f.Level != LevelSkipped || !strings.Contains(f.Message, "is polling") || time.Since(from) != 0 {
			t.Errorf("after %v: %+v", time.Since(from), f)
		}
		api.SetWebhook("https://old.example/hook")
		will := api.User("Will")
		api.Say(api.DM(will), will, "kept")
		if err := DeleteWebhook(t.Context(), "no token", nil); err == nil || len(api.Calls("deleteWebhook")) != 0 {
			t.Errorf("with no token: %v", err)
		}
		if err := DeleteWebhook(t.Context(), api.Token(), b.opts.API); err != nil || api.Pending() != 1 || len(api.Calls("deleteWebhook")) != 1 {
			t.Errorf("%v; %d updates wait", err, api.Pending())
		}
	})
}

// TestIngester_RetriesFailedBatch also checks that one failing update does not lose another.
func TestIngester_RetriesFailedBatch(t *testing.T) {
	alone(t, Options{AllowAll: true}, func(t *testing.T, b *Bridge, api *tgtest.Server) {
		for i := range 101 {
			if _, _, err := b.storeUpdates(t.Context(), []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"update_id":%d}`, i+1))}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int{100, 1, 0} {
			if n, err := b.ingest.applyBatch(t.Context()); n != want || err != nil {
				t.Errorf("%d were taken in, %v; want %d", n, err, want)
			}
		}
		if err := storetest.Exec(b.db, `UPDATE updates SET state = 'new' WHERE update_id = 7; CREATE TRIGGER no BEFORE UPDATE ON updates WHEN new.state <> 'new' BEGIN SELECT raise(abort, 'no'); END`); err != nil {
			t.Fatal(err)
		}
		if n, err := b.ingest.applyBatch(t.Context()); n != 0 || err == nil {
			t.Errorf("%d were taken in, %v", n, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.ingest.run(ctx) }()
		timetest.Advance(time.Minute)
		if err := storetest.Exec(b.db, `DROP TRIGGER no`); err != nil {
			t.Fatal(err)
		}
		timetest.Advance(2 * time.Minute) // longer than any pause
		var open int
		if err := storetest.Scan(b.db, []any{&open}, `SELECT count(*) FROM updates WHERE state = 'new'`); err != nil || open != 0 {
			t.Errorf("%d were left, %v", open, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
