package system_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store/storetest"
	"hubbub/peers/system"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

func TestSpawn_StartsTheAgentOfAChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{Args: []string{"--harness=scripted"}})
		bridge, watcher := h.bus.Join(t, "tg:bot", "tg:*"), h.bus.Join(t, "cli:watcher", protocol.Pattern(protocol.TopicRoute))
		ask(t, bridge, "tg:42", protocol.SpawnRequest{RequestID: "r1"})
		got, d := result(t, bridge)
		want := protocol.SpawnResult{RequestID: "r1", Topic: "tg:42", Agent: "agent:tg-42", Status: "spawned"}
		if got != want || d.Topic != "tg:42" || d.Message.From != "agent:system" {
			t.Errorf("result %+v to %s", got, d.Topic)
		}
		if got := route(t, bridge); got != (protocol.RouteAssigned{Topic: "tg:42", Agent: "agent:tg-42", RequestID: "r1"}) {
			t.Errorf("route %+v", got)
		}
		if got := route(t, watcher); got != (protocol.RouteAssigned{Topic: "tg:42", Agent: "agent:tg-42", RequestID: "r1"}) {
			t.Errorf("whoever watches is told of %+v", got)
		}
		args := strings.Join(h.launcher.starts[0].Args, " ")
		if args != "--id tg-42 --bus ws://127.0.0.1:7892 --data /stage/tg-42 --token-file /stage/tg-42.token --harness=scripted" {
			t.Error("started as", args)
		}
		settle()
		// The same request again, and another one, find the agent that runs.
		ask(t, bridge, "tg:42", protocol.SpawnRequest{RequestID: "r1"})
		if got, _ := result(t, bridge); got != want {
			t.Errorf("repeated: %+v", got)
		}
		ask(t, bridge, "tg:7", protocol.SpawnRequest{RequestID: "r2", Topic: "tg:42"}) // answers to two topics have no order
		if got, d := result(t, bridge); got.RequestID != "r2" || got.Agent != "agent:tg-42" || d.Topic != "tg:7" {
			t.Errorf("second: %+v to %s", got, d.Topic)
		}
		settle()
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestSpawn_AnswersOnceTheAgentIsOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		h.launcher.playing(func(s *fakeLauncher, spec system.Spec, a *fakeInstance) {
			time.Sleep(5 * time.Second)
			sayOnline(s, spec, a)
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		for _, r := range []string{"a", "b", "c", "a"} {
			ask(t, bridge, "tg:42", protocol.SpawnRequest{RequestID: r})
		}
		timetest.Advance(4 * time.Second)
		if n := bridge.Pending(); n != 0 {
			t.Fatalf("%d answers before the agent is online", n)
		}
		timetest.Advance(2 * time.Second)
		answers := map[string]int{}
		for bridge.Pending() > 0 {
			d := bridge.Next(t)
			var c protocol.SpawnResult
			if err := d.Decode(&c); err != nil {
				t.Fatal(err)
			}
			answers[string(d.Message.Type)+" "+c.RequestID]++
		}
		for _, r := range []string{"a", "b", "c"} {
			if answers["spawn_result "+r] != 1 || answers["route_assigned "+r] != 1 {
				t.Errorf("answers %v", answers)
			}
		}
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestSpawn_KeepsTopicsAndAgentsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		agents := map[protocol.PeerID]protocol.Topic{}
		// An agent by name takes the name that a topic would derive.
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "x", Agent: "tg-2"})
		if r, _ := result(t, bridge); r.Agent != "agent:tg-2" {
			t.Fatalf("%+v", r)
		}
		for _, topic := range []protocol.Topic{"tg:2", "tg:-2", "tg:3"} {
			ask(t, bridge, protocol.PeerID(topic), protocol.SpawnRequest{RequestID: string(topic)})
			r, _ := result(t, bridge)
			if r.Status != "spawned" || r.Topic != topic || agents[r.Agent] != "" || r.Agent == "agent:tg-2" {
				t.Errorf("%s got %+v", topic, r)
			}
			agents[r.Agent] = topic
		}
		// Without a name, a chat keeps what it has; with one, it shares on purpose.
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "again"})
		if r, _ := result(t, bridge); r.Agent != "agent:tg-2" {
			t.Errorf("the chat has another agent: %+v", r)
		}
		ask(t, bridge, "tg:9", protocol.SpawnRequest{RequestID: "share", Agent: "tg-2"})
		if r, _ := result(t, bridge); r.Agent != "agent:tg-2" || r.Topic != "tg:9" {
			t.Errorf("%+v", r)
		}
		settle()
		if n := h.launcher.startCount(); n != 4 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestSpawn_AnswersRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxAgents: 1})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "ok"})
		result(t, bridge)
		for id, c := range map[string]struct {
			r    protocol.SpawnRequest
			want string
		}{
			"escape":  {protocol.SpawnRequest{Agent: "../../bin/sh"}, "must be 1 to 48"},
			"spawner": {protocol.SpawnRequest{Agent: "system"}, "the spawner itself"},
			"pattern": {protocol.SpawnRequest{Topic: "tg:*"}, "cannot be granted"},
			"agent":   {protocol.SpawnRequest{Topic: "agent:x"}, "not a chat"},
			"profile": {protocol.SpawnRequest{Profile: "root"}, "no profile"},
			"control": {protocol.SpawnRequest{Topic: "tg:2\n"}, "control or invisible characters"},
			"full":    {protocol.SpawnRequest{Topic: "tg:2"}, "--max-agents"},
		} {
			c.r.RequestID = id
			ask(t, bridge, "tg:1", c.r)
			r, _ := result(t, bridge)
			if r.Status != "failed" || r.RequestID != id || !strings.Contains(r.Error, c.want) {
				t.Errorf("%s: %+v", id, r)
			}
		}
		got := bridge.Send(t, protocol.TopicSpawn, protocol.TypeSpawnRequest, map[string]any{"topic": 7})
		if got.DeliveredTo != 0 || got.Failures[0].Status != protocol.OutcomeRejected {
			t.Errorf("unreadable content: %+v", got)
		}
		settle()
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestSupervisor_GivesUpAfterRepeatedCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxRestarts: 3})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		watcher := h.bus.Join(t, "cli:watcher", "system:agents")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "ok"})
		result(t, bridge)
		// After a minute of running, the count of restarts begins again.
		for range 6 {
			timetest.Advance(61 * time.Second)
			h.launcher.actor("tg-1").end(&system.Exit{Reason: "signal: killed"})
			timetest.Advance(10 * time.Second)
		}
		if n := h.launcher.startCount(); n != 7 {
			t.Fatalf("%d starts", n)
		}
		var mu sync.Mutex // guards starts
		var starts []time.Time
		h.launcher.playing(func(_ *fakeLauncher, _ system.Spec, a *fakeInstance) {
			mu.Lock()
			defer mu.Unlock()
			if starts = append(starts, time.Now()); len(starts) == 2 {
				if down, coming, err := system.AgentsDown(context.Background(), h.path); err != nil || len(down) != 0 || len(coming) != 1 || coming[0].Agent != "agent:tg-1" {
					t.Errorf("between two starts: %+v given up, %+v coming, %v", down, coming, err)
				}
			}
			a.end(&system.Exit{Reason: "exit status 1", Output: "words of a program"})
		})
		timetest.Advance(time.Minute)
		h.launcher.actor("tg-1").end(&system.Exit{Reason: "signal: killed"})
		timetest.Advance(5 * time.Second)
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "later"}) // waits for the outcome
		timetest.Advance(time.Minute)
		mu.Lock() // nothing is started as that any more
		defer mu.Unlock()
		if len(starts) != 3 {
			t.Fatalf("%d restarts at %v", len(starts), starts)
		}
		if second, third := starts[1].Sub(starts[0]), starts[2].Sub(starts[1]); second < 2*time.Second || third < 4*time.Second {
			t.Errorf("restarts after %s and %s", second, third)
		}
		r, _ := result(t, bridge)
		if r.RequestID != "later" || r.Status != "failed" || !strings.Contains(r.Error, "exit status 1") || !strings.Contains(r.Error, "4 times") || strings.Contains(r.Error, "words") {
			t.Errorf("%+v", r)
		}
		if down, coming, err := system.AgentsDown(t.Context(), h.path); err != nil || len(coming) != 0 || len(down) != 1 || !strings.Contains(down[0].Error, "words of a program") {
			t.Errorf("given up: %+v, coming: %+v, %v", down, coming, err)
		}
		var failed bool
		for watcher.Pending() > 0 {
			var e system.LifecycleEvent
			if watcher.Next(t).Decode(&e) == nil && e.Event == "failed" && e.Agent == "agent:tg-1" {
				failed = strings.Contains(e.Reason, "exit status 1")
			}
		}
		if !failed {
			t.Error("no agent_event tells of the failure")
		}
		// A new request tries again.
		h.launcher.playing(sayOnline)
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "anew"})
		if r, _ := result(t, bridge); r.RequestID != "anew" || r.Status != "spawned" {
			t.Errorf("%+v", r)
		}
	})
}

