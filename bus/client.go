package bus

import (
	"fmt"
	"sync/atomic"
	"time"

	"hubbub/bus/grant"
	"hubbub/protocol"
)

// A client is the holder of a credential, or anyone on an open bus.
type client struct {
	credential atomic.Pointer[grant.Credential] // nil if the bus is open
	usage      *usage                           // of the credential
	pause      time.Duration                    // of the reader before its next read; only the reader uses it
}

// granted returns the credential, or nil if the bus is open.
func (c *client) granted() *grant.Credential { return c.credential.Load() }

// chargeOverhead charges the credential for work that is neither a message nor a change of
// the session.
func (c *client) chargeOverhead(at time.Time) { c.pause = max(c.pause, c.usage.chargeOverhead(at)) }

// anyName allows a client of an open bus every name.
var anyName = []string{"*"}

// vouchedNames returns the names that the bus vouches for with a message: those that the sender's
// credential grants. Only requests to the broker need them.
func (c *client) vouchedNames(m *protocol.Send) []string {
	if m.Type != protocol.TypeCollabRequest {
		return nil
	}
	if granted := c.granted(); granted != nil {
		return granted.Names
	}
	return anyName
}

// mayBe returns nil if the client may use an identity, or the reason why not.
func (c *client) mayBe(id protocol.PeerID) error {
	if granted := c.granted(); granted != nil && !granted.MayBe(id) {
		return fmt.Errorf("the credential %q does not grant the identity %q (--identity of hubbub token create)",
			granted.Name, id)
	}
	return nil
}

// maySubscribe returns nil if the client may subscribe to a pattern, or the reason why not.
func (c *client) maySubscribe(p protocol.Pattern) error {
	if granted := c.granted(); granted != nil && !granted.MaySubscribe(p) {
		return fmt.Errorf("the credential %q does not grant the subscription %q (--subscribe of hubbub token create)",
			granted.Name, p)
	}
	return nil
}
