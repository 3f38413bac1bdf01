package write

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"
)

// threePerFile is a log of messages an hour apart, three to a file.
func threePerFile(t *testing.T, messages int) (path string, rows []activitylog.Row) {
	t.Helper()
	var commits [][]activitylog.Row
	for i := range messages {
		commits = append(commits, logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Hour)))
	}
	path = filepath.Join(t.TempDir(), "activity.db")
	store(t, path, &Options{SegmentRows: 14, SegmentAge: 100 * 365 * 24 * time.Hour}, commits...) // every fifth message has two rows, others six
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := logtest.Sealed(t, path); len(got) != (messages-1)/3 {
		t.Fatalf("sealed are %v", got)
	}
	return path, slices.Concat(commits...)
}

// fileOf returns the path of a sealed file, or of the live one for 0.
func fileOf(path string, n int) string {
	if n == 0 {
		return path
	}
	return segment.Path(path, n)
}

func TestRetention_Bounds(t *testing.T) {
	for text, want := range map[string]activitylog.Retention{
		"1KB": {Bytes: 1000}, "1MB": {Bytes: 1e6}, "1GB": {Bytes: 1e9}, "1TB": {Bytes: 1e12}, "1KiB": {Bytes: 1 << 10}, "1MiB": {Bytes: 1 << 20},
		"1GiB": {Bytes: 1 << 30}, "1TiB": {Bytes: 1 << 40}, "0.0009765625KiB": {Bytes: 1}, "1048575TiB": {Bytes: 1048575 << 40}, "1ns": {Age: 1}, "1d": {Age: 24 * time.Hour},
	} {
		if k, err := activitylog.ParseRetention(text); err != nil || k != want || k.Forever() {
			t.Errorf("%s is %+v, %v", text, k, err)
		}
	}
	for _, text := range []string{"0.0009KiB", "1048576TiB", "0ns", "-1ns", "1KiBs", "KB"} {
		if k, err := activitylog.ParseRetention(text); err == nil || k != (activitylog.Retention{}) {
			t.Errorf("%s is %+v, %v", text, k, err)
		}
	}
	for want, k := range map[string]activitylog.Retention{
		"1 KiB": {Bytes: 1 << 10}, "1023 bytes": {Bytes: 1023}, "1 MiB": {Bytes: 1 << 20}, "1023.9990234375 KiB": {Bytes: 1<<20 - 1}, "1 TiB": {Bytes: 1 << 40},
		"forever": {}, "1 days": {Age: 24 * time.Hour}, "24h0m1s": {Age: 24*time.Hour + time.Second},
	} {
		if got := k.String(); got != want {
			t.Errorf("%+v is %q; want %q", k, got, want)
		}
	}
	for text, want := range map[string]time.Duration{"0d": 0, "1.5d": 36 * time.Hour, "36499d": 36499 * 24 * time.Hour, "90m": 90 * time.Minute} {
		if d, err := activitylog.ParseSpan(text); err != nil || d != want {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"36500d", "-0.1d", "NaNd", "xd", "d", "", "x"} {
		if d, err := activitylog.ParseSpan(text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
}

// TestReader_ReleasesPrunedFiles checks that a reader does not keep the disk space of a removed
// file.
func TestReader_ReleasesPrunedFiles(t *testing.T) {
	whole, _ := threePerFile(t, 13)
	path := copyLog(t, whole)
	r := opened(t, path)
	read := func() {
		t.Helper()
		if _, _, err := r.After(t.Context(), read.Filter{}, nil, 1000); err != nil {
			t.Fatal(err)
		}
	}
	read()
	before := maps.Clone(r.Logs()[0].Sealed)
	if _, err := Prune(t.Context(), path, logtest.Epoch.Add(5*time.Hour)); err != nil {
		t.Fatal(err)
	}
	read()
	gone := 0
	for n, f := range before {
		if r.Logs()[0].Sealed[n] == nil {
			gone++
			if slices.ContainsFunc(r.Logs()[0].Pool.Idle, func(v *segment.View) bool { return v.File == f }) {
				t.Errorf("file %d is still open", n)
			}
		}
	}
	if gone != 1 || len(before) != 4 {
		t.Errorf("of %d files %d are gone", len(before), gone)
	}
}

// lastTimeOf returns the time of the last row of a message in a log of threes.
func lastTimeOf(message int) time.Time {
	list := logtest.Sent(message, logtest.Epoch.Add(time.Duration(message)*time.Hour))
	return time.UnixMicro(list[len(list)-1].At)
}

// sealedSizes returns the sizes of the first n files of a log of threes, and the numbers of their rows.
func sealedSizes(t *testing.T, path string, n int) (sizes, counts []int64) {
	for n := range n {
		info, err := os.Stat(segment.Path(path, n+1))
		if err != nil {
			t.Fatal(err)
		}
		count := int64(0)
		for i := 3 * n; i < 3*(n+1); i++ {
			count += int64(len(logtest.Sent(i, logtest.Epoch)))
		}
		sizes, counts = append(sizes, info.Size()), append(counts, count)
	}
	return sizes, counts
}

// TestPrune_RemovesOldestFiles removes files whose last row is older than a time, the oldest
// first, and no file after one that is not sealed yet.
func TestPrune_RemovesOldestFiles(t *testing.T) {
	whole, _ := threePerFile(t, 13) // sealed are messages 0 to 2, 3 to 5, 6 to 8, and 9 to 11
	sizes, counts := sealedSizes(t, whole, 4)
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
	now := logtest.Epoch.Add(100 * day)
	before := func(at time.Time) func(ctx context.Context, path string) (Removal, error) {
		return func(ctx context.Context, path string) (Removal, error) { return Prune(ctx, path, at) }
	}
	keep := func(k activitylog.Retention) func(ctx context.Context, path string) (Removal, error) {
		return func(ctx context.Context, path string) (Removal, error) { return enforce(ctx, k, path, now) }
	}
	unsealed := func(path string) error { return os.Remove(segment.Path(path, 2) + segment.ChecksumSuffix) }
	wal := func(path string) error { return os.WriteFile(path+"-wal", make([]byte, 1), 0o600) }
	for name, c := range map[string]struct {
		change func(path string) error
		prune  func(ctx context.Context, path string) (Removal, error)
		files  int
	}{
		"older than the first row":           {nil, before(logtest.Epoch), 0},
		"older than the last of a file":      {nil, before(lastTimeOf(2)), 0},
		"as that of the next microsecond":    {nil, before(lastTimeOf(2).Add(time.Microsecond)), 1},
		"two files":                          {nil, before(lastTimeOf(5).Add(time.Hour)), 2},
		"all":                                {nil, before(lastTimeOf(11).Add(time.Hour)), 4},
		"one is not sealed":                  {unsealed, before(lastTimeOf(11).Add(time.Hour)), 1},
		"a span":                             {nil, keep(activitylog.Retention{Age: now.Sub(lastTimeOf(5)) - time.Microsecond}), 2},
		"a longer span":                      {nil, keep(activitylog.Retention{Age: now.Sub(lastTimeOf(5))}), 1},
		"all bytes":                          {nil, keep(activitylog.Retention{Bytes: total}), 0},
		"a byte less":                        {nil, keep(activitylog.Retention{Bytes: total - 1}), 1},
		"all, but for a write-ahead log":     {wal, keep(activitylog.Retention{Bytes: total}), 1},
		"as many as are left by one":         {nil, keep(activitylog.Retention{Bytes: total - sizes[0]}), 1},
		"a byte less than those":             {nil, keep(activitylog.Retention{Bytes: total - sizes[0] - 1}), 2},
		"no byte":                            {nil, keep(activitylog.Retention{Bytes: 1}), 4},
		"no byte, and one is not sealed yet": {unsealed, keep(activitylog.Retention{Bytes: 1}), 1},
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
		if got := logtest.Sealed(t, path); len(got) != 4-c.files || len(got) > 0 && got[0] != c.files+1 {
			t.Errorf("%s: left are %v", name, got)
		}
		if trees := len(segment.KeptTrees(path)); trees != c.files {
			t.Errorf("%s: %d files of hashes", name, trees)
		}
		for n := 1; n <= c.files; n++ {
			if left, _ := filepath.Glob(segment.Path(path, n) + "*"); len(left) > 0 {
				t.Errorf("%s: left are %q", name, left)
			}
		}
	}
}

func TestPrune_StopsWithContext(t *testing.T) {
	path, _ := threePerFile(t, 13)
	ended, end := context.WithCancel(t.Context())
	end()
	if r, err := Prune(ended, path, logtest.Epoch.Add(100*24*time.Hour)); !errors.Is(err, context.Canceled) || r != (Removal{}) || len(logtest.Sealed(t, path)) != 4 {
		t.Errorf("after its end it prunes %+v, %v", r, err)
	}
}

// TestPrune_KeepsProofs removes two files: the kept hashes prove the removed rows, and every
// remaining message can be proved.
func TestPrune_KeepsProofs(t *testing.T) {
	path, rows := threePerFile(t, 13)
	if _, err := Prune(t.Context(), path, lastTimeOf(5).Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	a, told := audited(t, path, nil)
	if told != "" || a.Removed != 6 || a.Signed != a.Entries || a.LastRow != int64(len(rows)) {
		t.Errorf("%+v: %s", a, told)
	}
	key, err := audit.VerifierKey(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 13 {
		proofs, err := audit.Prove(t.Context(), opened(t, path), logtest.Sent(i, logtest.Epoch)[0].MessageID, "")
		if i < 6 {
			if !errors.Is(err, read.ErrUnknownMessage) {
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

// TestProve_Refusals also checks the reasons.
func TestProve_Refusals(t *testing.T) {
	path, _ := threePerFile(t, 8)
	kept := func(n int) string {
		v, err := segment.Open(fileOf(path, n))
		if err != nil {
			t.Fatal(err)
		}
		defer v.Conn.Close()
		text := ""
		v.Checkpoints(" ORDER BY size DESC LIMIT 1", func(c merkle.Checkpoint, _ int64) { text = c.Note })
		return text
	}
	id := func(i int) string { return logtest.Sent(i, logtest.Epoch)[0].MessageID }
	removed := func(n int) func(path string) error {
		return func(path string) error { return os.Remove(segment.Path(path, n)) }
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
		"later than the checkpoint":        {nil, id(3), kept(1), "it is later than the given checkpoint"},
		"by no checkpoint":                 {nil, id(0), "rubbish", "this is not a checkpoint"},
		"one that is not there":            {nil, "nobody", "", "no log has this message"},
		"not signed":                       {unsigned, id(7), "", "later than the last signed checkpoint"},
		"signed by the next file":          {func(path string) error { tamper(t, segment.Path(path, 1), "DELETE FROM checkpoint"); return nil }, id(0), "", ""},
		"an older file is gone":            {removed(1), id(4), kept(2), ""}, // the next has its largest parts
		"a file before the checkpoint":     {removed(2), id(0), kept(0), "the hash of entry"},
		"of a checkpoint of another order": {nil, id(0), strings.Replace(kept(1), strings.Split(kept(1), "\n")[2], strings.Split(kept(2), "\n")[2], 1), "it differs from what was signed"},
	} {
		at := copyLog(t, path)
		if c.change != nil {
			if err := c.change(at); err != nil {
				t.Fatal(err)
			}
		}
		proofs, err := audit.Prove(t.Context(), opened(t, at), c.id, c.kept)
		if c.want == "" && (err != nil || len(proofs) != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || proofs != nil) {
			t.Errorf("%s: %d proofs, %v; want %q", name, len(proofs), err, c.want)
		}
	}
	other, _ := threePerFile(t, 1)
	proofs, err := audit.Prove(t.Context(), opened(t, path, other), id(0), "")
	if err != nil || len(proofs) != 2 || proofs[0].Log != path || proofs[1].Log != other || proofs[0].Index != 0 || proofs[0].Size < 1 || proofs[0].Size > 3 || proofs[0].Key == "" {
		t.Errorf("of two logs: %d proofs, %v", len(proofs), err)
	}
}

// TestVerify_FindsChangedTree changes checkpoints, trees and hashes.
func TestVerify_FindsChangedTree(t *testing.T) {
	path, _ := threePerFile(t, 8)
	other, _ := threePerFile(t, 8)
	otherKey, err := audit.VerifierKey(other)
	if err != nil {
		t.Fatal(err)
	}
	sql := func(n int, statement string) func(path string) {
		return func(path string) { tamper(t, fileOf(path, n), statement) }
	}
	pruned := func(change func(tree string, content []byte) []byte) func(path string) {
		return func(path string) { changeKeptTree(t, path, change) }
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
		"one of another log":           {sql(2, "UPDATE checkpoint SET note = '"+lastNote(t, other, 2)+"'"), 3, 8, "is of another log"},
		"one of another size":          {sql(2, "UPDATE checkpoint SET note = '"+lastNote(t, path, 1)+"'"), 3, 8, "of another log"},
		"a checkpoint that is none":    {sql(2, "UPDATE checkpoint SET note = 'x'"), 3, 8, "of another log"},
		"another root":                 {sql(2, "UPDATE checkpoint SET note = replace(note, substr(note, instr(note, '=') - 43, 44), '"+strings.Repeat("A", 43)+"=')"), 3, 8, "differ from those that were signed"},
		"a tree that begins later":     {sql(2, "UPDATE tree SET size = size + 1"), 3, 8, "7 entries were found, but 6 were recorded"},
		"a tree of other parts":        {sql(2, "UPDATE tree SET peaks = zeroblob(length(peaks))"), 3, 8, "the rows before this one do not match the hashes"},
		"no tree":                      {sql(2, "DELETE FROM tree"), 8, 8, "its rows have no hashes, though older rows have them"},
		"a row before the tree":        {sql(1, "UPDATE tree SET first = 3"), 0, 8, "differ from those that were signed"},
		"a leaf too few":               {sql(0, "UPDATE batch SET leaves = substr(leaves, 33) WHERE first = (SELECT max(first) FROM batch)"), 7, 7, "a checkpoint covers 8 entries, but only 7 exist"},
		"removed by retention":         {pruned(func(_ string, content []byte) []byte { return content }), 8, 8, ""},
		"the hashes are gone":          {pruned(func(string, []byte) []byte { return nil }), 8, 8, "0 entries were found, but 3 were recorded"},
		"the hashes are cut":           {pruned(func(_ string, content []byte) []byte { return content[:len(content)-1] }), 8, 8, "does not contain the hashes of a file of the log"},
		"a hash is gone":               {pruned(func(_ string, content []byte) []byte { return content[:len(content)-32] }), 8, 8, "2 entries were found, but 3 were recorded"},
		"the hashes have no head":      {pruned(func(string, []byte) []byte { return []byte("x") }), 8, 8, "does not contain the hashes"},
		"the hashes of another log": {pruned(func(name string, content []byte) []byte {
			return []byte(strings.Replace(string(content), `"log":"`, `"log":"x`, 1))
		}), 8, 8, "0 entries were found, but 3 were recorded"},
		"the hashes begin later": {pruned(func(name string, content []byte) []byte {
			return []byte(strings.Replace(string(content), `"size":0`, `"size":1`, 1))
		}), 8, 8, "the hashes of removed rows do not follow those before: 0 entries were found, but 1 were recorded"},
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
}

// TestLog_InFolderWithBrackets checks that all files of a log are found if its path looks like a
// pattern: sealed files, the hashes of removed rows, and the checkpoint.
func TestLog_InFolderWithBrackets(t *testing.T) {
	from, _ := threePerFile(t, 8)
	path := filepath.Join(t.TempDir(), "a[1]", filepath.Base(from))
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.Dir(from))); err != nil {
		t.Fatal(err)
	}
	changeKeptTree(t, path, func(_ string, content []byte) []byte { return content })
	if a, told := audited(t, path, nil); told != "" || a.Entries != 8 {
		t.Errorf("%d entries: %s", a.Entries, told)
	}
	want := []string{segment.KeptTreePath(segment.Path(path, 1)), segment.Path(path, 2) + segment.ChecksumSuffix, segment.Path(path, 2)}
	if files, err := read.Sealed(path, path); err != nil || !slices.Equal(files, want) {
		t.Errorf("beside the active segment are %v, %v; want %v", files, err, want)
	}
	if f, err := read.DiskUsageOf(t.Context(), path); err != nil || f.Bytes == 0 {
		t.Errorf("it takes %d bytes, %v", f.Bytes, err)
	}
	if err := os.WriteFile(merkle.CheckpointPath(path), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, nil); !strings.Contains(told, "it is damaged") {
		t.Errorf("of a damaged checkpoint it says %q", told)
	}
}

// lastNote returns the text of the newest checkpoint in a file, for an SQL statement.
func lastNote(t *testing.T, of string, n int) string {
	note := logtest.Query(t, fileOf(of, n), "SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")[0]
	return strings.ReplaceAll(note, "'", "''")
}

// changeKeptTree prunes the first file of a log, and changes the file with its hashes; nil
// removes it.
func changeKeptTree(t *testing.T, path string, change func(tree string, content []byte) []byte) {
	if _, err := Prune(t.Context(), path, logtest.Epoch.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	name := segment.KeptTreePath(segment.Path(path, 1))
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

// TestVerify_ComparesGivenCheckpoints verifies a log with its own checkpoint and key, and with those
// of another log.
func TestVerify_ComparesGivenCheckpoints(t *testing.T) {
	path, rows := threePerFile(t, 8)
	other, _ := threePerFile(t, 8)
	otherKey, err := audit.VerifierKey(other)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := audited(t, path, nil)
	if a.Origin != merkle.Origin(logtest.Query(t, path, "SELECT log FROM run")[0]) || a.LastRow != int64(len(rows)) || a.Unhashed+a.Removed != 0 || len(a.Keys) != 1 || a.Keys[0].From != 2 {
		t.Errorf("%+v", a)
	}
	given := []string{lastNote(t, path, 0), lastNote(t, other, 0)}
	v, err := audit.Verify(t.Context(), opened(t, path), &audit.VerifyOptions{Checkpoints: given[:1], Key: a.Keys[0].Key})
	if err != nil || !v.OK() {
		t.Errorf("with its own: %+v, %v", v.Problems, err)
	}
	if v, err = audit.Verify(t.Context(), opened(t, path), &audit.VerifyOptions{Checkpoints: given}); err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0].What, "the given checkpoint is of another log") {
		t.Errorf("with one of another log: %+v, %v", v.Problems, err)
	}
	if _, err = audit.Verify(t.Context(), opened(t, path), &audit.VerifyOptions{Checkpoints: []string{"x"}}); err == nil {
		t.Error("what is no checkpoint was taken")
	}
	if v, err = audit.Verify(t.Context(), opened(t, path, other), &audit.VerifyOptions{Checkpoints: given, Key: otherKey}); err != nil || len(v.Audits) != 2 || v.Audits[1].Log != other {
		t.Errorf("of two logs: %+v, %v", v, err)
	} else if slices.ContainsFunc(v.Problems, func(p audit.Problem) bool {
		return strings.Contains(p.What, "checkpoint") || strings.Contains(p.What, "key")
	}) {
		t.Errorf("of two logs: %+v", v.Problems)
	}
}

// refreshChecksums writes the checksums of the sealed files again, as if they had been sealed
// with this content.
func refreshChecksums(t *testing.T, path string) error {
	t.Helper()
	var errs []error
	for _, n := range logtest.Sealed(t, path) {
		errs = append(errs, os.Remove(segment.Path(path, n)+segment.ChecksumSuffix), segment.WriteChecksum(t.Context(), segment.Path(path, n)))
	}
	return errors.Join(errs...)
}
