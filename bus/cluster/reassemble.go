package cluster

import "time"

// Limits of messages that arrive in parts.
const (
	maxPartial  = 256 << 20 // bytes of one message
	maxPartials = 1024      // incomplete messages
)

// A reassembler joins the messages that arrive in parts.
type reassembler struct{ parts map[partKey]*partial }

type partKey struct {
	from, instance, kind string
	id                   uint64
}

// A partial is a message with missing parts.
type partial struct {
	body  []byte
	next  int
	since time.Time // when the last part arrived
}

// add adds one part of a message. Parts arrive in order. With the last one, it returns the
// message and true.
func (r *reassembler) add(h header, body []byte) ([]byte, bool) {
	key := partKey{h.From, h.Instance, h.Kind, h.ID}
	p := r.parts[key]
	if h.Part == 0 && len(r.parts) < maxPartials {
		p = &partial{}
		r.parts[key] = p
	}
	if p == nil || p.next != h.Part || len(p.body)+len(body) > maxPartial {
		delete(r.parts, key)
		return nil, false
	}
	p.body = append(p.body, body...)
	p.next++
	p.since = time.Now()
	if p.next < h.Parts {
		return nil, false
	}
	delete(r.parts, key)
	return p.body, true
}

// expire removes the messages without a new part since the deadline.
func (r *reassembler) expire(deadline time.Time) {
	for key, p := range r.parts {
		if p.since.Before(deadline) {
			delete(r.parts, key)
		}
	}
}
