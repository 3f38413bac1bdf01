package activitylog

import (
	"context"
	"encoding/binary"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A sealed file has the table lookup: which commits have rows of a message, by the hash of
// its id. Each commit has said so of its own rows while the file was live, so that no row is
// read for it, and nothing is sorted but these hashes.

// The first bits of a hash choose one of the table's rows.
const lookupBits = 12

// entrySize is that of an entry: the hash, and the first row of a commit.
const entrySize = 8 + 8

// addLookup makes the table.
func addLookup(ctx context.Context, conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &view{conn: conn}
	v.query("CREATE TABLE lookup (bucket INTEGER PRIMARY KEY, entries BLOB NOT NULL)", nil, noRow)
	for i, entries := range v.lookupBuckets(ctx) {
		if len(entries) > 0 {
			v.query("INSERT INTO lookup (bucket, entries) VALUES (?, ?)", []any{i, entries}, noRow)
		}
	}
	return v.err
}

// lookupBuckets returns what the table lookup has, from what the commits say.
func (v *view) lookupBuckets(ctx context.Context) *[1 << lookupBits][]byte {
	var buckets [1 << lookupBits][]byte
	v.eachBatch(0, func(b *batch) {
		for h := b.hashes; len(h) >= 8; h = h[8:] {
			to := &buckets[bucketOf(h)]
			*to = binary.BigEndian.AppendUint64(append(*to, h[:8]...), uint64(b.low))
		}
		v.fail(ctx.Err())
	})
	return &buckets
}

func bucketOf(hash []byte) int { return int(binary.BigEndian.Uint16(hash) >> (16 - lookupBits)) }

// commitsOf returns the commits of a file, in order, that have rows of a message with this
// hash; now and then of another one.
func (v *view) commitsOf(hash []byte) (list []window) {
	if !v.lookup {
		v.readBatches()
		for _, b := range v.batches {
			if b.has(hash) {
				list = append(list, b.window)
			}
		}
		return list
	}
	var firsts []int64
	v.query("SELECT entries FROM lookup WHERE bucket = ?", []any{bucketOf(hash)}, func(s *sqlite.Stmt) bool {
		entries := make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, entries)
		for e := entries; len(e) >= entrySize; e = e[entrySize:] {
			if string(e[:8]) == string(hash) {
				firsts = append(firsts, int64(binary.BigEndian.Uint64(e[8:])))
			}
		}
		return true
	})
	for _, first := range firsts {
		if last, ok := v.int64("SELECT last FROM batch WHERE first = ?", first); ok {
			list = append(list, window{first, last})
		}
	}
	return list
}
