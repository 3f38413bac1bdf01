package subprocess_test

import (
	"syscall"
	"testing"
)

func TestProcess_DiesWithItsOwner(t *testing.T) {
	owner := start("owner")
	child := readPid(t, owner.Stdout)
	t.Cleanup(func() { syscall.Kill(-child, syscall.SIGKILL) }) // what the program left behind
	if err := syscall.Kill(owner.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	owner.Wait() //nolint:errcheck // it was killed
	awaitDeath(t, child)
}
