package tg_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestBootstrap_TakesSevenSteps(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		m := h.api.Say(dm, will, "hello")

		request := h.system.NextOf(h.t, protocol.TypeSpawnRequest)
		if request.Topic != protocol.TopicSpawn || request.Message.From != protocol.PeerID(topic(dm.ID)) {
			t.Errorf("the request came on %s from %s", request.Topic, request.Message.From)
		}
		configure := lead.Next(h.t)
		var c protocol.Configure
		if err := configure.Decode(&c); err != nil || configure.Message.Type != protocol.TypeConfigure || c.TalkTo != topic(dm.ID) {
			t.Errorf("first the agent got %+v, %v", configure.Message, err)
		}
		d := lead.Next(h.t)
		var got protocol.ChatMessage
		if err := d.Decode(&got); err != nil || d.Message.Type != protocol.TypeTGMessage {
			t.Fatalf("then the agent got %+v, %v", d.Message, err)
		}
		source := "tg:123456:" + itoa(dm.ID) + ":" + strconv.Itoa(m.ID)
		if got.Text != "hello" || got.SourceID != source || got.Chat.Kind != "dm" || got.Author.ID != itoa(will.ID) ||
			got.Author.Kind != "human" || got.Event != "message" || got.Sequence == 0 {
			t.Errorf("the message is %+v", got)
		}
		lead.Send(h.t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{Text: "hi **Will**", InReplyTo: got.SourceID})
		if texts := h.texts(dm.ID, 1); texts[0] != "hi Will" {
			t.Errorf("Will reads %q", texts)
		}
		if s := status(h.t, lead); s.Status != protocol.StatusDelivered || s.TelegramMessageID == 0 {
			t.Errorf("the agent hears %+v", s)
		}
	})
}

func TestSpawn_IsRequestedUntilSpawnerAnswers(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		for _, text := range []string{"one", "two", "three"} {
			h.api.Say(dm, will, text)
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "taking longer") {
			t.Errorf("Will reads %q", got)
		}
		h.pass(3 * time.Minute)
		if got := h.api.Texts(dm.ID); len(got) != 1 {
			t.Errorf("Will was told more than once: %q", got)
		}
		start := time.Now()
		h.startSpawner("agent:lead")
		for _, want := range []string{"one", "two", "three"} {
			if got := next(h.t, lead); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("the chat recovered after %v", d)
		}
	})
}

