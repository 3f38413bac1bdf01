package activitylog

import "fmt"

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

// ParseEvent returns the event with that name. It returns false if there is none.
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
