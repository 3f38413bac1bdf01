package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/tg/tgtest"

	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal that a test holds.
type terminal struct {
	test    *os.File // the side of the test
	program *os.File // the side of a program
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	test, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { test.Close() }) //nolint:errcheck // the test may have closed it
	fd := int(test.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	return &terminal{test, program}
}

// awaitLine reads the terminal until a program writes a line with the text.
func (l *terminal) awaitLine(t *testing.T, text string) {
	t.Helper()
	found := make(chan error, 1)
	var read strings.Builder
	go func() {
		for lines := bufio.NewReader(l.test); ; {
			line, err := lines.ReadString('\n')
			read.WriteString(line)
			if err != nil || strings.Contains(line, text) {
				found <- err
				return
			}
		}
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Fatalf("the terminal ends with %v after:\n%s", err, read.String())
		}
	case <-time.After(patience):
		t.Fatalf("no line with %q", text)
	}
}

// terminalLosses are ways in which a terminal stops accepting output.
var terminalLosses = map[string]func(t *testing.T, l *terminal){
	"paused": func(t *testing.T, l *terminal) {
		if _, err := l.test.Write([]byte{'S' & 0x1f}); err != nil { // Ctrl-S
			t.Error(err)
		}
	},
	"gone": func(_ *testing.T, l *terminal) { l.test.Close() }, //nolint:errcheck // nothing was written
}

// acceptLogin is a homeserver that accepts a login and answers no sync.
func acceptLogin(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/login") {
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, `{"user_id":"@bot:hs","device_id":"D","access_token":"t"}`) // the bridge may have ended
}

// TestTerminal_NeitherEndsNorDelaysAProgram starts every program on a terminal, which then takes no
// output any more. The program must run on, and end at SIGTERM.
func TestTerminal_NeitherEndsNorDelaysAProgram(t *testing.T) {
	t.Parallel()
	bus := bustest.FreeAddress(t)
	start(t, t, "hubbub-bus", nil, "--data", t.TempDir(), "--listen", bus, "--log-format", "json")
	api := tgtest.New(nil)
	telegram, homeserver := httptest.NewServer(api), httptest.NewServer(http.HandlerFunc(acceptLogin))
	t.Cleanup(telegram.Close)
	t.Cleanup(homeserver.Close)
	t.Cleanup(homeserver.CloseClientConnections)
	for _, line := range []string{
		"hubbub-bus --listen",
		"hubbub-system",
		"hubbub-broker",
		"hubbub-chorus --listen 127.0.0.1:0",
		"hubbub-agent --id lead",
		"hubbub-tg --allow-all --api-url " + telegram.URL,
		"hubbub-matrix --allow-user @will:hs --user @bot:hs --homeserver " + homeserver.URL,
		"hubbub up --config",
	} {
		for loss, lose := range terminalLosses {
			words := strings.Fields(line)
			t.Run(words[0]+" "+loss, func(t *testing.T) {
				data, own := t.TempDir(), bustest.FreeAddress(t)
				switch words[len(words)-1] {
				case "--listen":
					words = append(words, own)
				case "--config":
					words = append(words, filepath.Join(data, "hubbub.toml"))
					text := fmt.Sprintf("[bus]\nlisten = %q\n[broker]\n", own)
					if err := os.WriteFile(words[len(words)-1], []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				l := openTerminal(t)
				cmd := exec.CommandContext(t.Context(), built(t, words[0]), append(words[1:], "--data", data)...)
				cmd.Env = append(os.Environ(), "HUBBUB_LOG_LEVEL=debug", "HUBBUB_BUS=ws://"+bus,
					"TELEGRAM_BOT_TOKEN="+api.Token(), "MATRIX_PASSWORD=password")
				cmd.Stdin, cmd.Stdout, cmd.Stderr = l.program, l.program, l.program
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				l.program.Close() //nolint:errcheck // the program has its own
				l.awaitLine(t, "ready")
				lose(t, l)
				if words[0] == "hubbub-bus" {
					deliver(t, own, "x")
				}
				stopWithStderr(t, cmd)
			})
		}
	}
}