// request returns the spawner's next spawn request.
func request(t *testing.T, system *bustest.Scripted) protocol.SpawnRequest {
	t.Helper()
	var r protocol.SpawnRequest
	if err := system.NextOf(t, protocol.TypeSpawnRequest).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSpawn_NeverMixesUpChats(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann, annDM := h.dm("Ann")
		bob, bobDM := h.dm("Bob")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		a := h.bus.Join(t, "agent:a", "agent:a")
		b := h.bus.Join(t, "agent:b", "agent:b")
		h.start()
		h.api.Say(annDM, ann, "from Ann")
		forAnn := request(t, system)
		h.api.Say(bobDM, bob, "from Bob")
		forBob := request(t, system)
		for forBob == forAnn { // the bridge repeats an unanswered request
			forBob = request(t, system)
		}
		if forAnn.RequestID == forBob.RequestID || forAnn.Topic != topic(annDM.ID) || forBob.Topic != topic(bobDM.ID) {
			t.Fatalf("requests %+v and %+v", forAnn, forBob)
		}
		route := func(to protocol.Topic, r protocol.RouteAssigned) protocol.SendResult {
			return system.Send(t, to, protocol.TypeRouteAssigned, r)
		}
		for name, r := range map[string]protocol.SendResult{
			"another chat's request": route(topic(annDM.ID), protocol.RouteAssigned{Agent: "agent:b", RequestID: forBob.RequestID}),
			"another chat's topic":   route(topic(annDM.ID), protocol.RouteAssigned{Topic: topic(bobDM.ID), Agent: "agent:b", RequestID: forAnn.RequestID}),
			"a request never made":   route(topic(annDM.ID), protocol.RouteAssigned{Agent: "agent:b", RequestID: "made up"}),
			"no agent":               route(topic(annDM.ID), protocol.RouteAssigned{Agent: "tg:5", RequestID: forAnn.RequestID}),
			"a chat nobody knows":    route("tg:31337", protocol.RouteAssigned{Agent: "agent:b"}),
		} {
			if r.DeliveredTo != 0 || len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeRejected {
				t.Errorf("%s: %+v", name, r)
			}
		}
		// A failure of Bob's request that arrives on Ann's topic concerns Bob.
		system.Send(t, topic(annDM.ID), protocol.TypeSpawnResult, protocol.SpawnResult{RequestID: forBob.RequestID, Status: protocol.SpawnFailed, Error: "no room"})
		h.texts(annDM.ID, 0)
		if got := h.texts(bobDM.ID, 1); !strings.Contains(got[0], "no room") {
			t.Errorf("Bob reads %q", got)
		}
		// The routes arrive in the opposite order.
		route(topic(bobDM.ID), protocol.RouteAssigned{Topic: topic(bobDM.ID), Agent: "agent:b", RequestID: forBob.RequestID})
		route(topic(annDM.ID), protocol.RouteAssigned{Topic: topic(annDM.ID), Agent: "agent:a", RequestID: forAnn.RequestID})
		if got := next(t, a); got.Text != "from Ann" {
			t.Errorf("Ann's agent got %q", got.Text)
		}
		if got := next(t, b); got.Text != "from Bob" {
			t.Errorf("Bob's agent got %q", got.Text)
		}
	})
}

func TestSpawn_FailureIsReportedOnceAndRetried(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.pass(time.Second) // the connection repeats a request in progress
		h.api.Say(dm, will, "hello")
		ids := map[string]bool{}
		for i := range 4 {
			r := request(t, system)
			if ids[r.RequestID] {
				t.Errorf("a failed request was repeated under its old id")
			}
			ids[r.RequestID] = true
			system.Send(t, r.Topic, protocol.TypeSpawnResult, protocol.SpawnResult{RequestID: r.RequestID, Status: protocol.SpawnFailed, Error: fmt.Sprint("reason ", i)})
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "reason 0") || !strings.Contains(got[0], "saved") {
			t.Errorf("Will reads %q", got)
		}
		r := request(t, system)
		system.Send(t, r.Topic, protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: "agent:lead", RequestID: r.RequestID})
		if got := next(t, lead); got.Text != "hello" {
			t.Errorf("got %q", got.Text)
		}
	})
}

func TestSpawn_IsRepeatedAfterSpawnerDies(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		h.start()
		h.api.Say(dm, will, "hello")
		first := request(t, system)
		for range 3 {
			before := time.Now()
			if again := request(t, system); again.RequestID != first.RequestID {
				t.Errorf("asked again as %q, want %q", again.RequestID, first.RequestID)
			}
			if d := time.Since(before); d > 25*time.Second {
				t.Errorf("asked again after %v", d)
			}
		}
	})
}

func TestSpawn_IsRequestedAgainForAbsentAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(dm, will, "one")
		next(t, lead)
		first := request(t, h.system)
		lead.Leave()
		h.api.Say(dm, will, "two")
		h.api.Say(dm, will, "three")
		for request(t, h.system) == first { // the bridge repeats an unanswered request
		}
		back := h.bus.Join(t, "agent:lead", "agent:lead")
		if d := back.Next(t); d.Message.Type != protocol.TypeConfigure {
			t.Errorf("first the agent got %s", d.Message.Type)
		}
		for _, want := range []string{"two", "three"} {
			if got := next(t, back); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
	})
}