func TestSupervisor_GivesUpOnWrongArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		h.launcher.playing(func(_ *fakeLauncher, _ system.Spec, a *fakeInstance) {
			a.end(&system.Exit{Reason: "exit status 2", Permanent: true})
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		if r, _ := result(t, bridge); r.Status != "failed" || r.Error != "exit status 2" {
			t.Errorf("%+v", r)
		}
		timetest.Advance(time.Minute)
		if n := h.launcher.startCount(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestSupervisor_RestartsAPanickedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		settle()
		h.launcher.actor("tg-1").end(&system.Exit{Reason: "exit status 2", Permanent: true})
		timetest.Advance(10 * time.Second)
		if n := h.launcher.startCount(); n != 2 || h.launcher.actor("tg-1") == nil {
			t.Errorf("%d starts", n)
		}
	})
}

func TestFailure_WithoutARequestReachesTheChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxRestarts: -1})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		result(t, bridge)
		settle()
		h.launcher.actor("tg-1").end(&system.Exit{Reason: "out of memory"})
		r, d := result(t, bridge)
		if r.Status != "failed" || r.RequestID != "" || r.Agent != "agent:tg-1" || d.Topic != "tg:1" || r.Error != "out of memory" {
			t.Errorf("%+v to %s", r, d.Topic)
		}
	})
}

