package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hubbub/cmd/internal/term"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// An Env is the environment of a running program. Its methods may be called from any goroutine.
type Env struct {
	Name     string         // of the program
	Version  string         // see Version
	Log      zerolog.Logger // to stderr, without secrets
	Data     string         // absolute path of the data folder, which may not exist yet; see MakeData and NoData
	Buses    []string       // WebSocket addresses of --bus
	Config   string         // path of the file of --config, or empty
	Checking bool           // only check the settings, start nothing
	Streams

	settings  *settings
	process   hostProcess
	secrets   *secrets
	logEnd    *switchWriter
	notify    *notifier
	ready     sync.Once
	stopping  atomic.Bool
	stopUntil atomic.Int64 // Unix nanoseconds; see ExtendStop
}

// Streams are the standard streams of a program.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

func newEnv(name string, c *settings, o hostProcess) (*Env, error) {
	e := &Env{
		Name:     name,
		Version:  Version(),
		Data:     c.data,
		Buses:    c.buses,
		Config:   c.config,
		Streams:  Streams{Stdin: o.stdin, Stdout: o.stdout, Stderr: o.stderr},
		settings: c,
		process:  o,
		secrets:  &secrets{},
		notify:   newNotifier(),
	}
	if e.Data != "" {
		if err := datafolder.ActAsOwner(e.Data, c.made...); err != nil {
			return nil, err
		}
	}
	var err error
	if e.Log, e.logEnd, err = newLogger(c, o.stderr, e.secrets); err != nil {
		return nil, err
	}
	if w, ok := o.stderr.(*stderrWriter); ok {
		w.reportDropped(e.logDropped)
	}
	return e, nil
}

// logDropped reports n missing lines of the log, at every log level.
func (e *Env) logDropped(n int) {
	e.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Int("lines", n).
		Msg("log lines were dropped while standard error accepted none")
}

// MakeData creates the data folder if it is missing, readable only by its owner, and returns its
// path.
func (e *Env) MakeData() (string, error) {
	if err := datafolder.MkdirAll(e.Data); err != nil {
		return "", fmt.Errorf("making the data folder (see --data): %w", err)
	}
	return e.Data, nil
}

// DataFile returns the path of a file in the data folder.
func (e *Env) DataFile(name ...string) string {
	return filepath.Join(append([]string{e.Data}, name...)...)
}

// LogFormat returns the format of this program's log, "console" or "json", for programs that
// start others.
func (e *Env) LogFormat() string { return logFormat(e.settings, e.Stderr) }

// OnTerminal reports whether the log goes to a terminal.
func (e *Env) OnTerminal() bool { return term.IsTerminal(e.Stderr) }

// Progress shows a running activity and its count of units on the terminal of the log. It shows
// nothing if out, which may be nil, is a terminal too.
func (e *Env) Progress(what, unit string, out any) *term.Progress {
	if !e.OnTerminal() || out != nil && term.IsTerminal(out) {
		return nil
	}
	return term.Begin(e.Stderr, what, unit)
}

// Tell prints a message for the operator to standard error, wrapped to the terminal's width.
func (e *Env) Tell(format string, args ...any) {
	fmt.Fprintln(e.Stderr, shown(e.Stderr, e.redacted(fmt.Sprintf(format, args...))))
}

// LogLevel returns the value of --log-level.
func (e *Env) LogLevel() string { return e.settings.logLevel }

// PeerOptions returns new options for the peer of this program: buses, token (read
// again at every connect), name, version, log and pulse.
func (e *Env) PeerOptions() *peer.Options {
	log := e.Log
	o := &peer.Options{
		Buses:     e.Buses,
		TokenFunc: e.Token,
		Info:      protocol.Info{Name: e.Name, Version: e.Version},
		Log:       &log,
	}
	if e.notify.interval > 0 { // no wake-ups without a watchdog
		o.Heartbeat = e.Pulse
	}
	return o
}

// Ready announces that the program is connected and subscribed: in the log, and to systemd if
// that started the program. Only the first call has an effect.
func (e *Env) Ready() {
	e.ready.Do(func() {
		// Other programs wait for this line, so it is written at every log level.
		e.Log.Log().Str(zerolog.LevelFieldName, zerolog.LevelInfoValue).Str("version", e.Version).Msg("ready")
		if err := e.notify.ready(); err != nil {
			e.Log.Warn().Err(err).Msg("systemd not notified that the program is ready")
		}
	})
}

// Pulse reports that the program's main loop is alive. The loop itself must call it at least
// every second: systemd's watchdog aborts a program without a pulse.
func (e *Env) Pulse() { e.notify.pulse() }