// TestSpawn_RequestsAreLimitedPerMinute uses a spawner that answers each request at once,
// although the agent hangs and has lost its connection.
func TestSpawn_RequestsAreLimitedPerMinute(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(dm, will, "one")
		next(t, lead)
		lead.Leave()
		h.api.Say(dm, will, "two")
		before := h.system.Pending()
		h.pass(10 * time.Minute)
		if asked := h.system.Pending() - before; asked < 10 || asked > 32 {
			t.Errorf("asked %d times in 10 minutes; want 30", asked)
		}
		back := h.bus.Join(t, "agent:lead", "agent:lead")
		begun := time.Now()
		if got := next(t, back); got.Text != "two" || time.Since(begun) > 15*time.Second {
			t.Errorf("got %q after %s", got.Text, time.Since(begun))
		}
	})
}

func TestDelivery_ResumesWhenAgentReturns(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		route := func() {
			t.Helper()
			answer := protocol.RouteAssigned{Agent: "agent:lead", RequestID: request(t, system).RequestID}
			if r := system.Send(t, topic(dm.ID), protocol.TypeRouteAssigned, answer); r.DeliveredTo != 1 {
				t.Fatalf("the route was not taken: %+v", r)
			}
		}
		h.start()
		h.pass(time.Second) // the connection repeats a request in progress
		h.api.Say(dm, will, "one")
		route()
		next(t, lead)
		lead.Leave()
		attempts := h.bus.Join(t, "cli:watcher", "agent:lead")
		h.api.Say(dm, will, "two")
		for range 6 { // the seventh attempt is at least 7 s away
			attempts.Next(t)
		}
		back := h.bus.Join(t, "agent:lead", "agent:lead")
		start := time.Now()
		route()
		if got := next(t, back); got.Text != "two" {
			t.Errorf("got %q", got.Text)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("the message came %s after the news that the agent is back", d)
		}
	})
}

func TestAssignedAgent_IsAwaitedWithoutSpawn(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		lead.Leave()
		h.api.Say(dm, models.User{ID: dm.ID, FirstName: "Will"}, "are you there?")
		h.pass(2 * time.Minute)
		if system.Pending() != 0 {
			t.Error("another agent was asked for")
		}
		back := h.bus.Join(t, "agent:lead", "agent:lead")
		if d := back.Next(t); d.Message.Type != protocol.TypeConfigure {
			t.Errorf("first the agent that is back got %s", d.Message.Type)
		}
		if got := next(t, back); got.Text != "are you there?" {
			t.Errorf("got %q", got.Text)
		}
	})
}

func TestSpawn_ReplacesEarlierSpawnedAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		first := h.bus.Join(t, "agent:first", "agent:first")
		second := h.bus.Join(t, "agent:second", "agent:second")
		mine := h.bus.Join(t, "agent:mine", "agent:mine")
		h.start()
		h.api.Say(dm, will, "one")
		r := request(t, system)
		route := func(agent protocol.PeerID) protocol.SendResult {
			return system.Send(t, r.Topic, protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: agent, RequestID: r.RequestID})
		}
		route("agent:first")
		next(t, first)
		first.Refuse(func(*peer.Delivery) error { return errors.New("not now") })
		h.api.Say(dm, will, "two")
		h.pass(time.Second)
		route("agent:second") // the spawner lost its state; its new agent replaces the old one
		if got := next(t, second); got.Text != "two" {
			t.Errorf("the new agent got %q", got.Text)
		}
		h.assign(dm.ID, "agent:mine") // an operator adds an agent on purpose
		h.api.Say(dm, will, "three")
		for _, a := range []*bustest.Scripted{second, mine} {
			if got := next(t, a); got.Text != "three" {
				t.Errorf("%s got %q", a.ID(), got.Text)
			}
		}
		if first.Pending() != 0 {
			t.Error("the replaced agent still gets messages")
		}
	})
}

