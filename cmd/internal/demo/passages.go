package demo

import (
	"encoding/json"

	"hubbub/protocol"
)

// maxOpen bounds the passages that wait for their last row.
const maxOpen = 4096

// passages puts rows of the activity log together, message by message.
type passages struct {
	open map[string]*passage
}

// add takes the next row. It returns a passage when its last row has come.
func (p *passages) add(r row) *passage {
	if p.open == nil || len(p.open) > maxOpen {
		p.open = map[string]*passage{}
	}
	if r.event == "send_start" {
		x := &passage{first: r.id, topic: protocol.Topic(r.topic), started: r.at}
		if err := json.Unmarshal([]byte(r.payload), &x.message); err != nil {
			return nil
		}
		p.open[r.messageID] = x
	}
	x := p.open[r.messageID]
	if x == nil {
		return nil
	}
	x.rows, x.last = x.rows+1, r.id
	switch r.event {
	case "process_finish":
		x.targets = append(x.targets, target{peer: protocol.PeerID(r.actor), status: r.status, err: r.err})
	case "send_finish":
		x.status, x.took = r.status, r.at.Sub(x.started)
		delete(p.open, r.messageID)
		return x
	}
	return nil
}
