package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/cmd/internal/program"
	"hubbub/protocol"

	"github.com/spf13/cobra"
)

// activityFile is the name of the activity log in a data folder.
const activityFile = "activity.db"

// logFlag adds --log, which says which logs a command reads.
func logFlag(cmd *cobra.Command) *[]string {
	return cmd.PersistentFlags().StringArray("log", nil,
		"activity log to read: a data folder or a database; repeat it for the buses of a cluster (default that of --data)")
}

// logPaths returns the databases that --log names.
func logPaths(env *program.Env, named []string) []string {
	if len(named) == 0 {
		return []string{env.DataFile(activityFile)}
	}
	paths := make([]string, len(named))
	for i, name := range named {
		paths[i] = name
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			paths[i] = filepath.Join(name, activityFile)
		}
	}
	return paths
}

// openLogs opens the logs that --log names; each must exist. Close must be
// called.
func openLogs(cmd *cobra.Command, named []string) (*activitylog.Reader, error) {
	r := activitylog.Open(logPaths(program.From(cmd), named)...)
	if err := r.Check(cmd.Context()); err != nil {
		r.Close()
		return nil, describeLog(err)
	}
	return r, nil
}

// describeLog says what to do about a log that cannot be read.
func describeLog(err error) error {
	if errors.Is(err, activitylog.ErrNoLog) {
		return fmt.Errorf("%w: is --data (or --log) right? A bus writes it there: start one with `hubbub up` or `hubbub demo`", err)
	}
	return err
}

// moment reads a time: RFC 3339, a day, or a duration before now.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	if d, err := activitylog.ParseSpan(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, program.Usage("--%s %q is neither a time (2026-02-17T12:00:00Z, 2026-02-17) nor a duration (90s, 15m, 12h, 30d)", flag, text)
}

// rowFlags are the flags that choose rows.
type rowFlags struct {
	topic, peer, status, text, since, until string
	types, events                           []string
}

func (f *rowFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "rows whose topic matches this pattern")
	flags.StringVar(&f.peer, "peer", "", "rows whose actor matches this pattern: the sender of send rows, the target of process rows")
	flags.StringSliceVar(&f.types, "type", nil, "rows of messages of this type (repeatable)")
	flags.StringSliceVar(&f.events, "event", nil, "rows of this event, such as send_start (repeatable)")
	flags.StringVar(&f.status, "status", "", "rows with this status, such as timeout")
	flags.StringVar(&f.text, "text", "", "rows with this text in the payload, the error or the message id")
	flags.StringVar(&f.since, "since", "", "rows from this time on: 2026-02-17T12:00:00Z, or 15m, 12h, 30d ago")
	flags.StringVar(&f.until, "until", "", "rows before this time, written likewise")
	for flag, names := range map[string][]string{"type": typeNames(), "event": eventNames(), "status": statuses} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
}

// statuses are those that rows have.
var statuses = []string{
	activitylog.StatusStart, activitylog.StatusOK, activitylog.StatusNoSubscriber, activitylog.StatusPartial, activitylog.StatusFailed,
	string(protocol.OutcomeError), string(protocol.OutcomeRejected), string(protocol.OutcomeTimeout), string(protocol.OutcomeOffline), string(protocol.OutcomeOverflow),
}

func eventNames() (names []string) {
	for e := activitylog.SendStart; ; e++ {
		name := e.String()
		if _, ok := activitylog.ParseEvent(name); !ok {
			return names
		}
		names = append(names, name)
	}
}

func typeNames() []string {
	names := make([]string, len(protocol.AllTypes))
	for i, t := range protocol.AllTypes {
		names[i] = string(t)
	}
	return names
}

// filter makes the filter, or says which flag is wrong.
func (f *rowFlags) filter(now time.Time) (filter activitylog.Filter, err error) {
	filter.Status, filter.Text = f.status, f.text
	if f.status != "" && !slices.Contains(statuses, f.status) {
		return filter, program.Usage("--status %q is no status of a row: %s", f.status, strings.Join(statuses, ", "))
	}
	if filter.Since, err = moment("since", f.since, now); err != nil {
		return filter, err
	}
	if filter.Until, err = moment("until", f.until, now); err != nil {
		return filter, err
	}
	for _, p := range []struct {
		flag, text string
		into       *protocol.Pattern
	}{{"topic", f.topic, &filter.Topic}, {"peer", f.peer, &filter.Peer}} {
		if p.text == "" {
			continue
		}
		if *p.into, err = protocol.ParsePattern(p.text); err != nil {
			return filter, program.Usage("--%s %q: %s", p.flag, p.text, err)
		}
	}
	for _, name := range f.types {
		if !slices.Contains(protocol.AllTypes, protocol.MessageType(name)) {
			return filter, program.Usage("--type %q is no message type: %s", name, strings.Join(typeNames(), ", "))
		}
		filter.Types = append(filter.Types, protocol.MessageType(name))
	}
	for _, name := range f.events {
		e, ok := activitylog.ParseEvent(name)
		if !ok {
			return filter, program.Usage("--event %q is no event of the log: %s", name, strings.Join(eventNames(), ", "))
		}
		filter.Events = append(filter.Events, e)
	}
	return filter, nil
}

// jsonLines makes an encoder that writes one value a line.
func jsonLines(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// A jsonWriter takes whole JSON values and writes them so that a terminal shows
// them: it escapes what JSON may hold as it is and what would command a terminal or
// turn the direction of writing. The values stay the same.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(values []byte) (int, error) {
	n := len(values)
	if bytes.ContainsFunc(values, commandsTerminal) {
		values = escaped(values)
	}
	if _, err := j.w.Write(values); err != nil {
		return 0, err
	}
	return n, nil
}

func escaped(values []byte) []byte {
	safe := make([]byte, 0, len(values)+64)
	for len(values) > 0 {
		r, size := utf8.DecodeRune(values)
		if commandsTerminal(r) { // only strings can hold it
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = append(safe, values[:size]...)
		}
		values = values[size:]
	}
	return safe
}

func commandsTerminal(r rune) bool {
	return r >= 0x7f && (r <= 0x9f || unicode.Is(unicode.Bidi_Control, r))
}

// exportRows writes all rows of a filter as JSON lines.
func exportRows(ctx context.Context, r *activitylog.Reader, f activitylog.Filter, w io.Writer) (n int64, err error) {
	enc := jsonLines(w)
	err = r.Each(ctx, f, func(e *activitylog.Entry) error {
		n++
		return enc.Encode(e)
	})
	return n, err
}