// TestSpawn_HandsOverWhatIsBeingDelivered replaces an agent that hangs at a message for the bot, with another
// message behind it.
func TestSpawn_HandsOverWhatIsBeingDelivered(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann, group := h.api.User("Ann"), h.api.Supergroup(-1007, "House")
		h.startSpawner("agent:first")
		first := h.bus.Join(t, "agent:first", "agent:first")
		second := h.bus.Join(t, "agent:second", "agent:second")
		h.start()
		h.api.Say(group, ann, "one")
		r := request(t, h.system)
		next(t, first)
		hangs := make(chan struct{})
		first.Refuse(func(*peer.Delivery) error {
			<-hangs
			return errors.New("not now")
		})
		for _, text := range []string{"@hubbub_bot is it done?", "@hubbub_bot hello?"} {
			h.api.Say(group, ann, text)
		}
		h.pass(time.Second)
		h.system.Send(t, r.Topic, protocol.TypeRouteAssigned,
			protocol.RouteAssigned{Agent: "agent:second", RequestID: r.RequestID})
		h.pass(time.Second)
		close(hangs)
		got := map[string]string{}
		for range 2 {
			m := next(t, second)
			got[m.Text] = strings.Join(m.Mentions, " ")
		}
		want := map[string]string{"@hubbub_bot is it done?": "agent:second", "@hubbub_bot hello?": "agent:second"}
		if !maps.Equal(got, want) {
			t.Errorf("the new agent got %q", got)
		}
		h.pass(time.Minute)
		if shown := h.api.Texts(group.ID); len(shown) > 0 {
			t.Errorf("people read %q", shown)
		}
	})
}

func TestSpawn_LateAnswerDoesNotJoinAssignedAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		mine := h.bus.Join(t, "agent:mine", "agent:mine")
		h.start()
		h.api.Say(dm, will, "one")
		r := request(t, system)
		h.assign(dm.ID, "agent:mine")
		next(t, mine)
		if r := system.Send(t, r.Topic, protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: "agent:late", RequestID: r.RequestID}); r.DeliveredTo != 0 {
			t.Errorf("the late route was taken: %+v", r)
		}
	})
}

func TestDelivery_AgentsDoNotDelayEachOther(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		w3 := h.bus.Join(t, "agent:w3", "agent:w3")
		h.assign(dm.ID, "agent:w3")
		lead.Refuse(func(*peer.Delivery) error { return errors.New("busy") })
		var want []string
		for i := range 5 {
			want = append(want, fmt.Sprint("message ", i))
			h.api.Say(dm, models.User{ID: dm.ID, FirstName: "Will"}, want[i])
		}
		for _, text := range want {
			if got := next(t, w3); got.Text != text {
				t.Errorf("w3 got %q, want %q", got.Text, text)
			}
		}
		lead.Refuse(nil)
		for _, text := range want {
			if got := next(t, lead); got.Text != text {
				t.Errorf("lead got %q, want %q", got.Text, text)
			}
		}
	})
}

func TestDelivery_ExpiresAfterADay(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		lead.Leave()
		h.api.Say(dm, models.User{ID: dm.ID, FirstName: "Will"}, "anybody?")
		h.pass(10 * time.Second)
		if err := storetest.Exec(h.db, `UPDATE outbox SET expires_at = expires_at - ? WHERE state = 'pending'`, (24 * time.Hour).Microseconds()); err != nil {
			t.Fatal(err)
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "@lead") {
			t.Errorf("Will reads %q", got)
		}
	})
}

