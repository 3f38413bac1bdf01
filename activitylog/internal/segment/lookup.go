package segment

import (
	"context"
	"encoding/binary"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A sealed file has the table lookup: for the hash of each message id, the commits with rows of
// the message. It is built from the indexes of the commits, without reading rows.
//
// lookupBits is the number of leading bits of a hash that choose a row of the table.
const lookupBits = 12

// entrySize is the size of an entry: the hash and the first row of a commit.
const entrySize = 8 + 8

// addLookup creates the table lookup.
func addLookup(ctx context.Context, conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &View{Conn: conn}
	v.Query("CREATE TABLE lookup (bucket INTEGER PRIMARY KEY, entries BLOB NOT NULL)", nil, NoRow)
	for i, entries := range v.LookupBuckets(ctx) {
		if len(entries) > 0 {
			v.Query("INSERT INTO lookup (bucket, entries) VALUES (?, ?)", []any{i, entries}, NoRow)
		}
	}
	return v.Err
}

// LookupBuckets returns the content of the table lookup, computed from the commits.
func (v *View) LookupBuckets(ctx context.Context) *[1 << lookupBits][]byte {
	var buckets [1 << lookupBits][]byte
	v.eachBatch(0, func(b *Batch) {
		for h := b.Hashes; len(h) >= 8; h = h[8:] {
			to := &buckets[bucketOf(h)]
			*to = binary.BigEndian.AppendUint64(append(*to, h[:8]...), uint64(b.Low))
		}
		v.Fail(ctx.Err())
	})
	return &buckets
}

func bucketOf(hash []byte) int { return int(binary.BigEndian.Uint16(hash) >> (16 - lookupBits)) }

// commitsOf returns the commits of a file, in order, that may have rows of a message whose id has
// this hash.
func (v *View) commitsOf(hash []byte) (list []Window) {
	if !v.Lookup {
		v.readBatches()
		for _, b := range v.batches {
			if b.Has(hash) {
				list = append(list, b.Window)
			}
		}
		return list
	}
	var firsts []int64
	v.Query("SELECT entries FROM lookup WHERE bucket = ?", []any{bucketOf(hash)}, func(s *sqlite.Stmt) bool {
		for e := Blob(s, 0); len(e) >= entrySize; e = e[entrySize:] {
			if string(e[:8]) == string(hash) {
				firsts = append(firsts, int64(binary.BigEndian.Uint64(e[8:])))
			}
		}
		return true
	})
	for _, first := range firsts {
		if last, ok := v.Int64("SELECT last FROM batch WHERE first = ?", first); ok {
			list = append(list, Window{first, last})
		}
	}
	return list
}
