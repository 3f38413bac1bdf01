package read

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol"
)

// A Filter selects rows. A row must match every field that is set; the zero value selects all
// rows.
type Filter struct {
	Topic  protocol.Pattern       // of the row's topic
	Peer   protocol.Pattern       // of the row's actor: the sender in send rows, the target in process rows
	Types  []protocol.MessageType // the row belongs to a message of one of these types
	Events []activitylog.Event
	Status string
	Text   string    // occurs in the payload, the error or the message id; ASCII letters match in either case
	Since  time.Time // at this time or later
	Until  time.Time // before this time

	NotTopic, NotPeer protocol.Pattern       // the row must not match these
	NotTypes          []protocol.MessageType // the row does not belong to a message of these types
	// Brief selects only the send_start row of a message that arrived, and for other messages
	// also the failures. It leaves out rows about connections of commands, and messages that only
	// show that an agent is online or typing.
	Brief bool

	Beside []IDRange // by log: rows with these ids are selected whatever their times are

	about string // the row is a send_start row about this event or record or an edit of it, or may be one
}

// An IDRange is a range of row ids with both its ends. It is empty if First is after Last.
type IDRange struct{ First, Last int64 }

// startsOnly reports whether the filter selects only send_start rows.
func (f *Filter) startsOnly() bool { return len(f.Events) == 1 && f.Events[0] == activitylog.SendStart }

// times returns the interval that the filter selects in a log.
func (f *Filter) times(log int) segment.Interval {
	i := segment.AnyTime
	if log < len(f.Beside) {
		i.Beside = segment.Window{Low: f.Beside[log].First, High: f.Beside[log].Last}
	}
	if !f.Since.IsZero() {
		i.Since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		i.Until = f.Until.UnixMicro()
	}
	return i
}

// where returns the conditions that SQLite checks in a file, each beginning with AND, and their
// arguments. The reader checks types itself.
func (f *Filter) where(v *segment.View, log int) (string, []any) {
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
			add(column + " = '" + text + "'") // in the form of the index for attention rows
		case shape == protocol.ShapeExact:
			add(column+" = ?", text)
		default:
			add(column+" GLOB ?", string(p)) // GLOB is equivalent except for brackets, which patterns cannot have
		}
	}
	pattern("topic", f.Topic, true)
	pattern("actor", f.Peer, true)
	pattern("topic", f.NotTopic, false)
	pattern("actor", f.NotPeer, false)
	events := func(events ...activitylog.Event) string {
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
		add("NOT (" + events(activitylog.ProcessStart) + " OR status = '" + activitylog.StatusOK + "' AND " +
			events(activitylog.ProcessFinish, activitylog.SendFinish) + ")")
		add("NOT (" + events(activitylog.SendStart) + " AND payload_json IS NOT NULL AND (payload_json LIKE '" +
			strings.Join(signsOfLife, "' OR payload_json LIKE '") + "'))")
		add("NOT (actor GLOB '" + string(protocol.RoleCLI) + ":*' AND " +
			events(activitylog.PeerConnected, activitylog.PeerDisconnected, activitylog.Subscribe,
				activitylog.Unsubscribe) + ")")
	}
	if f.Status != "" {
		add("status = ?", f.Status)
	}
	text := f.Text
	switch {
	case f.about != "" && v.About:
		first, end := protocol.EditsOf(f.about)
		add("id IN (SELECT id FROM about WHERE subject = ? OR subject >= ? AND subject < ?)", f.about, first, end)
	case f.about != "" && !strings.ContainsFunc(f.about, manySpellings):
		text = f.about
	}
	if text != "" {
		like := "%" + likeEscaper.Replace(text) + "%"
		add(`(payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')`, like, like,
			like)
	}
	switch times := f.times(log); {
	case times.All():
	case len(f.Beside) > 0:
		add("(at >= ? AND at < ? OR id BETWEEN ? AND ?)", times.Since, times.Until, times.Beside.Low, times.Beside.High)
	default:
		if times.Since > math.MinInt64 {
			add("at >= ?", times.Since)
		}
		if times.Until < math.MaxInt64 {
			add("at < ?", times.Until)
		}
	}
	return sql.String(), args
}

// signsOfLife match payloads that only show that an agent is online or typing. They cannot match
// inside a text, where quotes are escaped.
var signsOfLife = []string{`%"content":{"typing":%`, `%"content":{"method":"identity.heartbeat",%`,
	`%"identity":{%,"watched":true}%`}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

func (f *Filter) takesType(t string) bool {
	typ := protocol.MessageType(t)
	return (len(f.Types) == 0 || slices.Contains(f.Types, typ)) && !slices.Contains(f.NotTypes, typ)
}
