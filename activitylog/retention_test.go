package activitylog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// threes is a log of messages an hour apart, three to a file.
func threes(t *testing.T, messages int) (path string, rows []Row) {
	t.Helper()
	var commits [][]Row
	for i := range messages {
		commits = append(commits, sent(i, epoch.Add(time.Duration(i)*time.Hour)))
	}
	path = filepath.Join(t.TempDir(), "activity.db")
	store(t, path, &Options{SegmentRows: 14, SegmentAge: 100 * 365 * 24 * time.Hour}, commits...) // each fifth message has two rows, others six
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sealed(t, path); len(got) != (messages-1)/3 {
		t.Fatalf("sealed are %v", got)
	}
	return path, slices.Concat(commits...)
}

// fileOf returns the path of a sealed file, or of the live one for 0.
func fileOf(path string, n int) string {
	if n == 0 {
		return path
	}
	return segmentPath(path, n)
}

func TestTheBoundsOfWhatIsKept(t *testing.T) {
	for text, want := range map[string]Retention{
		"1KB": {Bytes: 1000}, "1MB": {Bytes: 1e6}, "1GB": {Bytes: 1e9}, "1TB": {Bytes: 1e12}, "1KiB": {Bytes: 1 << 10}, "1MiB": {Bytes: 1 << 20},
		"1GiB": {Bytes: 1 << 30}, "1TiB": {Bytes: 1 << 40}, "0.0009765625KiB": {Bytes: 1}, "1048575TiB": {Bytes: 1048575 << 40}, "1ns": {Age: 1}, "1d": {Age: 24 * time.Hour},
	} {
		if k, err := ParseRetention(text); err != nil || k != want || k.Forever() {
			t.Errorf("%s is %+v, %v", text, k, err)
		}
	}
	for _, text := range []string{"0.0009KiB", "1048576TiB", "0ns", "-1ns", "1KiBs", "KB"} {
		if k, err := ParseRetention(text); err == nil || k != (Retention{}) {
			t.Errorf("%s is %+v, %v", text, k, err)
		}
	}
	for want, k := range map[string]Retention{
		"1 KiB": {Bytes: 1 << 10}, "1023 bytes": {Bytes: 1023}, "1 MiB": {Bytes: 1 << 20}, "1023.9990234375 KiB": {Bytes: 1<<20 - 1}, "1 TiB": {Bytes: 1 << 40},
		"forever": {}, "1 days": {Age: 24 * time.Hour}, "24h0m1s": {Age: 24*time.Hour + time.Second},
	} {
		if got := k.String(); got != want {
			t.Errorf("%+v is %q; want %q", k, got, want)
		}
	}
	for text, want := range map[string]time.Duration{"0d": 0, "1.5d": 36 * time.Hour, "36499d": 36499 * 24 * time.Hour, "90m": 90 * time.Minute} {
		if d, err := ParseSpan(text); err != nil || d != want {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"36500d", "-0.1d", "NaNd", "xd", "d", "", "x"} {
		if d, err := ParseSpan(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
}

// TestAReaderLetsGoOfWhatWasPruned: the file would keep its room on the disk until the reader ends.
func TestAReaderLetsGoOfWhatWasPruned(t *testing.T) {
	whole, _ := threes(t, 13)
	path := copyLog(t, whole)
	r := opened(t, path)
	read := func() {
		t.Helper()
		if _, _, err := r.After(t.Context(), Filter{}, nil, 1000); err != nil {
			t.Fatal(err)
		}
	}
	read()
	before := maps.Clone(r.sources[0].sealed)
	if _, err := Prune(t.Context(), path, epoch.Add(5*time.Hour)); err != nil {
		t.Fatal(err)
	}
	read()
	gone := 0
	for n, f := range before {
		if r.sources[0].sealed[n] == nil {
			gone++
			if slices.ContainsFunc(r.sources[0].pool.idle, func(v *view) bool { return v.file == f }) {
				t.Errorf("file %d is still open", n)
			}
		}
	}
	if gone != 1 || len(before) != 4 {
		t.Errorf("of %d files %d are gone", len(before), gone)
	}
}

// TestWhatIsPruned: files whose last row is older than a time, the oldest first, and no file
// behind one that is not yet sealed.
func TestWhatIsPruned(t *testing.T) {
	whole, rows := threes(t, 13) // sealed are messages 0 to 2, 3 to 5, 6 to 8, and 9 to 11
	last := func(message int) time.Time {
		list := sent(message, epoch.Add(time.Duration(message)*time.Hour))
		return time.UnixMicro(list[len(list)-1].At)
	}
	sizes := []int64{}
	counts := []int64{}
	for n := 1; n <= 4; n++ {
		info, err := os.Stat(segmentPath(whole, n))
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
		count := int64(0)
		for i := 3 * (n - 1); i < 3*n; i++ {
			count += int64(len(sent(i, epoch)))
		}
		counts = append(counts, count)
	}
	sum := func(list []int64, n int) (s int64) {
		for _, x := range list[:n] {
			s += x
		}
		return s
	}
	info, err := os.Stat(whole)
	if err != nil {
		t.Fatal(err)
	}
	total := sum(sizes, 4) + info.Size()
	const day = 24 * time.Hour
	now := epoch.Add(100 * day)
	before := func(at time.Time) func(ctx context.Context, path string) (Removal, error) {
		return func(ctx context.Context, path string) (Removal, error) { return Prune(ctx, path, at) }
	}
	keep := func(k Retention) func(ctx context.Context, path string) (Removal, error) {
		return func(ctx context.Context, path string) (Removal, error) { return k.enforce(ctx, path, now) }
	}
	unsealed := func(path string) error { return os.Remove(segmentPath(path, 2) + checksumSuffix) }
	wal := func(path string) error { return os.WriteFile(path+"-wal", make([]byte, 1), 0o600) }
	for name, c := range map[string]struct {
		change func(path string) error
		prune  func(ctx context.Context, path string) (Removal, error)
		files  int
	}{
		"older than the first row":           {nil, before(epoch), 0},
		"older than the last of a file":      {nil, before(last(2)), 0},
		"as that of the next microsecond":    {nil, before(last(2).Add(time.Microsecond)), 1},
		"two files":                          {nil, before(last(5).Add(time.Hour)), 2},
		"all":                                {nil, before(last(11).Add(time.Hour)), 4},
		"one is not sealed":                  {unsealed, before(last(11).Add(time.Hour)), 1},
		"a span":                             {nil, keep(Retention{Age: now.Sub(last(5)) - time.Microsecond}), 2},
		"a longer span":                      {nil, keep(Retention{Age: now.Sub(last(5))}), 1},
		"all bytes":                          {nil, keep(Retention{Bytes: total}), 0},
		"a byte less":                        {nil, keep(Retention{Bytes: total - 1}), 1},
		"all, but for a write-ahead log":     {wal, keep(Retention{Bytes: total}), 1},
		"as many as are left by one":         {nil, keep(Retention{Bytes: total - sizes[0]}), 1},
		"a byte less than those":             {nil, keep(Retention{Bytes: total - sizes[0] - 1}), 2},
		"no byte":                            {nil, keep(Retention{Bytes: 1}), 4},
		"no byte, and one is not sealed yet": {unsealed, keep(Retention{Bytes: 1}), 1},
	} {
		path := copyLog(t, whole)
		if c.change != nil {
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
		}
		r, err := c.prune(t.Context(), path)
		want := Removal{Segments: c.files, Rows: sum(counts, c.files), Bytes: sum(sizes, c.files)}
		if err != nil || r != want {
			t.Errorf("%s: %+v, %v; want %+v", name, r, err, want)
		}
		if got := sealed(t, path); len(got) != 4-c.files || len(got) > 0 && got[0] != c.files+1 {
			t.Errorf("%s: left are %v", name, got)
		}
		if trees := len(keptTrees(path)); trees != c.files {
			t.Errorf("%s: %d files of hashes", name, trees)
		}
		for n := 1; n <= c.files; n++ {
			if left, _ := filepath.Glob(segmentPath(path, n) + "*"); len(left) > 0 {
				t.Errorf("%s: left are %q", name, left)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	path := copyLog(t, whole)
	if r, err := Prune(ended, path, now); !errors.Is(err, context.Canceled) || r != (Removal{}) || len(sealed(t, path)) != 4 {
		t.Errorf("after its end it prunes %+v, %v", r, err)
	}
	// What is removed is proven by what is kept of it, and every message that is left.
	if _, err := Prune(t.Context(), path, last(5).Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	a, told := audited(t, path, nil)
	if told != "" || a.Removed != 6 || a.Signed != a.Entries || a.LastRow != int64(len(rows)) {
		t.Errorf("%+v: %s", a, told)
	}
	key, err := VerifierKey(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 13 {
		proofs, err := opened(t, path).Prove(t.Context(), sent(i, epoch)[0].MessageID, "")
		if i < 6 {
			if !errors.Is(err, ErrUnknownMessage) {
				t.Errorf("message %d, which left: %v", i, err)
			}
			continue
		}
		if err != nil || len(proofs) != 1 {
			t.Fatalf("message %d: %d proofs, %v", i, len(proofs), err)
		}
		proven(t, proofs[0].Text, key)
	}
}

// TestWhatIsNotProven, and why.
func TestWhatIsNotProven(t *testing.T) {
	path, _ := threes(t, 8)
	kept := func(n int) string {
		v, err := openView(fileOf(path, n))
		if err != nil {
			t.Fatal(err)
		}
		defer v.conn.Close()
		text := ""
		v.checkpoints(" ORDER BY size DESC LIMIT 1", func(c checkpoint, _ int64) { text = c.note })
		return text
	}
	id := func(i int) string { return sent(i, epoch)[0].MessageID }
	removed := func(n int) func(path string) error {
		return func(path string) error { return os.Remove(segmentPath(path, n)) }
	}
	unsigned := func(path string) error { tamper(t, path, "DELETE FROM checkpoint"); return nil }
	for name, c := range map[string]struct {
		change func(path string) error
		id     string
		kept   string
		want   string
	}{
		"one that is there":                {nil, id(0), "", ""},
		"by a checkpoint that was kept":    {nil, id(2), kept(1), ""},
		"by a later one":                   {nil, id(2), kept(0), ""},
		"later than the checkpoint":        {nil, id(3), kept(1), "it is later than the checkpoint that was given"},
		"by no checkpoint":                 {nil, id(0), "rubbish", "this is no checkpoint"},
		"one that is not there":            {nil, "nobody", "", "no log holds this message"},
		"not signed":                       {unsigned, id(7), "", "later than the last signed checkpoint"},
		"signed by the next file":          {func(path string) error { tamper(t, segmentPath(path, 1), "DELETE FROM checkpoint"); return nil }, id(0), "", ""},
		"an older file is gone":            {removed(1), id(4), kept(2), ""}, // the next has its largest parts
		"a file before the checkpoint":     {removed(2), id(0), kept(0), "the hash of entry"},
		"of a checkpoint of another order": {nil, id(0), strings.Replace(kept(1), strings.Split(kept(1), "\n")[2], strings.Split(kept(2), "\n")[2], 1), "it is not what was signed"},
	} {
		at := copyLog(t, path)
		if c.change != nil {
			if err := c.change(at); err != nil {
				t.Fatal(err)
			}
		}
		proofs, err := opened(t, at).Prove(t.Context(), c.id, c.kept)
		if c.want == "" && (err != nil || len(proofs) != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || proofs != nil) {
			t.Errorf("%s: %d proofs, %v; want %q", name, len(proofs), err, c.want)
		}
	}
	other, _ := threes(t, 1)
	proofs, err := opened(t, path, other).Prove(t.Context(), id(0), "")
	if err != nil || len(proofs) != 2 || proofs[0].Log != path || proofs[1].Log != other || proofs[0].Index != 0 || proofs[0].Size < 1 || proofs[0].Size > 3 || proofs[0].Key == "" {
		t.Errorf("of two logs: %d proofs, %v", len(proofs), err)
	}
}

// TestWhatAnAuditFinds of what was done to checkpoints, trees and hashes.
func TestWhatAnAuditFinds(t *testing.T) {
	path, rows := threes(t, 8)
	other, _ := threes(t, 8)
	otherKey, err := VerifierKey(other)
	if err != nil {
		t.Fatal(err)
	}
	sql := func(n int, statement string) func(path string) {
		return func(path string) { tamper(t, fileOf(path, n), statement) }
	}
	note := func(of string, n int) string {
		return strings.ReplaceAll(query(t, fileOf(of, n), "SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")[0], "'", "''")
	}
	pruned := func(change func(tree string, content []byte) []byte) func(path string) {
		return func(path string) {
			if _, err := Prune(t.Context(), path, epoch.Add(3*time.Hour)); err != nil {
				t.Fatal(err)
			}
			name := treePath(segmentPath(path, 1))
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if content = change(name, content); content == nil {
				err = os.Remove(name)
			} else {
				err = os.WriteFile(name, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(path string)
		signed  int64
		entries int64
		want    string
	}{
		"nothing":                      {func(string) {}, 8, 8, ""},
		"the key beside it is another": {sql(1, "UPDATE checkpoint SET key = '"+otherKey+"'"), 8, 8, "the checkpoint of 3 entries is not signed by the key beside it"},
		"the key beside it is none":    {sql(1, "UPDATE checkpoint SET key = 'x'"), 8, 8, "the checkpoint of 3 entries is not signed by the key beside it"},
		"one of another log":           {sql(2, "UPDATE checkpoint SET note = '"+note(other, 2)+"'"), 3, 8, "is of another log"},
		"one of another size":          {sql(2, "UPDATE checkpoint SET note = '"+note(path, 1)+"'"), 3, 8, "of another log"},
		"a checkpoint that is none":    {sql(2, "UPDATE checkpoint SET note = 'x'"), 3, 8, "of another log"},
		"another root":                 {sql(2, "UPDATE checkpoint SET note = replace(note, substr(note, instr(note, '=') - 43, 44), '"+strings.Repeat("A", 43)+"=')"), 3, 8, "are not those that were signed"},
		"a tree that begins later":     {sql(2, "UPDATE tree SET size = size + 1"), 3, 8, "7 entries are there, where 6 were"},
		"a tree of other parts":        {sql(2, "UPDATE tree SET peaks = zeroblob(length(peaks))"), 3, 8, "what comes before this row is not what was hashed"},
		"no tree":                      {sql(2, "DELETE FROM tree"), 8, 8, "its rows have no hashes, though older rows have them"},
		"a row before the tree":        {sql(1, "UPDATE tree SET first = 3"), 0, 8, "are not those that were signed"},
		"a leaf too few":               {sql(0, "UPDATE batch SET leaves = substr(leaves, 33) WHERE first = (SELECT max(first) FROM batch)"), 7, 7, "a checkpoint counts 8 entries, and 7 are there"},
		"removed by retention":         {pruned(func(_ string, content []byte) []byte { return content }), 8, 8, ""},
		"the hashes are gone":          {pruned(func(string, []byte) []byte { return nil }), 8, 8, "0 entries are there, where 3 were"},
		"the hashes are cut":           {pruned(func(_ string, content []byte) []byte { return content[:len(content)-1] }), 8, 8, "does not have the hashes of a file of the log"},
		"a hash is gone":               {pruned(func(_ string, content []byte) []byte { return content[:len(content)-32] }), 8, 8, "2 entries are there, where 3 were"},
		"the hashes have no head":      {pruned(func(string, []byte) []byte { return []byte("x") }), 8, 8, "does not have the hashes"},
		"the hashes of another log": {pruned(func(name string, content []byte) []byte {
			return []byte(strings.Replace(string(content), `"log":"`, `"log":"x`, 1))
		}), 8, 8, "0 entries are there, where 3 were"},
		"the hashes begin later": {pruned(func(name string, content []byte) []byte {
			return []byte(strings.Replace(string(content), `"size":0`, `"size":1`, 1))
		}), 8, 8, "the hashes of removed rows do not follow those before: 0 entries are there, where 1 were"},
	} {
		at := copyLog(t, path)
		c.change(at)
		if err := refreshChecksums(t, at); err != nil {
			t.Fatal(err)
		}
		a, told := audited(t, at, nil)
		if c.want == "" && told != "" || !strings.Contains(told, c.want) {
			t.Errorf("%s: it says %q; want %q", name, told, c.want)
		}
		if c.signed != a.Signed || c.entries != a.Entries {
			t.Errorf("%s: signed are %d of %d: %s", name, a.Signed, a.Entries, told)
		}
	}
	a, _ := audited(t, path, nil)
	if a.Origin != originOf(query(t, path, "SELECT log FROM run")[0]) || a.LastRow != int64(len(rows)) || a.Unhashed+a.Removed != 0 || len(a.Keys) != 1 || a.Keys[0].From != 2 {
		t.Errorf("%+v", a)
	}
	given := []string{note(path, 0), note(other, 0)}
	v, err := opened(t, path).Verify(t.Context(), &VerifyOptions{Checkpoints: given[:1], Key: a.Keys[0].Key})
	if err != nil || !v.OK() {
		t.Errorf("with its own: %+v, %v", v.Problems, err)
	}
	if v, err = opened(t, path).Verify(t.Context(), &VerifyOptions{Checkpoints: given}); err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, "the checkpoint that was given is of another log") {
		t.Errorf("with one of another log: %+v, %v", v.Problems, err)
	}
	if _, err = opened(t, path).Verify(t.Context(), &VerifyOptions{Checkpoints: []string{"x"}}); err == nil {
		t.Error("what is no checkpoint was taken")
	}
	if v, err = opened(t, path, other).Verify(t.Context(), &VerifyOptions{Checkpoints: given, Key: otherKey}); err != nil || len(v.Audits) != 2 || v.Audits[1].Log != other {
		t.Errorf("of two logs: %+v, %v", v, err)
	} else if slices.ContainsFunc(v.Problems, func(p Problem) bool { return strings.Contains(p.What, "checkpoint") || strings.Contains(p.What, "key") }) {
		t.Errorf("of two logs: %+v", v.Problems)
	}
	// Checkpoints that were kept are held against the tree by their size, whatever their order.
	list := heldCheckpoints(filepath.Join(t.TempDir(), "activity.db"), []string{note(path, 0), "x", note(path, 1), note(other, 2), note(path, 2)})
	audit := &treeVerifier{audit: &Audit{Origin: a.Origin}}
	audit.addHeld(list)
	if got := fmt.Sprint(len(audit.held), audit.held[0].size, audit.held[1].size, audit.held[2].size); got != "3 3 6 8" {
		t.Errorf("held are %s", got)
	}
}

// refreshChecksums makes the sealed files look as if they were sealed as they are.
func refreshChecksums(t *testing.T, path string) error {
	t.Helper()
	var errs []error
	for _, n := range sealed(t, path) {
		errs = append(errs, os.Remove(segmentPath(path, n)+checksumSuffix), writeChecksum(t.Context(), segmentPath(path, n)))
	}
	return errors.Join(errs...)
}
