package peer

import (
	"errors"
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

func TestClassify(t *testing.T) {
	failed := func(addressee protocol.Addressee, failures ...protocol.Failure) protocol.SendResult {
		return protocol.SendResult{Accepted: true, Addressee: addressee, Failures: failures}
	}
	other := protocol.Failure{Peer: "cli:watcher", Status: protocol.OutcomeRejected, Error: "not mine"}
	for _, tt := range []struct {
		name     string
		topic    protocol.Topic
		attempt  int
		result   protocol.SendResult
		err      error
		want     Outcome
		needless bool
	}{
		{name: "taken", topic: "agent:x", result: failed(protocol.AddresseeOK, other), want: Received},
		{name: "absent", topic: "agent:x", result: failed(protocol.AddresseeAbsent, other), want: Absent},
		{name: "rejected", topic: "agent:x", result: failed(protocol.AddresseeFailed, other,
			protocol.Failure{Peer: "agent:x", Status: protocol.OutcomeRejected, Error: "no"}), want: Rejected},
		{name: "rejected by the bridge that speaks for it", topic: "tg:7", result: failed(protocol.AddresseeFailed,
			protocol.Failure{Peer: "tg:42", Status: protocol.OutcomeRejected}), want: Rejected},
		{name: "another of its family does not speak for it", topic: "agent:x", result: failed(protocol.AddresseeFailed,
			protocol.Failure{Peer: "agent:y", Status: protocol.OutcomeRejected}), want: Declined},
		{name: "its own word before its bridge's", topic: "tg:7", result: failed(protocol.AddresseeFailed,
			protocol.Failure{Peer: "tg:42", Status: protocol.OutcomeRejected}, protocol.Failure{Peer: "tg:7", Status: protocol.OutcomeTimeout}), want: Declined},
		{name: "left", topic: "agent:x", result: failed(protocol.AddresseeFailed, protocol.Failure{Peer: "agent:x", Status: protocol.OutcomeOffline}), want: Left},
		{name: "timeout", topic: "agent:x", result: failed(protocol.AddresseeFailed, protocol.Failure{Peer: "agent:x", Status: protocol.OutcomeTimeout}), want: Declined},
		{name: "its failure was cut from the list", topic: "agent:x", result: failed(protocol.AddresseeFailed, other), want: Declined},
		{name: "a bus that does not tell, taken", topic: "agent:x", result: protocol.SendResult{DeliveredTo: 1}, want: Received},
		{name: "a bus that does not tell, failed", topic: "agent:x", result: failed("", other), want: Declined},
		{name: "a bus that does not tell, absent", topic: "agent:x", want: Absent},
		{name: "no addressee", topic: "system:attention", want: Received},
		{name: "refused", topic: "agent:x", err: jsonrpc.Errorf(protocol.CodeInvalidParams, "not granted"), want: Refused},
		{name: "refused, no addressee", topic: "system:attention", err: jsonrpc.Errorf(protocol.CodeInvalidParams, "not granted"), want: Refused},
		{name: "too large", topic: "agent:x", err: &TooLargeError{}, want: Refused},
		{name: "the log cannot take it now", topic: "agent:x", err: jsonrpc.Errorf(protocol.CodeInternal, "the log"), want: Unsent},
		{name: "a bound of the credential", topic: "agent:x", result: failed(protocol.AddresseeFailed,
			protocol.Failure{Peer: "agent:me", Status: protocol.OutcomeRate}), want: Unsent},
		{name: "a bound of the credential, no addressee", topic: "system:attention",
			result: failed("", protocol.Failure{Peer: "agent:me", Status: protocol.OutcomeRate}), want: Unsent},
		{name: "not connected", topic: "agent:x", err: ErrNotConnected, want: Unsent},

		{name: "a command line that lost its connection", topic: "cli:a", attempt: 2, result: failed(protocol.AddresseeAbsent), want: Absent},
		{name: "a command line that has left", topic: "cli:a", attempt: 3, result: failed(protocol.AddresseeAbsent), want: Absent, needless: true},
		{name: "a command line that does not listen", topic: "cli:a", attempt: 1, result: failed(protocol.AddresseeFailed,
			protocol.Failure{Peer: "cli:a", Status: protocol.OutcomeRejected}), want: Rejected, needless: true},
		{name: "a command line that may not be told", topic: "cli:a", attempt: 1, err: jsonrpc.Errorf(protocol.CodeInvalidParams, "not granted"),
			want: Refused, needless: true},
		{name: "a command line behind a bus that is away", topic: "cli:a", attempt: 9, err: ErrInterrupted, want: Unsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := Classify(tt.topic, tt.attempt, tt.result, tt.err)
			if got := OutcomeOf(err); got != tt.want {
				t.Fatalf("%v is %s, want %s", err, got, tt.want)
			}
			var u *UndeliveredError
			if errors.As(err, &u) && (u.Droppable() != tt.needless || u.Permanent() != (tt.want == Refused || tt.want == Rejected)) {
				t.Errorf("needless %v, permanent %v", u.Droppable(), u.Permanent())
			}
			if tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("%v does not hold its cause", err)
			}
		})
	}
}

