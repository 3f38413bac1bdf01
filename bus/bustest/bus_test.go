package bustest_test

import (
	"testing"
	"testing/synctest"

	"hubbub/bus/bustest"
	"hubbub/protocol"
)

func TestBus_DeliversMessageAndAnswer(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *bustest.Bus{
		"listener":  func(t *testing.T) *bustest.Bus { return bustest.Start(t, nil) },
		"in memory": func(t *testing.T) *bustest.Bus { return bustest.StartInMemory(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			agent := b.Join(t, "agent:lead", "agent:lead")
			r := b.Join(t, "tg:1").Send(t, "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: "hello"})
			if r.DeliveredTo != 1 || r.Addressee != protocol.AddresseeOK {
				t.Errorf("result = %+v; want it delivered to its addressee", r)
			}
			var m protocol.ChatMessage
			if err := agent.Next(t).Decode(&m); err != nil || m.Text != "hello" {
				t.Errorf("got %+v, %v", m, err)
			}
		})
	}
}

func TestBus_RunsInSynctestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		agent := b.Join(t, "agent:lead", "agent:*")
		b.Join(t, "tg:1").Send(t, "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: "hello"})
		if agent.Pending() != 1 {
			t.Errorf("%d deliveries; want 1", agent.Pending())
		}
	})
}

func TestBus_PeersSurviveRestart(t *testing.T) {
	b := bustest.Start(t, nil)
	agent := b.Join(t, "agent:lead", "agent:lead")
	sender := b.Join(t, "tg:1")
	b.Restart(t)
	for sender.Send(t, "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: "again"}).DeliveredTo == 0 {
	}
	agent.Next(t)
}
