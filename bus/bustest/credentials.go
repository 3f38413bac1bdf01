package bustest

import (
	"testing"

	"hubbub/bus"
	"hubbub/bus/grant"
)

// StartWithCredentials is Start for a bus with credentials. Peers need a token and connect to
// its URL, as JoinWithToken does. Join has no token, so the bus refuses its peers.
func StartWithCredentials(t testing.TB, file *grant.File) *Bus {
	t.Helper()
	return Start(t, &bus.Options{Credentials: file})
}
