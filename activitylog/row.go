package activitylog

import (
	"time"

	"hubbub/protocol"
)

// A Row is one line of the log before it is written. An empty string is stored as NULL, except
// MessageID, which is stored as an empty string.
//
// Payload must be JSON text, and neither it nor any string may change after the
// row is appended: the log keeps them, without a copy, until they are committed.
type Row struct {
	At        int64 // unix time in microseconds
	Event     Event
	MessageID string // '' for rows without a message
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
	File  int64 // the file that holds its first row; see database.file
	First int64 // id of that row
	Hash  uint64
	Begun bool // that row is its SendStart row

	Commit int64 // the last commit with a leaf of it; see leafBuilder
	Leaf   int32 // index of the leaf in that commit
}

// Entry returns the row as a Reader would return it under that id, without Type and From.
func (r *Row) Entry(id int64) Entry {
	return Entry{
		ID: id, TS: protocol.FormatTime(time.UnixMicro(r.At)), Event: r.Event.String(), MessageID: r.MessageID,
		RPCID: r.RPCID,
		Actor: r.Actor, Topic: r.Topic, Status: r.Status, Payload: r.Payload, Error: r.Error,
	}
}
