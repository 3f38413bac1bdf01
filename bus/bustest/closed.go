package bustest

import (
	"testing"

	"hubbub/bus"
	"hubbub/bus/grant"
)

// StartWithCredentials is Start for a bus with credentials. Peers need a token and connect
// to its URL, as those of JoinWithToken do; those of Join, which have none, are turned away.
func StartWithCredentials(t testing.TB, file *grant.File) *Bus {
	t.Helper()
	return Start(t, &bus.Options{Credentials: file})
}
