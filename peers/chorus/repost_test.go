package chorus_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	client "hubbub/peers/collab"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestADeliveryKeepsItsNameWhateverTheBrokerSays: a POST that was cut off is made again
// with the same message.id and callback, although the contract is another by then. Its
// receiver knows by them that the event is the same.
func TestADeliveryKeepsItsNameWhateverTheBrokerSays(t *testing.T) {
	t.Parallel()
	b, folder := bustest.Start(t, nil), filepath.Join(t.TempDir(), "chorus")
	impatient := func(o *chorus.Options) { o.StopTimeout = time.Millisecond }
	r := start(t, b, folder, impatient)
	outside := newReceiver(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	outside.responding(func(_ http.ResponseWriter, req *http.Request, n int) bool {
		if n == 0 {
			select {
			case <-hold:
			case <-req.Context().Done():
			}
		}
		return false
	})
	stopBroker := startBroker(t, b, filepath.Join(t.TempDir(), "broker.db"))
	will := askAs(t, b, "cli:will")
	r.add("ext", outside.url, chorus.AgentSettings{})
	waitFor(t, func() bool { return announced(t, will, "ext") })
	tg := b.Join(t, "tg:42", "tg:42")
	says(t, tg, "agent:ext", dm("e1", "hello?"))
	first := outside.next()
	if text := first.body["channel"].(map[string]any)["context"].(string); !strings.Contains(text, "How you work with others") {
		t.Fatalf("the context has no contract: %s", text)
	}
	r.stop()
	stopBroker()
	later := start(t, b, folder, impatient)
	again := outside.next()
	if got := again.body["message"].(map[string]any)["id"]; got != "e1" {
		t.Errorf("posted again as %v; want e1", got)
	}
	if was, is := secretOf(first), secretOf(again); was != is {
		t.Errorf("the callback ends with %s; want %s", is, was)
	}
	waitFor(t, func() bool { return tg.Send(t, "agent:ext", protocol.TypeTGMessage, dm("e2", "and?")).DeliveredTo == 1 })
	if next := outside.next(); next.body["message"].(map[string]any)["id"] != "e2" { // turns of a chat come in their order
		t.Errorf("posted next %s; want e2", next.raw)
	}
	if status, answer := post(t, later.url+"/callback/"+secretOf(first), `{"type":"message","content":"here"}`); status != http.StatusOK {
		t.Errorf("the callback: %d %s", status, answer)
	}
}

// announced reports whether the broker knows an agent.
func announced(t *testing.T, broker *client.Client, agent string) bool {
	t.Helper()
	page, err := collab.IdentityList.Ask(t.Context(), broker, collab.PageParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		if e, err := item.Read(); err == nil && e.LogicalAgentID == agent {
			return true
		}
	}
	return false
}

// secretOf returns the end of the callback of a POST.
func secretOf(c call) string {
	address := c.body["callback"].(string)
	return address[strings.LastIndex(address, "/")+1:]
}
