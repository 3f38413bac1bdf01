package logs

import (
	"context"
	"strings"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/cmd/internal/term"
)

// shortIDLen is the length of a short message ID.
const shortIDLen = 6

// ShortID returns the end of the row's message ID.
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

// ExpandID returns the ID of the newest message whose ID ends with a short ID. If name is not a
// short ID of a recent message, it returns name.
func ExpandID(ctx context.Context, r *read.Reader, name string) string {
	end := strings.TrimPrefix(name, "…")
	if len(end) != shortIDLen {
		return name
	}
	rows, _, _ := r.Before(
		ctx, read.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, recentRows,
	) // on an error, use the rows that were read
	for i := len(rows) - 1; i >= 0; i-- {
		if strings.HasSuffix(rows[i].MessageID, end) {
			return rows[i].MessageID
		}
	}
	return name
}
