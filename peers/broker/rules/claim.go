package rules

import (
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// IsHeldAt reports whether somebody holds a claim at a time.
func IsHeldAt(c *collab.Claim, now time.Time) bool {
	return c.State == collab.ClaimHeld && now.Before(collab.ParseTime(c.ExpiresAt))
}

// MustBeEventID refuses an event id that is blank or too long.
func MustBeEventID(id string) {
	switch {
	case strings.TrimSpace(id) == "":
		FailInvalid("eventId is required")
	case len(id) > 2*MaxName:
		FailInvalid("eventId has at most %d bytes", 2*MaxName)
	}
}

// Without returns a list without an identity.
func Without(list []protocol.PeerID, id protocol.PeerID) []protocol.PeerID {
	return Filter(list, func(x protocol.PeerID) bool { return x != id })
}
