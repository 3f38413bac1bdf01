package program

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// logFormat returns the format for a log to w: that of the flag, or else the usual one
// for a terminal or a file.
func logFormat(c *settings, w io.Writer) string {
	switch {
	case c.logFormat != "":
		return c.logFormat
	case isTerminal(w):
		return "console"
	default:
		return "json"
	}
}

// A switchWriter is the destination of a log, which may change while it is used.
type switchWriter struct{ to atomic.Pointer[io.Writer] }

func (w *switchWriter) set(to io.Writer) { w.to.Store(&to) }

func (w *switchWriter) Write(p []byte) (int, error) { return (*w.to.Load()).Write(p) }

// LogTo redirects the log to w: as JSON, one Write for each line, without the known
// secrets.
func (e *Env) LogTo(w io.Writer) { e.logEnd.set(&redactingWriter{secrets: e.secrets, to: w}) }

// newLogger makes the logger of a program, and its destination.
func newLogger(c *settings, w io.Writer, s *secrets) (zerolog.Logger, *switchWriter, error) {
	level, err := zerolog.ParseLevel(c.logLevel)
	if err != nil || c.logLevel == "" {
		return zerolog.Nop(), nil, Usage("--log-level %q is none of debug, info, warn, error", c.logLevel)
	}
	colour := isTerminal(w)
	out := io.Writer(&redactingWriter{secrets: s, to: w})
	switch logFormat(c, w) {
	case "json":
	case "console":
		out = zerolog.ConsoleWriter{Out: out, NoColor: !colour, TimeFormat: "15:04:05.000"}
	default:
		return zerolog.Nop(), nil, Usage("--log-format %q is neither console nor json", c.logFormat)
	}
	end := &switchWriter{}
	end.set(out)
	return zerolog.New(end).Level(level).With().Timestamp().Logger(), end, nil
}

func init() { zerolog.TimeFieldFormat = time.RFC3339Nano }
