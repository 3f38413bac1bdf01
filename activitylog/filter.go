package activitylog

import (
	"slices"
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
}

// where returns the conditions that SQLite checks, each beginning with AND, and
// their arguments. Types are checked by the reader.
func (f *Filter) where() (string, []any) {
	var sql strings.Builder
	var args []any
	add := func(condition string, values ...any) {
		sql.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	pattern := func(column string, p protocol.Pattern) {
		switch shape, text := p.Shape(); {
		case p == "":
		case shape == protocol.ShapeExact:
			add(column+" = ?", text)
		default:
			add(column+" GLOB ?", string(p)) // the same language, but for brackets, which patterns cannot have
		}
	}
	pattern("topic", f.Topic)
	pattern("actor", f.Peer)
	if len(f.Events) > 0 {
		names := make([]any, len(f.Events))
		for i, e := range f.Events {
			names[i] = e.String()
		}
		add("event IN (?"+strings.Repeat(",?", len(names)-1)+")", names...)
	}
	if f.Status != "" {
		add("status = ?", f.Status)
	}
	if f.Text != "" {
		like := "%" + likeEscaper.Replace(f.Text) + "%"
		add(`(payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')`, like, like, like)
	}
	if !f.Since.IsZero() {
		add("ts >= ?", protocol.FormatTime(f.Since))
	}
	if !f.Until.IsZero() {
		add("ts < ?", protocol.FormatTime(f.Until))
	}
	return sql.String(), args
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

func (f *Filter) takesType(t string) bool {
	return len(f.Types) == 0 || slices.Contains(f.Types, protocol.MessageType(t))
}
