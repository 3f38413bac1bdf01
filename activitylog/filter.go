package activitylog

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol"
)

// A Filter chooses rows. The zero value chooses all; a row must match every field that
// is set.
type Filter struct {
	Topic  protocol.Pattern       // of the row's topic
	Peer   protocol.Pattern       // of the row's actor: the sender in send rows, the target in process rows
	Types  []protocol.MessageType // the row belongs to a message of one of these types
	Events []Event
	Status string
	Text   string    // occurs in the payload, the error or the message id; ASCII letters match in either case
	Since  time.Time // at this time or later
	Until  time.Time // before this time

	NotTopic, NotPeer protocol.Pattern       // not these
	NotTypes          []protocol.MessageType // the row belongs to no message of these types
	// Of a message that arrived, only its send_start row; of others, also what went wrong. No rows
	// about commands that came and went, and no signs of life.
	Brief bool

	Beside []IDRange // by log: rows with such ids are chosen whatever their times are

	about string // the row is a send_start about this event or record, or the text of one that may be
}

// An IDRange is a range of row ids with both its ends. It is empty if First is after Last.
type IDRange struct{ First, Last int64 }

// startsOnly reports whether the filter chooses send_start rows alone.
func (f *Filter) startsOnly() bool { return len(f.Events) == 1 && f.Events[0] == SendStart }

// times returns the times that the filter chooses in a log.
func (f *Filter) times(log int) interval {
	i := anyTime
	if log < len(f.Beside) {
		i.beside = window{f.Beside[log].First, f.Beside[log].Last}
	}
	if !f.Since.IsZero() {
		i.since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		i.until = f.Until.UnixMicro()
	}
	return i
}

// where returns the conditions that SQLite checks in a file, each beginning with AND, and
// their arguments. Types are checked by the reader.
func (f *Filter) where(v *view, log int) (string, []any) {
	var sql strings.Builder
	var args []any
	add := func(condition string, values ...any) {
		sql.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	pattern := func(column string, p protocol.Pattern, wanted bool) {
		switch shape, text := p.Shape(); {
		case p == "":
		case !wanted:
			add("("+column+" IS NULL OR "+column+" NOT GLOB ?)", string(p))
		case shape == protocol.ShapeExact && text == string(protocol.TopicAttention):
			add(column + " = '" + text + "'") // as the index of the attention rows has it
		case shape == protocol.ShapeExact:
			add(column+" = ?", text)
		default:
			add(column+" GLOB ?", string(p)) // the same language, but for brackets, which patterns cannot have
		}
	}
	pattern("topic", f.Topic, true)
	pattern("actor", f.Peer, true)
	pattern("topic", f.NotTopic, false)
	pattern("actor", f.NotPeer, false)
	events := func(events ...Event) string {
		list := make([]string, len(events))
		for i, e := range events {
			list[i] = strconv.Itoa(int(e))
		}
		if len(list) == 1 {
			return "kind = " + list[0]
		}
		return "kind IN (" + strings.Join(list, ",") + ")"
	}
	if len(f.Events) > 0 {
		add(events(f.Events...))
	}
	if f.Brief {
		add("NOT (" + events(ProcessStart) + " OR status = '" + StatusOK + "' AND " +
			events(ProcessFinish, SendFinish) + ")")
		add("NOT (" + events(SendStart) + " AND payload_json IS NOT NULL AND (payload_json LIKE '" +
			strings.Join(signsOfLife, "' OR payload_json LIKE '") + "'))")
		add("NOT (actor GLOB '" + string(protocol.RoleCLI) + ":*' AND " +
			events(PeerConnected, PeerDisconnected, Subscribe, Unsubscribe) + ")")
	}
	if f.Status != "" {
		add("status = ?", f.Status)
	}
	text := f.Text
	switch {
	case f.about != "" && v.about:
		add("id IN (SELECT id FROM about WHERE subject = ?)", f.about)
	case f.about != "" && !strings.ContainsFunc(f.about, manySpellings):
		text = f.about
	}
	if text != "" {
		like := "%" + likeEscaper.Replace(text) + "%"
		add(`(payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')`, like, like,
			like)
	}
	switch times := f.times(log); {
	case times.all():
	case len(f.Beside) > 0:
		add("(at >= ? AND at < ? OR id BETWEEN ? AND ?)", times.since, times.until, times.beside.low, times.beside.high)
	default:
		if times.since > math.MinInt64 {
			add("at >= ?", times.since)
		}
		if times.until < math.MaxInt64 {
			add("at < ?", times.until)
		}
	}
	return sql.String(), args
}

// signsOfLife are what is in messages that say no more than that an agent is there, or writes.
// Within a text quotes are escaped.
var signsOfLife = []string{`%"content":{"typing":%`, `%"content":{"method":"identity.heartbeat",%`,
	`%"identity":{%,"watched":true}%`}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

func (f *Filter) takesType(t string) bool {
	typ := protocol.MessageType(t)
	return (len(f.Types) == 0 || slices.Contains(f.Types, typ)) && !slices.Contains(f.NotTypes, typ)
}