func TestAgentFailure_IsReportedToChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		_, other := h.dm("Ann")
		system := h.bus.Join(t, protocol.PeerSystem, "system:*")
		h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.pass(time.Second) // the connection repeats a request in progress
		h.api.Say(dm, will, "hello")
		r := request(t, system)
		system.Send(t, r.Topic, protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: "agent:lead", RequestID: r.RequestID})
		tell := func(to protocol.Topic, agent protocol.PeerID) {
			t.Helper()
			failed := protocol.SpawnResult{Topic: to, Agent: agent, Status: protocol.SpawnFailed, Error: "ended 6 times in a row: exit status 1"}
			if r := system.Send(t, to, protocol.TypeSpawnResult, failed); r.DeliveredTo != 1 {
				t.Errorf("%s about %s: %+v", to, agent, r)
			}
		}
		tell(r.Topic, "agent:other") // not an agent of this chat
		tell(topic(other.ID), "agent:lead")
		h.texts(dm.ID, 0)
		tell(r.Topic, "agent:lead")
		tell(r.Topic, "agent:lead") // announced again
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "@lead") || !strings.Contains(got[0], "ended 6 times") {
			t.Errorf("Will reads %q", got)
		}
		h.texts(other.ID, 0)
		if system.Pending() != 0 {
			t.Error("an agent was asked for although nobody said anything")
		}
	})
}

// TestRevokedChat_RequestsNoAgent revokes the user while the chat waits for its agent, and then
// admits the user again.
func TestRevokedChat_RequestsNoAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.opts.AllowAll, h.opts.AllowUsers = false, []int64{will.ID}
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(dm, will, "one")
		h.pass(10 * time.Second) // no spawner is online
		h.opts.AllowUsers = []int64{will.ID + 1}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.startSpawner("agent:lead")
		h.start()
		h.pass(5 * time.Minute)
		if n := h.system.Pending(); n != 0 {
			t.Errorf("%d messages reached the spawner", n)
		}
		h.texts(dm.ID, 0)

		h.opts.AllowUsers = []int64{will.ID}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.api.Say(dm, will, "two")
		for _, want := range []string{"one", "two"} {
			if got := next(t, lead); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
	})
}

// TestStoppedChat_DeliversWaitingEventsAfterStart stops and starts a chat with a waiting message,
// and blocks and unblocks the bot.
func TestStoppedChat_DeliversWaitingEventsAfterStart(t *testing.T) {
	member, out := tgtest.StatusMember, tgtest.StatusRemoved
	for name, pause := range map[string]func(h *fixture, dm models.Chat, will models.User){
		"stop and start": func(h *fixture, dm models.Chat, will models.User) {
			h.api.Say(dm, will, "/stop")
			h.pass(time.Minute)
			h.api.Say(dm, will, "/start")
		},
		"block and unblock": func(h *fixture, dm models.Chat, will models.User) {
			h.api.Member(dm, will, member, out)
			h.pass(time.Minute)
			h.api.Member(dm, will, out, member)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, h *fixture) {
				will, dm := h.dm("Will")
				lead := h.bus.Join(t, "agent:lead", "agent:lead")
				h.start()
				h.api.Say(dm, will, "one")
				h.pass(10 * time.Second) // no spawner is online
				pause(h, dm, will)
				h.startSpawner("agent:lead")
				if got := next(t, lead); got.Text != "one" {
					t.Errorf("got %q", got.Text)
				}
			})
		})
	}
}

// TestClockSetBack_DelaysNoChat moves the times in the database two hours ahead.
func TestClockSetBack_DelaysNoChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Album(dm, will, "two pictures", h.api.AddFile("a.jpg", "image/jpeg", nil), h.api.AddFile("b.jpg", "image/jpeg", nil))
		h.pass(time.Second)
		for _, back := range []string{`UPDATE outbox SET not_before = not_before + ? WHERE state = 'pending'`, `UPDATE bridge_events SET ready_at = ready_at + ?`} {
			if err := storetest.Exec(h.db, back, (2 * time.Hour).Microseconds()); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		h.pass(10 * time.Second)
		h.startSpawner("agent:lead")
		if got := next(t, lead); got.Text != "two pictures" || time.Since(begun) > 30*time.Second {
			t.Errorf("got %q after %s", got.Text, time.Since(begun))
		}
	})
}
