package demo

import (
	"encoding/json"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// A target is one delivery of a passage.
type target struct {
	peer   protocol.PeerID
	status string
}

// A passage is one message on its way through the bus: all rows about it.
type passage struct {
	first, last int64 // ids of its rows
	message     protocol.Message
	topic       protocol.Topic
	targets     []target
	took        time.Duration
	started     time.Time
}

// maxOpen bounds the passages that wait for their last row.
const maxOpen = 4096

// A key tells passages apart: one message may be sent to several topics.
type key struct{ messageID, topic string }

// passages puts rows of the activity log together, message by message.
type passages struct {
	open map[key]*passage
}

// add takes the next row. It returns a passage when its last row has come.
func (p *passages) add(r *activitylog.Entry) *passage {
	if p.open == nil || len(p.open) > maxOpen {
		p.open = map[key]*passage{}
	}
	k := key{r.MessageID, r.Topic}
	if r.Is(activitylog.SendStart) {
		x := &passage{first: r.ID, topic: protocol.Topic(r.Topic), started: r.Time()}
		if json.Unmarshal(r.Payload, &x.message) == nil {
			p.open[k] = x
		}
	}
	x := p.open[k]
	if x == nil {
		return nil
	}
	x.last = r.ID
	switch {
	case r.Is(activitylog.ProcessFinish):
		x.targets = append(x.targets, target{peer: protocol.PeerID(r.Actor), status: r.Status})
	case r.Is(activitylog.SendFinish):
		x.took = r.Time().Sub(x.started)
		delete(p.open, k)
		return x
	}
	return nil
}
