package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// A Outcome is what became of a message that somebody in particular must have.
type Outcome string

// What may become of a message.
const (
	Received Outcome = "received" // it is safe with the addressee
	Absent   Outcome = "absent"   // no such peer is on the bus now
	Left     Outcome = "left"     // the peer went away before it answered
	Declined Outcome = "declined" // the peer is there and failed, or did not answer
	Rejected Outcome = "rejected" // the peer read it and does not want it
	Refused  Outcome = "refused"  // the bus will never take it
	Unsent   Outcome = "unsent"   // the bus could not be asked, or its answer is lost
)

// An UndeliveredError is a message that its addressee does not have, as Judge found.
type UndeliveredError struct {
	Outcome        Outcome
	droppable      bool
	mayHaveArrived bool
	err            error
}

// Error says who did not take the message, and why.
func (u *UndeliveredError) Error() string { return u.err.Error() }

// Unwrap returns the error of Send, if that failed.
func (u *UndeliveredError) Unwrap() error { return u.err }

// Permanent reports whether another attempt will end alike.
func (u *UndeliveredError) Permanent() bool { return u.Outcome == Refused || u.Outcome == Rejected }

// MayHaveArrived reports whether the addressee may have the message although it did not answer:
// another attempt may double it.
func (u *UndeliveredError) MayHaveArrived() bool { return u.mayHaveArrived }

// Droppable reports whether nobody misses the message. It is so for command lines:
// they end, or do not listen to what becomes of what they sent, and their
// identities do not come back.
func (u *UndeliveredError) Droppable() bool { return u.droppable }

// OutcomeOf returns what became of a message whose attempt ended with err.
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

// Deliver sends a message and judges the answer: nil means that the topic's addressee
// has it. attempt counts from 1.
func (p *Peer) Deliver(ctx context.Context, topic protocol.Topic, attempt int, m protocol.Message) error {
	result, err := p.Send(ctx, topic, m)
	return Classify(topic, attempt, result, err)
}

// Classify says what the outcome of a Send means for the topic's addressee: nil, or
// an *Undelivered. A topic that is not written like an identity has no addressee;
// it is enough that the bus took the message (see ClassifyAny). Others may listen to
// the topic, too; what became of their copies does not count.
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

// ClassifyAny says whether somebody has a message, whoever listens to the topic: nil,
// or an *Undelivered.
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

// classifySend returns nil if the bus took the message.
func classifySend(result protocol.SendResult, err error) *UndeliveredError {
	var refused *jsonrpc.Error
	rate := func(f protocol.Failure) bool { return f.Status == protocol.OutcomeRate }
	switch i := slices.IndexFunc(result.Failures, rate); {
	case err == nil && i >= 0:
		return undelivered(Unsent, "the bus does not take it now: %s", result.Failures[i].Error)
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Code != protocol.CodeInternal && refused.Code != protocol.CodeNotInitialized:
		return undelivered(Refused, "the bus refuses it: %w", err)
	}
	return &UndeliveredError{Outcome: Unsent, err: err}
}

// classifyAddressee returns nil if the addressee has the message. A bus that does not
// tell of the addressee is judged by deliveredTo.
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

// failureOf returns the failure of the addressee, or of the bridge that speaks for
// it; nil if there is none.
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
