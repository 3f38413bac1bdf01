package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// An Outcome says what happened to a message for a specific addressee.
type Outcome string

// The outcomes of a message.
const (
	Received Outcome = "received" // it is safe with the addressee
	Absent   Outcome = "absent"   // the peer is not on the bus
	Left     Outcome = "left"     // the peer went away before it answered
	Declined Outcome = "declined" // the peer failed, or did not answer
	Rejected Outcome = "rejected" // the peer read it and refused it
	Refused  Outcome = "refused"  // the bus will never accept it
	Unsent   Outcome = "unsent"   // the bus was not reached, or its answer was lost
)

// An UndeliveredError means that the addressee of a message does not have it.
type UndeliveredError struct {
	Outcome        Outcome
	droppable      bool
	mayHaveArrived bool
	err            error
}

// Error says which peer did not take the message, and why.
func (u *UndeliveredError) Error() string { return u.err.Error() }

// Unwrap returns the error of Send, if Send failed.
func (u *UndeliveredError) Unwrap() error { return u.err }

// Permanent reports whether another attempt would fail in the same way.
func (u *UndeliveredError) Permanent() bool { return u.Outcome == Refused || u.Outcome == Rejected }

// MayHaveArrived reports whether the addressee may have received the message although it did not
// answer. Another attempt may duplicate it.
func (u *UndeliveredError) MayHaveArrived() bool { return u.mayHaveArrived }

// Droppable reports whether nobody needs the message. That holds for command lines that have
// ended: their identities do not come back.
func (u *UndeliveredError) Droppable() bool { return u.droppable }

// OutcomeOf returns the outcome of a message whose attempt ended with err.
func OutcomeOf(err error) Outcome {
	var u *UndeliveredError
	switch {
	case err == nil:
		return Received
	case errors.As(err, &u):
		return u.Outcome
	}
	return Unsent
}

// Deliver sends a message and classifies the answer. Nil means that the topic's addressee has the
// message. attempt counts from 1.
func (p *Peer) Deliver(ctx context.Context, topic protocol.Topic, attempt int, m protocol.Message) error {
	result, err := p.Send(ctx, topic, m)
	return Classify(topic, attempt, result, err)
}

// Classify returns nil if the topic's addressee has the message after a Send, and otherwise an
// *UndeliveredError. A topic that is not an identity has no addressee; then it is enough that the
// bus accepted the message (see ClassifyAny). Other subscribers of the topic do not matter.
func Classify(topic protocol.Topic, attempt int, result protocol.SendResult, err error) error {
	u := classifySend(result, err)
	if u == nil && protocol.IsIdentity(topic) {
		u = classifyAddressee(topic, result)
	}
	if u == nil {
		return nil
	}
	u.droppable = protocol.RoleOf(protocol.PeerID(topic)) == protocol.RoleCLI && isDroppable(u.Outcome, attempt)
	if u.droppable && u.Outcome == Absent {
		u.err = fmt.Errorf("%s has left; command lines do not come back", topic)
	}
	return u
}

// ClassifyAny returns nil if any subscriber of the topic has the message, and otherwise an
// *UndeliveredError.
func ClassifyAny(topic protocol.Topic, result protocol.SendResult, err error) error {
	switch u := classifySend(result, err); {
	case u != nil:
		return u
	case result.DeliveredTo > 0:
		return nil
	case len(result.Failures) > 0:
		return failure(topic, &result.Failures[0])
	}
	return undelivered(Absent, "nobody on the bus listens to %s", topic)
}

func isDroppable(r Outcome, attempt int) bool {
	return r == Refused || r == Rejected || r == Absent && attempt >= absences
}

func undelivered(r Outcome, format string, args ...any) *UndeliveredError {
	return &UndeliveredError{Outcome: r, err: fmt.Errorf(format, args...)}
}

// classifySend returns nil if the bus accepted the message.
func classifySend(result protocol.SendResult, err error) *UndeliveredError {
	var refused *jsonrpc.Error
	rate := func(f protocol.Failure) bool { return f.Status == protocol.OutcomeRate }
	switch i := slices.IndexFunc(result.Failures, rate); {
	case err == nil && i >= 0:
		return undelivered(Unsent, "the bus does not take it now: %s", result.Failures[i].Error)
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Code != protocol.CodeInternal &&
		refused.Code != protocol.CodeNotInitialized:
		return undelivered(Refused, "the bus refuses it: %w", err)
	}
	return &UndeliveredError{Outcome: Unsent, err: err}
}

// classifyAddressee returns nil if the addressee has the message. If the bus does not report the
// addressee, DeliveredTo decides.
func classifyAddressee(topic protocol.Topic, result protocol.SendResult) *UndeliveredError {
	own := failureOf(protocol.PeerID(topic), result.Failures)
	switch {
	case result.Addressee == protocol.AddresseeOK:
		return nil
	case result.Addressee == protocol.AddresseeAbsent:
		return undelivered(Absent, "%s is not on the bus", topic)
	case own != nil:
		return failure(topic, own)
	case result.Addressee == protocol.AddresseeFailed, result.DeliveredTo == 0 && len(result.Failures) > 0:
		return undelivered(Declined, "%s did not take it", topic)
	case result.DeliveredTo == 0:
		return undelivered(Absent, "%s is not on the bus", topic)
	}
	return nil
}

// failureOf returns the failure of the addressee, or of the bridge that represents it, or nil.
func failureOf(addressee protocol.PeerID, failures []protocol.Failure) *protocol.Failure {
	var bridge *protocol.Failure
	for i := range failures {
		f := &failures[i]
		if f.Peer == addressee {
			return f
		}
		if protocol.MaySendForFamily(f.Peer) && f.Peer.Family() == addressee.Family() {
			bridge = f
		}
	}
	return bridge
}

func failure(topic protocol.Topic, f *protocol.Failure) *UndeliveredError {
	switch f.Status {
	case protocol.OutcomeRejected:
		return undelivered(Rejected, "%s refused it: %s", f.Peer, f.Error)
	case protocol.OutcomeOffline:
		u := undelivered(Left, "%s left before it took the message", f.Peer)
		u.mayHaveArrived = f.Written
		return u
	}
	u := undelivered(Declined, "%s did not take it: %s %s", topic, f.Status, f.Error)
	u.mayHaveArrived = f.Written
	return u
}
