package chorus

import (
	"encoding/json"
	"errors"
	"sync"

	"hubbub/peers/outbox"
)

// A trouble is what became of the last event of a channel if its callback did not
// take it.
type trouble struct {
	inbound int64 // the message whose callback it is
	silent  bool  // it did not answer, and each further event would wait as long
}

// maxTroubles bounds the channels whose trouble is remembered. With one more, all
// are forgotten, and found out again.
const maxTroubles = 1000

// troubles are those of all channels. A channel's events go out one after the
// other, so what comes after must not wait for each report of activity to a
// callback that fails. After a restart it is found out again.
type troubles struct {
	mu        sync.Mutex
	ofChannel map[string]trouble
}

// of returns the trouble with the callback of a message, and whether there is any.
func (t *troubles) of(channel string, inbound int64) (trouble, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.ofChannel[channel]
	return last, ok && last.inbound == inbound
}

// note records what became of an event.
func (t *troubles) note(item outbox.Item, outcome outbox.State) {
	var p pendingEvent
	if json.Unmarshal(item.Body, &p) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch outcome {
	case outbox.StateSent:
		delete(t.ofChannel, item.Destination)
	case outbox.StateDead, outbox.StateUnknown:
		if len(t.ofChannel) >= maxTroubles {
			clear(t.ofChannel)
		}
		t.ofChannel[item.Destination] = trouble{p.Inbound, outcome == outbox.StateUnknown}
	}
}

// errSilent is why a report is not sent.
var errSilent = errors.New("its callback did not answer the event before")

// isReport reports whether an event is a report of activity: no answer, no error, no
// lifecycle.
func (p *pendingEvent) isReport() bool {
	return p.Reply == "" && p.Event.Type != EventError && p.Event.Type != EventLifecycle
}
