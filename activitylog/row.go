package activitylog

import (
	"fmt"
	"time"

	"hubbub/protocol"
)

// An Event says what a row records. The zero value is not an event.
type Event uint8

// The events. The first four are required once per message (send) or once per
// message and target (process); the others belong to the bus itself.
const (
	SendStart Event = iota + 1
	ProcessStart
	ProcessFinish
	SendFinish
	Rejected
	PeerConnected
	PeerDisconnected
	Subscribe
	Unsubscribe
	LogGap
	LogPruned
)

var eventNames = [...]string{
	SendStart:        "send_start",
	ProcessStart:     "process_start",
	ProcessFinish:    "process_finish",
	SendFinish:       "send_finish",
	Rejected:         "rejected",
	PeerConnected:    "peer_connected",
	PeerDisconnected: "peer_disconnected",
	Subscribe:        "subscribe",
	Unsubscribe:      "unsubscribe",
	LogGap:           "log_gap",
	LogPruned:        "log_pruned",
}

// String returns the name of the event as the column `event` holds it.
func (e Event) String() string {
	if e == 0 || int(e) >= len(eventNames) {
		return fmt.Sprintf("event(%d)", uint8(e))
	}
	return eventNames[e]
}

// ParseEvent returns the event of that name; false if there is none.
func ParseEvent(name string) (Event, bool) {
	for e, n := range eventNames {
		if e > 0 && n == name {
			return Event(e), true
		}
	}
	return 0, false
}

// The statuses of send rows (those of process rows are protocol.Outcome). Start
// rows have StatusStart.
const (
	StatusStart        = "start"
	StatusOK           = "ok"
	StatusNoSubscriber = "no_subscriber"
	StatusPartial      = "partial"
	StatusFailed       = "failed"
)

// A Row is one line of the log before it is written. An empty string is stored
// as NULL, except MessageID, which is stored as ”.
//
// Payload must be JSON text, and neither it nor any string may change after the
// row is appended: the log keeps them, without a copy, until they are committed.
type Row struct {
	At        int64 // unix time in microseconds
	Event     Event
	MessageID string // '' where there is no message
	RPCID     string // JSON-RPC id on this leg, without quotes
	Actor     string // the sender in send rows, the target in process rows
	Topic     string
	Status    string
	Payload   []byte // the payload, result or error, as JSON
	Error     string

	// Of is the Sending that the row belongs to, shared by all its rows; nil if unknown.
	Of *Sending
}

// A Sending joins the rows of one message that was sent once. All have the same MessageID and
// Topic; those of SendStart and SendFinish also have the same RPCID and Actor. The log stores
// these values once. The zero Sending is ready to use; only the log accesses its fields.
type Sending struct {
	file  int64 // which file has its first row; see database.file
	first int64 // id of that row
	hash  uint64
	begun bool // that row is its SendStart

	commit int64 // the last one with a leaf of it; see leafBuilder
	leaf   int32 // which one of that commit
}

// Entry returns the row as a Reader would return it under that id, without Type and From.
func (r *Row) Entry(id int64) Entry {
	return Entry{
		ID: id, TS: protocol.FormatTime(time.UnixMicro(r.At)), Event: r.Event.String(), MessageID: r.MessageID,
		RPCID: r.RPCID,
		Actor: r.Actor, Topic: r.Topic, Status: r.Status, Payload: r.Payload, Error: r.Error,
	}
}

// rowOverhead is what a row costs in memory beside its strings, in bytes.
const rowOverhead = 152

// sizeOf is what rows count against Options.QueueBytes.
func sizeOf(rows []Row) (size int) {
	for i := range rows {
		size += rows[i].size()
	}
	return size
}

// size is what the row counts against Options.QueueBytes.
func (r *Row) size() int {
	return rowOverhead + len(r.MessageID) + len(r.RPCID) + len(r.Actor) + len(r.Topic) +
		len(r.Status) + len(r.Payload) + len(r.Error)
}
