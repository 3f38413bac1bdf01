package program

import (
	"io"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

func terminal(fd int) bool { return term.IsTerminal(fd) }

// logFormat returns how to log to w: as the flag says, else by what w is.
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

// newLogger makes the logger of a program.
func newLogger(c *settings, w io.Writer, s *secrets) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(c.logLevel)
	if err != nil || c.logLevel == "" {
		return zerolog.Nop(), Usage("--log-level %q is none of debug, info, warn, error", c.logLevel)
	}
	colour := isTerminal(w)
	out := io.Writer(&redactingWriter{secrets: s, to: w})
	switch logFormat(c, w) {
	case "json":
	case "console":
		out = zerolog.ConsoleWriter{Out: out, NoColor: !colour, TimeFormat: "15:04:05.000"}
	default:
		return zerolog.Nop(), Usage("--log-format %q is neither console nor json", c.logFormat)
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

func init() { zerolog.TimeFieldFormat = time.RFC3339Nano }
