package bustest_test

import (
	"net"
	"testing"

	"hubbub/bus/bustest"
)

func TestFreeAddress_IsKeptUntilTheTestEnds(t *testing.T) {
	var addr string
	seen := map[string]bool{}
	t.Run("during", func(t *testing.T) {
		for range 200 {
			addr = bustest.FreeAddress(t)
			if seen[addr] {
				t.Fatalf("%s was returned twice", addr)
			}
			seen[addr] = true
		}
		if mark, err := net.ListenPacket("udp", addr); err == nil {
			mark.Close()
			t.Errorf("another process could take %s", addr)
		}
		for range 2 { // a program that is started again finds it free
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	})
	mark, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatalf("%s is still marked: %v", addr, err)
	}
	mark.Close()
}
