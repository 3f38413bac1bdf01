package chorus

import (
	"time"

	"hubbub/protocol"
)

// The steps of a channel on its way to an agent: the same as a Telegram chat's.
type step string

const (
	stepRest      step = "rest"      // nothing waits
	stepSpawn     step = "spawn"     // ask the spawner for an agent
	stepAwait     step = "await"     // the spawner has the request; wait for route_assigned
	stepConfigure step = "configure" // tell the agent whom it talks to
	stepForward   step = "forward"   // hand the oldest message over
)

// askAgain is how long a spawn request that was taken may stay without a
// route_assigned before it is sent again; the spawner answers every one the same.
const askAgain = 10 * time.Second

// patience is how long a service waits for an agent before it is told.
const patience = 30 * time.Second

// A standing is what is known of a channel when its next step is chosen.
type standing struct {
	agent      protocol.PeerID // empty: none assigned
	configured bool
	waiting    bool          // messages wait
	asked      bool          // a spawn request was taken
	sinceAsked time.Duration // since then
}

// nextStep says what a channel does next, and for stepAwait for how long at
// most. It is pure.
func nextStep(s standing) (step, time.Duration) {
	switch {
	case !s.waiting:
		return stepRest, 0
	case s.agent == "" && s.asked && s.sinceAsked < askAgain:
		return stepAwait, askAgain - s.sinceAsked
	case s.agent == "":
		return stepSpawn, 0
	case !s.configured:
		return stepConfigure, 0
	default:
		return stepForward, 0
	}
}

// Delays between failed steps: they double from the first to the last.
const (
	firstDelay = 500 * time.Millisecond
	lastDelay  = 10 * time.Second
)

// stepDelay is how long to wait after so many failures in a row.
func stepDelay(failures int) time.Duration {
	d := firstDelay << min(max(failures-1, 0), 10)
	return min(d, lastDelay)
}

// A reception is what became of a message that had one addressee.
type reception string

const (
	received reception = "received" // it is safe with the addressee
	absent   reception = "absent"   // there is no such peer now
	declined reception = "declined" // the peer is there and did not take it
	refused  reception = "refused"  // the bus will never take it
	unsent   reception = "unsent"   // the bus could not be asked
)

// receptionOf judges the answer to a sendMessage whose topic is an identity. A
// bus that does not tell of the addressee is judged by deliveredTo.
func receptionOf(res protocol.SendResult) reception {
	switch {
	case res.Addressee == protocol.AddresseeOK:
		return received
	case res.Addressee == protocol.AddresseeFailed:
		return declined
	case res.Addressee == protocol.AddresseeAbsent:
		return absent
	case res.DeliveredTo > 0:
		return received
	case len(res.Failures) > 0:
		return declined
	default:
		return absent
	}
}
