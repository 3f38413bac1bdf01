package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/protocol"
)

// programDies says, in the environment of a C2A program, when its first life
// ends: before it answers a delivery, after it answered, or after it sent.
const programDies = "AGENT_TEST_PROGRAM_DIES"

// runProgram is a C2A program: it answers each delivery with one message, in
// words of its own process.
func runProgram() {
	marker := os.Getenv(programDies + "_MARKER")
	dies := os.Getenv(programDies)
	if _, err := os.Stat(marker); err == nil {
		dies = "" // its second life
	}
	die := func(when string) {
		if when == dies {
			os.WriteFile(marker, nil, 0o600) //nolint:errcheck // the test fails without it
			os.Exit(3)
		}
	}
	say := func(m map[string]any) {
		m["jsonrpc"] = "2.0"
		raw, _ := json.Marshal(m)
		fmt.Println(string(raw))
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				EventID         string
				ProtocolVersion string
				Capabilities    json.RawMessage
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say(map[string]any{"id": m.ID, "result": map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": m.Params.Capabilities}})
		case "chat/deliver":
			die("before the answer")
			send := map[string]any{"name": "chat.send_message", "arguments": map[string]any{
				"inReplyTo": m.Params.EventID, "text": fmt.Sprint("words of process ", os.Getpid()), "idempotencyKey": fmt.Sprint("k", os.Getpid()),
			}}
			if dies == "after the message" {
				say(map[string]any{"id": "s1", "method": "tools/call", "params": send})
				lines.Scan() // the message is on its way
				die("after the message")
			}
			say(map[string]any{"id": m.ID, "result": map[string]any{"accepted": true}})
			say(map[string]any{"id": "s1", "method": "tools/call", "params": send})
		}
	}
}

// TestProgram_GetsRepeatedDeliveriesAfterACrash ends a C2A program in the middle of a turn. Deliveries
// that it had not stored are repeated, and it never answers twice.
func TestProgram_GetsRepeatedDeliveriesAfterACrash(t *testing.T) {
	for _, when := range []string{"before the answer", "after the message"} {
		t.Run(when, func(t *testing.T) {
			b := bustest.Start(t, nil)
			system := b.Join(t, "agent:system", "system:attention")
			tg := b.Join(t, "tg:bot", "tg:*")
			h := c2a.New([]string{os.Args[0], "-test.run=^$"}, &c2a.Options{Env: map[string]string{
				programDies: when, programDies + "_MARKER": filepath.Join(t.TempDir(), "died"),
			}})
			start(t, b, "agent:lead", h, &agent.Options{HarnessType: "c2a", ComposeWindow: time.Millisecond})
			for tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e1", "hello")).DeliveredTo != 1 { // until it is connected
			}
			var attempts []string
			seen := map[protocol.MessageID]bool{}
			for ended, finished := false, false; !ended || !finished; {
				d := system.Next(t)
				r := content[record](t, d)
				if seen[d.Message.MessageID] {
					continue
				}
				seen[d.Message.MessageID] = true
				ended = ended || r.is("disposition") && r["disposition"] == "responded"
				finished = finished || r.is("turn") && r["state"] == "finished"
				if r.is("turn") && r["state"] == "started" {
					attempts = append(attempts, fmt.Sprint(r["attempt"]))
				}
			}
			equal(t, "attempts", attempts, []string{"1", "2"})
			tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, dm("e2", "and?"))
			texts := 0
			for {
				r := content[protocol.ChatReply](t, tg.NextOf(t, protocol.TypeTGReply))
				if r.InReplyTo == "e2" {
					break
				}
				if r.Text != "" {
					texts++
				}
			}
			if texts != 1 {
				t.Errorf("%d answers; want 1", texts)
			}
		})
	}
}

// TestProgram_GetsAConversationInOrder checks that the events of a conversation that are due at
// once reach the harness in their order.
func TestProgram_GetsAConversationInOrder(t *testing.T) {
	s := newStub(accepting)
	withFixture(t, s, &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		var want, got []string
		for i := range 40 {
			m := by(post(fmt.Sprint("e", i), "well?"), fmt.Sprint("u", i), "human")
			m.Mentions = []string{"agent:lead"}
			w.say(m)
			want = append(want, m.SourceID)
		}
		w.sleep(10 * time.Second)
		for _, turn := range s.seen() {
			got = append(got, turn.Event.EventID)
		}
		equal(t, "deliveries", got, want)
	})
}
