package tg

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestFiles_ListenOnlyLocally checks that nothing listens on other interfaces, not even at the
// first start without a stored address.
func TestFiles_ListenOnlyLocally(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	db, err := Open(filepath.Join(t.TempDir(), Database))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := New("42:token", db, &Options{})
	b.setBot(42)
	before := listening(t)
	serve, err := b.files.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for inode, address := range listening(t) {
		if _, old := before[inode]; !old && !strings.HasPrefix(address, "0100007F:") {
			t.Errorf("the bridge listens on %s (as in /proc/net/tcp), and not only on 127.0.0.1", address)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := serve(stopped); err != nil {
		t.Error(err)
	}
}

// listening returns the addresses on which this process listens, by socket.
func listening(t *testing.T) map[string]string {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]bool{}
	for _, fd := range fds {
		target, _ := os.Readlink(fd) // the descriptor of the directory itself is closed
		mine[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
	}
	row := regexp.MustCompile(`(?m)^ *\d+: ([0-9A-F]+:[0-9A-F]+) \S+ 0A \S+ \S+ \S+ +\d+ +\d+ (\d+)`)
	found := map[string]string{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		raw, _ := os.ReadFile(table) // the system may have no IPv6
		for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
			if mine[m[2]] {
				found[m[2]] = m[1]
			}
		}
	}
	return found
}