func TestSupervisor_RestartsAMuteAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxRestarts: 1})
		h.launcher.playing(func(*fakeLauncher, system.Spec, *fakeInstance) {})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		timetest.Advance(2 * time.Minute)
		if r, _ := result(t, bridge); r.Status != "failed" || !strings.Contains(r.Error, "did not come online") {
			t.Errorf("%+v", r)
		}
		if n := h.launcher.startCount(); n != 2 || h.launcher.actor("tg-1") != nil {
			t.Errorf("%d starts, running %v", n, h.launcher.actor("tg-1"))
		}
	})
}

func TestRestart_AdoptsRecordedAgents(t *testing.T) {
	for name, outlive := range map[string]bool{"agents stay": true, "agents end": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t, nil)
				h.launcher.outlive = outlive
				bridge := h.bus.Join(t, "tg:bot", "tg:*")
				for _, topic := range []protocol.PeerID{"tg:1", "tg:2", "tg:3"} {
					ask(t, bridge, topic, protocol.SpawnRequest{RequestID: string(topic)})
					result(t, bridge)
				}
				settle()
				h.stop()
				if running := len(h.launcher.running); running != map[bool]int{true: 3, false: 0}[outlive] {
					t.Fatalf("%d agents run without the spawner", running)
				}
				if outlive {
					h.launcher.actor("tg-2").end(&system.Exit{Reason: "killed meanwhile"})
				}
				h.start()
				settle()
				if n, want := h.launcher.startCount(), map[bool]int{true: 4, false: 6}[outlive]; n != want || len(h.launcher.running) != 3 {
					t.Errorf("%d starts, want %d; %d run", n, want, len(h.launcher.running))
				}
				for bridge.Pending() > 0 {
					bridge.Next(t)
				}
				ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "again"})
				if r, _ := result(t, bridge); r.Agent != "agent:tg-1" || r.Status != "spawned" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestRestart_AdoptsAnUnrecordedInstance(t *testing.T) {
	// The spawner was killed after or before it stored that the agent is online. In the second
	// case the agent starts again.
	for online, starts := range map[int]int{1: 1, 0: 2} {
		synctest.Test(t, func(t *testing.T) {
			h := newFixture(t, nil)
			h.launcher.outlive = true
			bridge := h.bus.Join(t, "tg:bot", "tg:*")
			ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
			result(t, bridge)
			settle()
			h.stop()
			h.write("UPDATE agents SET handle = '', online = ?", online)
			h.start()
			ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "again"})
			timetest.Advance(40 * time.Second)
			if r, _ := result(t, bridge); r.Status != "spawned" {
				t.Errorf("%+v", r)
			}
			if n := h.launcher.startCount(); n != starts {
				t.Errorf("%d starts; want %d", n, starts)
			}
		})
	}
}

func TestAnnouncement_WaitsForTheRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		h.launcher.playing(func(s *fakeLauncher, spec system.Spec, a *fakeInstance) {
			time.Sleep(2 * time.Second)
			sayOnline(s, spec, a)
		})
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		bridge.Leave()
		timetest.Advance(3 * time.Minute)
		h.stop()
		h.start()
		back := h.bus.Join(t, "tg:bot", "tg:*")
		refusals := 0
		back.Refuse(func(*peer.Delivery) error {
			if refusals++; refusals < 3 {
				return errors.New("disk full")
			}
			return nil
		})
		timetest.Advance(30 * time.Second)
		if r, _ := result(t, back); r.RequestID != "r" || r.Status != "spawned" {
			t.Errorf("%+v", r)
		}
		if r := route(t, back); r.RequestID != "r" {
			t.Errorf("%+v", r)
		}
		timetest.Advance(3 * time.Minute)
		if n := back.Pending(); n != 0 {
			t.Errorf("%d announcements come again although they were taken", n)
		}
	})
}

