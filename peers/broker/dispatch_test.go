package broker

import (
	"testing"

	"hubbub/protocol"
)

// Only an addressee, or the bridge that speaks for it, says that it does not want
// a message: others may listen too.
func TestWhoRejects(t *testing.T) {
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
		if got := rejectedBy(result, tt.to); got != tt.want {
			t.Errorf("to %s, %s by %s, addressee %s: %t", tt.to, tt.status, tt.by, tt.addressee, got)
		}
	}
}
