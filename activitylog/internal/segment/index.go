package segment

import (
	"cmp"
	"encoding/binary"
	"slices"

	"hubbub/activitylog"

	"zombiezen.com/go/sqlite"
)

// A CommitIndex describes the rows of a commit, so that readers need not read all rows: their
// times, the hashes of their message ids, and which of them may have subjects. It is not signed,
// but Verify compares it with the signed rows.
type CommitIndex struct {
	Since, Until int64
	Hashes       []byte
	Subjects     []byte
}

// An IndexBuilder builds the index of a commit, and reuses its buffers for the next one. The zero
// IndexBuilder is ready to use.
type IndexBuilder struct {
	CommitIndex
	rows   int
	sorted []uint64
}

// Reset removes the rows of the previous commit.
func (b *IndexBuilder) Reset() {
	b.rows, b.sorted, b.Hashes, b.Subjects = 0, b.sorted[:0], b.Hashes[:0], b.Subjects[:0]
}

// AddRow adds the next row of the commit: its time, and whether it may have subjects.
func (b *IndexBuilder) AddRow(at int64, event activitylog.Event, topic string, payload []byte) {
	if b.rows == 0 {
		b.Since, b.Until = at, at
	}
	b.Since, b.Until = min(b.Since, at), max(b.Until, at)
	if event == activitylog.SendStart && activitylog.MayHaveSubjects(topic, payload) {
		b.Subjects = binary.BigEndian.AppendUint16(b.Subjects, uint16(b.rows))
	}
	b.rows++
}

// AddMessage adds the hash of a row's message id.
func (b *IndexBuilder) AddMessage(hash uint64) { b.sorted = append(b.sorted, hash) }

// Index returns the index of the added rows. It is valid until the next Reset.
func (b *IndexBuilder) Index() *CommitIndex {
	slices.Sort(b.sorted)
	for _, h := range slices.Compact(b.sorted) {
		b.Hashes = binary.BigEndian.AppendUint64(b.Hashes, h)
	}
	return &b.CommitIndex
}

// IndexOf returns the index of the rows in a window, computed from the rows.
func (v *View) IndexOf(w Window) *CommitIndex {
	var b IndexBuilder
	v.Query("SELECT e.at, e.kind, coalesce(e.message_id, m.message_id, ''), e.topic, CASE WHEN e.kind = 1 THEN "+
		"e.payload END "+
		"FROM event AS e LEFT JOIN event AS m ON m.id = e.msg WHERE e.id BETWEEN ? AND ? ORDER BY e.id",
		[]any{w.Low, w.High}, func(s *sqlite.Stmt) bool {
			b.AddRow(s.ColumnInt64(0), activitylog.Event(s.ColumnInt(1)), s.ColumnText(3), Blob(s, 4))
			if id := s.ColumnText(2); id != "" {
				b.AddMessage(HashOf(id))
			}
			return true
		})
	return b.Index()
}

// HashOf returns the hash of a message id in indexes: FNV-1a, never 0.
func HashOf(messageID string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(messageID) {
		h = (h ^ uint64(messageID[i])) * 1099511628211
	}
	return cmp.Or(h, 1)
}
