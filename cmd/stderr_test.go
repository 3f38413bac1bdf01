package cmd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// deadStreams are standard error streams that accept nothing.
var deadStreams = map[string]func(t *testing.T) (w, r *os.File){
	"a pipe without a reader": func(t *testing.T) (w, r *os.File) {
		w, r = pipe(t)
		r.Close() //nolint:errcheck // nothing was read
		return w, r
	},
	"a full pipe": fullPipe,
}

func pipe(t *testing.T) (w, r *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close() //nolint:errcheck // of a test
		w.Close() //nolint:errcheck // of a test
	})
	return w, r
}

// fullPipe returns a full pipe.
func fullPipe(t *testing.T) (w, r *os.File) {
	t.Helper()
	w, r = pipe(t)
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	filler := []byte(strings.Repeat("x", 511) + "\n")
	fill := func(fd uintptr) bool {
		for err == nil {
			if _, err = syscall.Write(int(fd), filler); errors.Is(err, syscall.EINTR) {
				err = nil
			}
		}
		return true // the pipe does not block
	}
	if failed := raw.Write(fill); failed != nil || !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(failed, err)
	}
	return w, r
}

// startWithStderr starts a program with the given standard error, and waits until its bus is
// ready.
func startWithStderr(t *testing.T, stderr *os.File, address, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), built(t, name), args...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			resp.Body.Close() //nolint:errcheck // only the status counts
			if resp.StatusCode == http.StatusOK {
				return cmd
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not get ready: %v", name, err)
		}
	}
}

// stopWithStderr stops a program with SIGTERM and checks its exit. It fails if it does not stop in time.
func stopWithStderr(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { cmd.Process.Kill() }) //nolint:errcheck // the test fails by the exit code
	defer kill.Stop()
	from := time.Now()
	if err := cmd.Wait(); err != nil {
		t.Errorf("at SIGTERM it ends after %s with %v", time.Since(from), err)
	}
}

// deliver connects two peers to a bus and sends a message from one to the other.
func deliver(t *testing.T, address, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	options := &peer.Options{Buses: []string{"ws://" + address}}
	receiver := peer.New(protocol.PeerID("agent:"+name), options)
	receiver.HandleAny(func(context.Context, *peer.Delivery) error { return nil })
	sender := peer.New(protocol.PeerID("cli:"+name), options)
	for _, p := range []*peer.Peer{receiver, sender} {
		running.Go(func() { _ = p.Run(ctx) }) // it ends with ctx
	}
	if err := receiver.Subscribe(ctx, protocol.Pattern(receiver.ID())); err != nil {
		t.Fatal(err)
	}
	if err := receiver.Ready(ctx); err != nil {
		t.Fatalf("no session: %v", err)
	}
	result, err := sender.Send(ctx, protocol.Topic(receiver.ID()), sender.NewMessage(protocol.TypeAgentEvent, struct{}{}))
	if err != nil || result.DeliveredTo != 1 {
		t.Errorf("the message is delivered to %d peers, %v", result.DeliveredTo, err)
	}
}

func TestStderr_NeitherEndsNorDelaysTheBus(t *testing.T) {
	for what, open := range deadStreams {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, _ := open(t)
			address := bustest.FreeAddress(t)
			bus := startWithStderr(t, w, address, "hubbub-bus", "--data", t.TempDir(), "--listen", address, "--log-level", "debug")
			from := time.Now()
			for i := range 5 {
				deliver(t, address, fmt.Sprintf("x%d", i))
			}
			if took := time.Since(from); took > patience {
				t.Errorf("five deliveries took %s", took)
			}
			stopWithStderr(t, bus)
		})
	}
}

func TestStderr_TakesTheLinesOnceItIsReadAgain(t *testing.T) {
	w, r := fullPipe(t)
	address := bustest.FreeAddress(t)
	bus := startWithStderr(t, w, address, "hubbub-bus", "--data", t.TempDir(), "--listen", address, "--log-format", "json")
	w.Close() //nolint:errcheck // the bus has its own
	deliver(t, address, "x")
	messages := make(chan string, 1000)
	go func() {
		defer close(messages)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			for _, message := range []string{"listening", "ready", "stopping"} {
				if strings.Contains(lines.Text(), `"message":"`+message+`"`) {
					messages <- message
				}
			}
		}
	}()
	var got []string
	for range 2 {
		got = append(got, <-messages) // although nothing new is logged
	}
	stopWithStderr(t, bus)
	for message := range messages {
		got = append(got, message)
	}
	if want := "listening ready stopping"; strings.Join(got, " ") != want {
		t.Errorf("the log has %q; want %q", got, want)
	}
}

// TestStderr_NeitherEndsNorDelaysUp makes `hubbub up` forward the logs of its children.
func TestStderr_NeitherEndsNorDelaysUp(t *testing.T) {
	for what, open := range deadStreams {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, _ := open(t)
			address, data := bustest.FreeAddress(t), t.TempDir()
			config := filepath.Join(data, "hubbub.toml")
			text := fmt.Sprintf("log-level = \"debug\"\n[bus]\nlisten = %q\n[broker]\n", address)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			up := startWithStderr(t, w, address, "hubbub", "up", "--config", config, "--data", data)
			for answers, deadline := 0, time.Now().Add(patience); answers < 3; {
				// Each session logs some lines at the bus.
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				who := exec.CommandContext(ctx, built(t, "hubbub"), "who", "--bus", "ws://"+address, "--data", data)
				out, err := who.CombinedOutput()
				cancel()
				if err == nil {
					answers++
				} else if time.Now().After(deadline) { // the broker is not connected at first
					t.Fatalf("hubbub who: %v, %s", err, out)
				}
			}
			stopWithStderr(t, up)
		})
	}
}

// startAsHead starts a command, and reads only the first line of its output.
func startAsHead(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	w, r := pipe(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Close() //nolint:errcheck // as head does
}

func TestStdout_EndsACommandWhoseReaderIsGone(t *testing.T) {
	data, address := t.TempDir(), bustest.FreeAddress(t)
	logged := start(t, t, "hubbub-bus", nil, "--data", data, "--listen", address, "--log-format", "json")
	deliver(t, address, "first")
	cmd := exec.CommandContext(t.Context(), built(t, "hubbub"), "tail", "--follow", "--json", "--data", data)
	startAsHead(t, cmd)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.After(patience); ; {
		deliver(t, address, "next")
		select {
		case <-ended:
			return
		case <-deadline:
			t.Fatalf("tail writes on to nobody:\n%s", logged.text())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestStdout_EndsTheDemoWhoseReaderIsGone checks that `hubbub demo | head` leaves no files.
func TestStdout_EndsTheDemoWhoseReaderIsGone(t *testing.T) {
	temporary := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(t, "hubbub"), "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "XDG_RUNTIME_DIR=")
	startAsHead(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