func TestClassifyAny(t *testing.T) {
	for _, tt := range []struct {
		result protocol.SendResult
		err    error
		want   Outcome
	}{
		{protocol.SendResult{DeliveredTo: 1, Failures: []protocol.Failure{{Peer: "cli:a", Status: protocol.OutcomeTimeout}}}, nil, Received},
		{protocol.SendResult{}, nil, Absent},
		{protocol.SendResult{Failures: []protocol.Failure{{Peer: "agent:system", Status: protocol.OutcomeRejected}}}, nil, Rejected},
		{protocol.SendResult{}, ErrStopped, Unsent},
	} {
		if got := OutcomeOf(ClassifyAny(protocol.TopicSpawn, tt.result, tt.err)); got != tt.want {
			t.Errorf("%+v, %v is %s, want %s", tt.result, tt.err, got, tt.want)
		}
	}
}

// Only an addressee, or its bridge, can reject a message permanently: others may receive it too.
func TestRejection(t *testing.T) {
	for _, tt := range []struct {
		to, by    protocol.PeerID
		addressee protocol.Addressee
		status    protocol.Outcome
		want      bool
	}{
		{"agent:lead", "agent:lead", protocol.AddresseeFailed, protocol.OutcomeRejected, true},
		{"tg:42", "tg:bridge", protocol.AddresseeFailed, protocol.OutcomeRejected, true},
		{"chorus:ops.c", "chorus:gateway", protocol.AddresseeFailed, protocol.OutcomeRejected, true},
		{"agent:lead", "agent:other", protocol.AddresseeFailed, protocol.OutcomeRejected, false},
		{"cli:will", "cli:other", protocol.AddresseeFailed, protocol.OutcomeRejected, false},
		{"tg:42", "chorus:gateway", protocol.AddresseeFailed, protocol.OutcomeRejected, false},
		{"agent:lead", "agent:lead", protocol.AddresseeFailed, protocol.OutcomeTimeout, false},
		{"tg:42", "tg:other", protocol.AddresseeOK, protocol.OutcomeRejected, false},
	} {
		result := protocol.SendResult{Addressee: tt.addressee, Failures: []protocol.Failure{{Peer: tt.by, Status: tt.status}}}
		err := Classify(tt.to.Topic(), 1, result, nil)
		if got := OutcomeOf(err) == Rejected; got != tt.want {
			t.Errorf("to %s, %s by %s, addressee %s: %v", tt.to, tt.status, tt.by, tt.addressee, err)
		}
	}
}

// TestOutcome_SaysWhetherARetryMayDuplicate looks at failures with and without an
// answer that may be lost.
func TestOutcome_SaysWhetherARetryMayDuplicate(t *testing.T) {
	for _, status := range []protocol.Outcome{protocol.OutcomeOffline, protocol.OutcomeTimeout} {
		for _, written := range []bool{true, false} {
			r := protocol.SendResult{Addressee: protocol.AddresseeFailed, Failures: []protocol.Failure{{Peer: "agent:x", Status: status, Written: written}}}
			var u *UndeliveredError
			if err := Classify("agent:x", 1, r, nil); !errors.As(err, &u) || u.MayHaveArrived() != written || u.Permanent() {
				t.Errorf("%s, written %t: %v", status, written, err)
			}
		}
	}
}
