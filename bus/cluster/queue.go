package cluster

import (
	"encoding/hex"
	"sync/atomic"
)

// maxQueued bounds the messages that wait for NATS, in bytes, because a slow connection must not
// fill the memory.
const maxQueued = 256 << 20

// An outgoing message waits to be sent.
type outgoing struct {
	subject string
	head    header
	body    []byte
}

// A sendQueue holds the messages that wait for NATS. Its methods never block: they return
// false if the queue is full.
type sendQueue struct {
	prefix   string // of every subject
	messages chan outgoing
	bytes    atomic.Int64 // of waiting messages, and of the one being sent
}

func newSendQueue(prefix string, size int) *sendQueue {
	return &sendQueue{prefix: prefix, messages: make(chan outgoing, size)}
}

// broadcast queues a message for every bus.
func (q *sendQueue) broadcast(head header, body []byte) bool {
	return q.enqueue(outgoing{q.subjectOfAll(), head, body})
}

// sendTo queues a message for the bus with that name.
func (q *sendQueue) sendTo(name string, head header, body []byte) bool {
	return q.enqueue(outgoing{q.subjectOf(name), head, body})
}

func (q *sendQueue) enqueue(o outgoing) bool {
	size := int64(len(o.body))
	if q.bytes.Add(size) <= maxQueued {
		select {
		case q.messages <- o:
			return true
		default:
		}
	}
	q.bytes.Add(-size)
	return false
}

// subjectOfAll returns the subject to which every bus subscribes, and subjectOf that of one bus.
func (q *sendQueue) subjectOfAll() string         { return q.prefix + ".all" }
func (q *sendQueue) subjectOf(name string) string { return q.prefix + ".to." + encodeName(name) }

// encodeName encodes any name as a part of a subject.
func encodeName(name string) string { return hex.EncodeToString([]byte(name)) }
