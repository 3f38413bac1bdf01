package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/bus/cluster"
	"hubbub/protocol/transcript"
)

// partial is a transcript of a cluster: agent:x is at the bus that is cut off before the
// connection d is opened, the others are at another one.
const partial = `a result says for which part of the cluster it speaks

-- a > --
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:x","subscriptions":[{"topic":"agent:x"}]}}
-- a < --
{"jsonrpc":"2.0","id":1,"result":{"$more":1,"serverId":"$string","subscribed":1}}
-- c > --
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"tg:1"}}
-- c < --
{"jsonrpc":"2.0","id":1,"result":{"$more":1,"serverId":"$string"}}
-- c > --
{"jsonrpc":"2.0","id":2,"method":"sendMessage","params":{"topic":"news","payload":{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello"}}}}
-- c < --
{"jsonrpc":"2.0","id":2,"result":{"accepted":true,"messageId":"m1","deliveredTo":0}}
-- d connects --
-- c > --
{"jsonrpc":"2.0","id":3,"method":"sendMessage","params":{"topic":"agent:x","payload":{"messageId":"m2","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello"}}}}
-- c < --
{"jsonrpc":"2.0","id":3,"result":{"accepted":true,"messageId":"m2","deliveredTo":0,"failures":[{"peer":"agent:x","status":"offline","error":"$string"}],"addressee":"failed","partial":true,"missing":["away"]}}
-- c > --
{"jsonrpc":"2.0","id":4,"method":"sendMessage","params":{"topic":"news","once":true,"payload":{"messageId":"m3","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello"}}}}
-- c < --
{"jsonrpc":"2.0","id":4,"result":{"accepted":true,"messageId":"m3","deliveredTo":0,"partial":true,"missing":["away"]}}
-- a silent --
`

// isolatedTranscript is one of a bus that has not reached NATS.
const isolatedTranscript = `a bus that cannot know of others says so

-- a > --
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:x","subscriptions":[{"topic":"agent:x"}]}}
-- a < --
{"jsonrpc":"2.0","id":1,"result":{"$more":1,"serverId":"$string","subscribed":1}}
-- c > --
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"tg:1"}}
-- c < --
{"jsonrpc":"2.0","id":1,"result":{"$more":1,"serverId":"$string"}}
-- c > --
{"jsonrpc":"2.0","id":2,"method":"sendMessage","params":{"topic":"agent:x","payload":{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello"}}}}
-- a < --
{"jsonrpc":"2.0","id":"$p1","method":"processMessage","params":{"topic":"agent:x","payload":{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello"}}}}
-- a > --
{"jsonrpc":"2.0","id":"$p1","result":{"processed":true}}
-- c < --
{"jsonrpc":"2.0","id":2,"result":{"accepted":true,"messageId":"m1","deliveredTo":1,"addressee":"ok","partial":true,"missing":[]}}
`

// TestTranscripts_OfPartition runs them over one bus, two and three.
func TestTranscripts_OfPartition(t *testing.T) {
	url := startNATS(t, 0)
	for count, text := range map[int]string{1: isolatedTranscript, 2: partial, 3: partial} {
		c, err := transcript.Parse("partial", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		quick := &cluster.Options{Prefix: fmt.Sprint("of", count), Heartbeat: 100 * time.Millisecond, SilentAfter: 2 * time.Second}
		cut := startProxy(t, url.Addr().String())
		names, urls := []string{"away", "here", "third"}, []string{"nats://" + cut.listener.Addr().String(), url.ClientURL(), url.ClientURL()}
		if count == 1 {
			urls[0] = "nats://127.0.0.1:1"
		}
		var nodes []*node
		for i := range count {
			nodes = append(nodes, joinBy(t, cluster.New(urls[i:i+1], names[i], quick), names[i], nil))
		}
		if count > 1 {
			settle(t, nodes...)
		}
		dialled := 0
		err = c.Run(t.Context(), func(ctx context.Context) (transcript.Conn, error) {
			n := nodes[min(dialled, 1, count-1)]
			if dialled++; dialled == 2 && count > 1 {
				settle(t, nodes...)
			}
			if dialled == 3 {
				cut.freeze(true)
				waitFor(t, "the bus is not missed", func() bool {
					return strings.Contains(fmt.Sprint(nodes[1].part.Missing()), "away") && len(nodes[1].part.Status().(map[string]any)["buses"].([]string)) == count-1
				})
			}
			return transcript.WebSocket(n.URL(), "")(ctx)
		})
		if err != nil {
			t.Errorf("over %d buses: %v", count, err)
		}
	}
}
