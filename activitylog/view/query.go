package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"
)

// notPrefix, before a type or a pattern, selects all others.
const notPrefix = "!"

// A Query selects rows, in the form that a person typed. An empty field selects all.
type Query struct {
	Topic, Peer, Status, Text, Since, Until string
	Types, Events                           []string
	Brief                                   bool // one row per message, unless events or a status are selected
}

// Statuses are the statuses of rows.
var Statuses = []string{
	activitylog.StatusStart, activitylog.StatusOK, activitylog.StatusNoSubscriber, activitylog.StatusPartial,
	activitylog.StatusFailed,
	string(protocol.OutcomeError), string(protocol.OutcomeRejected), string(protocol.OutcomeTimeout),
	string(protocol.OutcomeOffline), string(protocol.OutcomeOverflow),
}

// EventNames returns the names of the events.
func EventNames() (names []string) {
	for e := activitylog.SendStart; e <= activitylog.LogPruned; e++ {
		names = append(names, e.String())
	}
	return names
}

// TypeNames returns the message types.
func TypeNames() []string {
	names := make([]string, len(protocol.AllTypes))
	for i, t := range protocol.AllTypes {
		names[i] = string(t)
	}
	return names
}

// Filter parses the query. Its error begins with the name of the wrong field.
func (q *Query) Filter(now time.Time) (f read.Filter, err error) {
	f.Status, f.Text = q.Status, q.Text
	f.Brief = q.Brief && q.Status == "" && len(q.Events) == 0
	if q.Status != "" && !slices.Contains(Statuses, q.Status) {
		return f, fmt.Errorf("status %q is not a status of a row: %s", q.Status, strings.Join(Statuses, ", "))
	}
	if f.Since, err = Moment("since", q.Since, now); err != nil {
		return f, err
	}
	if f.Until, err = Moment("until", q.Until, now); err != nil {
		return f, err
	}
	if f.Topic, f.NotTopic, err = pattern("topic", q.Topic); err != nil {
		return f, err
	}
	if f.Peer, f.NotPeer, err = pattern("peer", q.Peer); err != nil {
		return f, err
	}
	for _, name := range q.Types {
		name, not := strings.CutPrefix(name, notPrefix)
		if !slices.Contains(protocol.AllTypes, protocol.MessageType(name)) {
			return f, fmt.Errorf("type %q is not a message type: %s", name, strings.Join(TypeNames(), ", "))
		}
		if typ := protocol.MessageType(name); not {
			f.NotTypes = append(f.NotTypes, typ)
		} else {
			f.Types = append(f.Types, typ)
		}
	}
	for _, name := range q.Events {
		e, ok := activitylog.ParseEvent(name)
		if !ok {
			return f, fmt.Errorf("event %q is not an event of the log: %s", name, strings.Join(EventNames(), ", "))
		}
		f.Events = append(f.Events, e)
	}
	return f, nil
}

// pattern parses a pattern, or with a leading Not the pattern to exclude.
func pattern(name, text string) (p, not protocol.Pattern, err error) {
	if text == "" {
		return "", "", nil
	}
	rest, negated := strings.CutPrefix(text, notPrefix)
	if p, err = protocol.ParsePattern(rest); err != nil {
		return "", "", fmt.Errorf("%s %q: %w", name, text, err)
	}
	if negated {
		return "", p, nil
	}
	return p, "", nil
}

// Moment parses a time: RFC 3339, a day, or a duration before now. An empty text is the zero
// time. Its error begins with the name.
func Moment(name, text string, now time.Time) (time.Time, error) {
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
	return time.Time{}, fmt.Errorf("%s %q is neither a time (2026-02-17T12:00:00Z, 2026-02-17) nor a duration (90s, "+
		"15m, 12h, 30d)", name, text)
}
