package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a loopback address for a program that listens later, or again and again.
// Its port is below the range that systems assign to connections. Until the test ends, no other
// call returns it, in this process or another: a UDP socket on the same port marks it.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		mark, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			mark.Close() //nolint:errcheck // nothing was sent
			continue
		}
		l.Close()                          //nolint:errcheck // nothing was accepted
		t.Cleanup(func() { mark.Close() }) //nolint:errcheck // nothing was sent
		return addr
	}
	t.Fatal("no port is free")
	return ""
}
