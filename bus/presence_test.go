package bus_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/protocol"
	"hubbub/protocol/wire"
)

// changes reads presence messages until count of them came, as "+peer" and "-peer".
func (r *raw) changes(count int) string {
	r.t.Helper()
	var list []string
	for len(list) < count {
		m, err := r.read()
		if err != nil {
			r.t.Fatal(err)
		}
		var p protocol.ProcessParams
		var payload protocol.Message
		var content protocol.Presence
		if json.Unmarshal(m.Params, &p) != nil || json.Unmarshal(p.Payload, &payload) != nil || json.Unmarshal(payload.Content, &content) != nil ||
			p.Topic != "bus:presence" || payload.Type != "presence" || payload.From != "bus:main" || content.Bus != "main" {
			r.t.Fatalf("%s %s %s", m.Method, m.Params, m.Error)
		}
		list = append(list, map[string]string{"joined": "+", "left": "-"}[content.State]+string(content.Peer))
	}
	return strings.Join(list, " ")
}

func TestPresence_ReportsPeersAndChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, &bus.Options{Name: "main"})
		rawPeer(t, b, "agent:b")
		a := rawPeer(t, b, "agent:a")
		observer := rawPeer(t, b, "agent:a-eye")
		for params, want := range map[string]string{`{"topic":"bus:presence"}`: "-32602", `{"topic":"bus:presence","observe":false}`: "-32602", `{"topic":"bus:presence","observe":true}`: ""} {
			if m := observer.request("subscribe", params); !strings.Contains(string(m.Error), want) || want == "" && m.Error != nil {
				t.Errorf("%s: %s %s", params, m.Result, m.Error)
			}
		}
		if got := observer.changes(3); got != "+agent:a +agent:b +agent:a-eye" {
			t.Errorf("first %s", got)
		}
		star := rawPeer(t, b, "cli:star", "*")
		if got := observer.changes(1); got != "+cli:star" {
			t.Errorf("then %s", got)
		}
		rawPeer(t, b, "agent:b") // takes over
		a.stream.Close(wire.CloseNormal, "")
		if got := observer.changes(1); got != "-agent:a" {
			t.Errorf("then %s", got)
		}
		for _, c := range []string{"cli:flap", "cli:flap", "cli:flap"} {
			rawPeer(t, b, c).stream.Close(wire.CloseNormal, "")
			synctest.Wait()
		}
		rawPeer(t, b, "cli:last")
		if got := observer.changes(1); got != "+cli:last" {
			t.Errorf("who came and went at once was told of: %s", got)
		}
		if m := star.request("sendMessage", `{"topic":"bus:presence","payload":`+payload("m", "cli:star", "")+`}`); !strings.Contains(string(m.Error), "-32602") {
			t.Errorf("a peer speaks as the bus: %s %s", m.Result, m.Error)
		}
	})
}

// TestPresence_ReportsCurrentStateToSlowWatcherLater connects a thousand peers while the watcher
// reads nothing, and disconnects half of them before it reads again.
func TestPresence_ReportsCurrentStateToSlowWatcherLater(t *testing.T) {
	b := bustest.Start(t, &bus.Options{Name: "main", PeerBuffer: 20_000, WriteTimeout: time.Minute})
	observer := rawPeer(t, b, "agent:eye")
	observer.request("subscribe", `{"topic":"bus:presence","observe":true}`)
	var crowd []*raw
	for i := range 1000 {
		crowd = append(crowd, rawPeer(t, b, fmt.Sprintf("cli:%04d", i)))
	}
	waitFor(t, func() bool { return b.Server().Counters().Limits["observer_buffer"] > 0 })
	for _, r := range crowd[:500] {
		r.stream.Close(wire.CloseNormal, "")
	}
	waitFor(t, func() bool { return len(b.Server().Peers()) == 501 })
	there := map[string]bool{}
	for len(there) != 501 || there["cli:0000"] {
		word := observer.changes(1)
		if name := word[1:]; word[0] == '+' {
			if there[name] {
				t.Errorf("%s joined twice", name)
			}
			there[name] = true
		} else if !there[name] {
			t.Errorf("%s left, who never joined", name)
		} else {
			delete(there, name)
		}
	}
}
