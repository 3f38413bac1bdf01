package tg_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// TestThrottle_BotLimit checks the bot's limit per second, its burst of a tenth, and no limit.
func TestThrottle_BotLimit(t *testing.T) {
	for limit, want := range map[int]time.Duration{20: 900 * time.Millisecond, 1: 19 * time.Second, 15: 19 * time.Second / 15, -1: 0} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			withFixture(t, func(t *testing.T, h *fixture) {
				h.opts.BotPerSecond = limit
				lead := h.bus.Join(t, "agent:lead", "agent:lead")
				h.startSpawner("agent:lead")
				h.start()
				var chats []int64
				for i := range 20 {
					user, dm := h.dm(fmt.Sprint("U", i))
					h.api.Say(dm, user, "hi")
					next(t, lead)
					chats = append(chats, dm.ID)
				}
				h.pass(time.Minute)
				for _, chat := range chats {
					lead.Send(t, topic(chat), protocol.TypeTGReply, protocol.ChatReply{Text: "hello"})
				}
				h.pass(time.Minute)
				sent := h.api.Calls("sendMessage")
				if len(sent) != 20 {
					t.Fatalf("%d messages", len(sent))
				}
				if took := sent[19].At.Sub(sent[0].At); took < want || took > want+200*time.Millisecond {
					t.Errorf("20 messages took %s; want %s", took, want)
				}
			})
		})
	}
}

// TestPoll_SuccessResetsBackoff checks that a failure after a success counts as the first.
func TestPoll_SuccessResetsBackoff(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.PollTimeout = time.Second
		will, dm := h.dm("Will")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.startSpawner("agent:lead")
		h.start()
		h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: http.StatusBadGateway, Times: 5})
		h.pass(3 * time.Minute)
		h.api.Say(dm, will, "there?")
		next(t, lead)
		for range 3 {
			h.api.Fail(tgtest.Fault{Method: "getUpdates", Status: http.StatusBadGateway})
			h.pass(1100 * time.Millisecond) // the waiting poll, and the one that fails
			h.api.Say(dm, will, "and now?")
			begun := time.Now()
			next(t, lead)
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("after one failure the next poll came %s later", took)
			}
		}
	})
}

// TestReject_IsLogged checks that the log names the flag that admits.
func TestReject_IsLogged(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.opts.AllowAll = false
		mallory, dm := h.dm("Mallory")
		group := h.api.Group(-10, "Team")
		h.start()
		h.api.Say(dm, mallory, "let me in")
		h.api.Say(group, mallory, "let us in")
		h.pass(5 * time.Second)
		for _, why := range []string{fmt.Sprintf("update rejected: user %d is not admitted (--allow-user, or /pair)", mallory.ID), "update rejected: chat -10 is not admitted (--allow-chat, or /pair there)"} {
			if !h.log.has(why) {
				t.Errorf("the log does not say %q", why)
			}
		}
	})
}

func TestRevoke_ReportsFailure(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		h.start()
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if revoked, err := bridge.Revoke(t.Context(), h.db, itoa(77)); revoked || err != nil {
			t.Errorf("nobody: %v, %v", revoked, err)
		}
		if err := storetest.Exec(h.db, `DROP TABLE bridge_admitted`); err != nil {
			t.Fatal(err)
		}
		if revoked, err := bridge.Revoke(t.Context(), h.db, itoa(77)); revoked || err == nil {
			t.Errorf("without its table: %v, %v", revoked, err)
		}
	})
}
