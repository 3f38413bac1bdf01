package mcptools_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
)

// TestToolServer_RefusesAnotherUser checks that another user who reads the token in a command line
// cannot use it.
func TestToolServer_RefusesAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	token := mcptools.NewToken()
	url := startToolServer(t, &harnesstest.Tools{}, token)
	for user, want := range map[uintptr]int{0: http.StatusOK, 65534: http.StatusForbidden} {
		request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		transport := &http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return dialAs(user, network, address)
		}}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close() //nolint:errcheck // not read
		transport.CloseIdleConnections()
		if response.StatusCode != want {
			t.Errorf("user %d gets status %d, want %d", user, response.StatusCode, want)
		}
	}
}

// dialAs connects with a socket of another user.
func dialAs(user uintptr, network, address string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall(syscall.SYS_SETFSUID, user, 0, 0)
	defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	return net.Dial(network, address)
}
