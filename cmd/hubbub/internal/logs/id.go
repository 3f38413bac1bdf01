package logs

import (
	"context"
	"strings"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/cmd/internal/term"
)

// shortIDLen are the characters of an id's end.
const shortIDLen = 6

// ShortID returns the end of the id of the row's message.
func ShortID(e *activitylog.Entry) string {
	id := term.Printable(e.MessageID)
	if len(id) <= shortIDLen+2 {
		return id
	}
	end := len(id) - shortIDLen
	for !utf8.RuneStart(id[end]) {
		end++
	}
	return "…" + id[end:]
}

// ExpandID returns the newest of the last messages whose id ends like a name, if that is such an
// end, and else the name.
func ExpandID(ctx context.Context, r *activitylog.Reader, name string) string {
	end := strings.TrimPrefix(name, "…")
	if len(end) != shortIDLen {
		return name
	}
	rows, _, _ := r.Before(ctx, activitylog.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, recentRows) // those it has
	for i := len(rows) - 1; i >= 0; i-- {
		if strings.HasSuffix(rows[i].MessageID, end) {
			return rows[i].MessageID
		}
	}
	return name
}