func TestSpawn_LimitsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{SpawnRate: 6})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		for i := range 12 {
			ask(t, bridge, protocol.PeerID(fmt.Sprint("tg:", i)), protocol.SpawnRequest{RequestID: "r"})
		}
		settle()
		if n := h.launcher.startCount(); n != 6 {
			t.Errorf("%d starts at once", n)
		}
		timetest.Advance(61 * time.Second)
		if n := h.launcher.startCount(); n != 12 {
			t.Errorf("%d starts after a minute", n)
		}
	})
}

func TestSupervisor_ToleratesALauncherFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxRestarts: 1})
		h.launcher.mu.Lock()
		h.launcher.broken = errors.New("no connection to the manager of units")
		h.launcher.mu.Unlock()
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		timetest.Advance(10 * time.Minute)
		h.launcher.mu.Lock()
		h.launcher.broken = nil
		h.launcher.mu.Unlock()
		timetest.Advance(30 * time.Second) // the longest pause between two attempts
		if r, _ := result(t, bridge); r.Status != "spawned" {
			t.Errorf("%+v", r)
		}
	})
}

func TestSupervisor_ToleratesAnAbsentBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, &system.Options{MaxRestarts: -1})
		h.launcher.playing(func(s *fakeLauncher, spec system.Spec, a *fakeInstance) {
			time.Sleep(15 * time.Minute)
			sayOnline(s, spec, a)
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		settle()
		h.bus.Stop()
		timetest.Advance(14*time.Minute + 50*time.Second)
		h.bus.Restart(t)
		timetest.Advance(time.Minute)
		if r, _ := result(t, bridge); r.Status != "spawned" || h.launcher.startCount() != 1 {
			t.Errorf("%+v after %d starts", r, h.launcher.startCount())
		}
	})
}

func TestAnnouncement_RefusesForeignPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		h.launcher.playing(func(*fakeLauncher, system.Spec, *fakeInstance) {})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r"})
		stranger := h.bus.Join(t, "agent:stranger")
		got := stranger.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: "agent:tg-1"})
		if len(got.Failures) != 1 || got.Failures[0].Status != protocol.OutcomeRejected {
			t.Errorf("%+v", got)
		}
		stranger.Send(t, protocol.TopicAgents, protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: "agent:stranger"})
		settle()
		if bridge.Pending() != 0 {
			t.Error("answered on the word of a stranger")
		}
	})
}

func TestProfiles_AddToTheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := func(kv ...string) func() ([]string, error) { return func() ([]string, error) { return kv, nil } }
		h := newFixture(t, &system.Options{
			Args: []string{"--a"}, Env: env("A=1"), Limits: system.Limits{Memory: 1},
			Profiles: map[string]system.Profile{"big": {Args: []string{"--b"}, Env: env("B=2"), Limits: &system.Limits{Memory: 2}}},
		})
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		ask(t, bridge, "tg:1", protocol.SpawnRequest{RequestID: "r", Profile: "big", Agent: "lead"})
		if r, _ := result(t, bridge); r.Agent != "agent:lead" {
			t.Errorf("%+v", r)
		}
		spec := h.launcher.starts[0]
		if !slices.Equal(spec.Args[len(spec.Args)-2:], []string{"--a", "--b"}) || !slices.Equal(spec.Env, []string{"A=1", "B=2"}) || spec.Limits.Memory != 2 {
			t.Errorf("%+v", spec)
		}
	})
}

// TestSpawn_ServesARequesterThatHasLeft checks that the agent is started anyway, and that the
// request is closed.
func TestSpawn_ServesARequesterThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, nil)
		bridge := h.bus.Join(t, "tg:bot", "tg:*")
		pub := h.bus.Join(t, "cli:pub-1")
		ask(t, pub, "cli:pub-1", protocol.SpawnRequest{RequestID: "r1", Topic: "tg:42"})
		pub.Leave()
		if got := route(t, bridge); got.Agent != "agent:tg-42" {
			t.Errorf("route %+v", got)
		}
		timetest.Advance(5 * time.Minute) // longer than any backoff
		h.stop()
		db, err := system.Open(h.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		items, err := outbox.New(db, nil, nil).List(t.Context(), &outbox.Filter{Destination: "cli:pub-1"})
		if err != nil || len(items) != 1 || items[0].State != outbox.StateDropped || !strings.Contains(items[0].Error, "cli:pub-1 has left") {
			t.Errorf("%+v, %v", items, err)
		}
		var open int
		if err := storetest.Scan(db, []any{&open}, `SELECT count(*) FROM requests`); err != nil || open != 0 {
			t.Errorf("%d requests are open, %v", open, err)
		}
	})
}