// PulseWhile is the pulse of a program without a main loop. It calls Pulse every second until ctx
// ends, if alive reports true. alive may block.
func (e *Env) PulseWhile(ctx context.Context, alive func() bool) {
	for retry.Sleep(ctx, time.Second) {
		if alive() {
			e.Pulse()
		}
	}
}

func (e *Env) redacted(text string) string {
	if e == nil {
		return text
	}
	return e.secrets.cut(text)
}

// OwnData is MakeData for a program that must be the only one to work on the folder. Call release
// at the end. If the process is killed, the kernel releases the folder.
func (e *Env) OwnData() (release func(), err error) {
	if _, err := e.MakeData(); err != nil {
		return nil, err
	}
	f, err := datafolder.Lock(e.DataFile(e.Name+".lock"), false)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another %s %w %s; give this one another --data", e.Name, errTaken, e.Data)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return func() { f.Close() }, nil //nolint:errcheck // nothing was written
}

var errTaken = errors.New("works on the data folder")

// AwaitData is OwnData, but waits for another program of the same name that is still stopping
// after its parent was killed. If ctx has ended, it returns the error of ctx: a slow disk takes long
// to make the folder.
func (e *Env) AwaitData(ctx context.Context) (release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	release, err = e.OwnData()
	if errors.Is(err, errTaken) {
		e.Log.Warn().Str("data", e.Data).Msg("another " + e.Name + " works on the data folder; waiting for its end")
	}
	for errors.Is(err, errTaken) && retry.Sleep(waiting, 100*time.Millisecond) {
		release, err = e.OwnData()
	}
	switch {
	case ctx.Err() == nil || err != nil && !errors.Is(err, errTaken):
		return release, err
	case err == nil:
		release()
	}
	return nil, ctx.Err()
}

// CheckListen returns why a program could not listen at the address in a flag. It only tries with
// --check, and not while a program of this name runs on the data folder.
func (e *Env) CheckListen(flag, address string) error {
	if address == "" {
		return nil
	}
	if err := CheckAddress(flag, address); err != nil || !e.Checking {
		return err
	}
	if _, err := os.Stat(e.DataFile(e.Name + ".lock")); err == nil {
		f, err := datafolder.Lock(e.DataFile(e.Name+".lock"), false)
		if err != nil {
			return nil // the running program listens itself
		}
		defer f.Close() //nolint:errcheck // nothing was written
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return Usage("--%s %s: %w", flag, address, err)
	}
	return l.Close()
}

// logFormat returns the format for a log to w: that of the flag, or else the default for a
// terminal or a file.
func logFormat(c *settings, w io.Writer) string {
	switch {
	case c.logFormat != "":
		return c.logFormat
	case term.IsTerminal(w):
		return "console"
	default:
		return "json"
	}
}

// A switchWriter is the replaceable destination of a log.
type switchWriter struct{ to atomic.Pointer[io.Writer] }

func (w *switchWriter) set(to io.Writer) { w.to.Store(&to) }

func (w *switchWriter) Write(p []byte) (int, error) { return (*w.to.Load()).Write(p) }

// LogTo redirects the log to w: as JSON, without known secrets, and with one Write for each line.
func (e *Env) LogTo(w io.Writer) { e.logEnd.set(&redactingWriter{secrets: e.secrets, to: w}) }

// newLogger makes the logger of a program, and its destination.
func newLogger(c *settings, w io.Writer, s *secrets) (zerolog.Logger, *switchWriter, error) {
	if err := CheckLog(c.logLevel, logFormat(c, w)); err != nil {
		return zerolog.Nop(), nil, err
	}
	level, _ := zerolog.ParseLevel(c.logLevel) // CheckLog has accepted it
	colour := term.IsTerminal(w)
	out := io.Writer(&redactingWriter{secrets: s, to: w})
	if logFormat(c, w) == "console" {
		out = zerolog.ConsoleWriter{Out: out, NoColor: !colour, TimeFormat: "15:04:05.000Z07:00"}
	}
	end := &switchWriter{}
	end.set(out)
	return zerolog.New(end).Level(level).With().Timestamp().Logger(), end, nil
}

// CheckLog returns the error of an invalid log level or log format.
func CheckLog(level, format string) error {
	if _, err := zerolog.ParseLevel(level); err != nil || level == "" {
		return Usage("--log-level %q is none of debug, info, warn, error", level)
	}
	if format != "json" && format != "console" {
		return Usage("--log-format %q is neither console nor json", format)
	}
	return nil
}

func init() { zerolog.TimeFieldFormat = time.RFC3339Nano }
