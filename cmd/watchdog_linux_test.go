package cmd_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestWatchdog_IsFedByMainLoops starts each program as systemd does and waits for two watchdog
// notifications of each. Agents send none: systemd does not watch them.
func TestWatchdog_IsFedByMainLoops(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) }) //nolint:errcheck // the system clears it too
	socket := filepath.Join(folder, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1) }); failed != nil || err != nil {
		t.Fatal(failed, err) // needed to know which program a notification comes from
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "20000") // shorter than any program's pulse, so that each is forwarded
	s := newFixture(t)
	everyProgram(s)
	signs := map[int32]int{} // by process ID
	for _, p := range s.run {
		signs[int32(p.cmd.Process.Pid)] = 0
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for missing := len(s.run); missing > 0; {
		buf, control := make([]byte, 100), make([]byte, 100)
		n, nc, _, _, err := conn.ReadMsgUnix(buf, control)
		if err != nil {
			t.Fatalf("%v; signs of life by process: %v", err, signs)
		}
		messages, err := syscall.ParseSocketControlMessage(control[:nc])
		if err != nil || len(messages) != 1 {
			t.Fatalf("%d control messages, %v", len(messages), err)
		}
		from, err := syscall.ParseUnixCredentials(&messages[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, ours := signs[from.Pid]; !ours {
			t.Errorf("%q came from process %d, which is none of %v", buf[:n], from.Pid, signs)
		}
		if string(buf[:n]) == "WATCHDOG=1" {
			if signs[from.Pid]++; signs[from.Pid] == 2 {
				missing--
			}
		}
	}
}
