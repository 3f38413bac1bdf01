package write

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"

	"github.com/rs/zerolog"
	formats "github.com/transparency-dev/formats/log"
	tlogproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// audited returns what Verify finds, and the problems as one text.
func audited(t *testing.T, path string, opts *audit.VerifyOptions) (*audit.Audit, string) {
	t.Helper()
	v, err := audit.Verify(t.Context(), opened(t, path), opts)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, p := range v.Problems {
		fmt.Fprintf(&told, "%s row %d: %s\n", filepath.Base(p.Log), p.ID, p.What)
	}
	return v.Audits[0], told.String()
}

// signedLog is a log of at least 60 messages, in some sealed files and a live one; the bus
// was stopped.
func signedLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	var commits [][]activitylog.Row
	for i := range 60 {
		commits = append(commits, logtest.Sent(i, time.Now()))
	}
	for i := range 5 { // the live file has some, too
		commits = append(commits, logtest.Sent(5000+i, time.Now()))
	}
	store(t, path, &Options{SegmentRows: 40}, commits...)
	return path
}

// lastMessage is the last message of that log.
var lastMessage = logtest.Sent(5004, logtest.Epoch)[0].MessageID

// tamper changes a file with SQLite's own means.
func tamper(t *testing.T, path, sql string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(conn, sql, nil), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyLog copies a log, so that it can be damaged.
func copyLog(t *testing.T, path string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "data"), os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(to, "data", filepath.Base(path))
}

// TestVerify_UntouchedLogIsSigned checks that the whole log is in the tree after a
// clean stop.
func TestVerify_UntouchedLogIsSigned(t *testing.T) {
	path := signedLog(t)
	key, err := audit.VerifierKey(path)
	if err != nil {
		t.Fatal(err)
	}
	a, told := audited(t, path, &audit.VerifyOptions{Key: key})
	last := logtest.Query(t, path, "SELECT max(id) FROM event")[0]
	if told != "" || a.Entries == 0 || a.Signed != a.Entries || fmt.Sprint(a.LastRow) != last || len(a.Keys) != 1 || a.Keys[0].Key != key {
		t.Errorf("%+v: %s", a, told)
	}
	if info, err := os.Stat(merkle.KeyPath(path)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	other := strings.Replace(key, "+", "+0", 1)
	if _, told := audited(t, path, &audit.VerifyOptions{Key: other}); !strings.Contains(told, "no checkpoint is signed by the key") {
		t.Error(told)
	}
}

// TestVerify_StopAfterRotationIsNotAFault uses an active file without rows, which is signed
// nevertheless.
func TestVerify_StopAfterRotationIsNotAFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	for i := range 3 {
		store(t, path, &Options{SegmentRows: 1}, logtest.Sent(i, time.Now()))
		if a, told := audited(t, path, nil); told != "" || a.Entries != int64(i+1) || a.Signed != a.Entries || fmt.Sprint(a.LastRow) != logtest.Query(t, segment.Path(path, i+1), "SELECT max(id) FROM event")[0] {
			t.Errorf("after file %d: %+v: %s", i+1, a, told)
		}
	}
}

// TestVerify_NamesFirstAlteredRow alters a log with SQLite's own means.
func TestVerify_NamesFirstAlteredRow(t *testing.T) {
	path := signedLog(t)
	second := segment.Path(path, 2)
	middle := logtest.Query(t, second, "SELECT id FROM event WHERE kind = 1 ORDER BY id LIMIT 1 OFFSET 3")[0]
	recent := logtest.Query(t, path, "SELECT id FROM event WHERE kind = 1 ORDER BY id LIMIT 1")[0]
	tail := logtest.Query(t, path, "SELECT max(id) FROM event")[0]
	swap := "UPDATE event SET id = -1 WHERE id = %[1]s; UPDATE event SET id = %[1]s WHERE id = %[1]s + 1; UPDATE event SET id = %[1]s + 1 WHERE id = -1"
	for name, c := range map[string]struct {
		file, sql, row, what string
	}{
		"a byte of a sealed payload": {second, "UPDATE event SET payload = replace(payload, '\"type\"', '\"typo\"') WHERE id = %[1]s", middle, "altered"},
		"a byte of a live payload":   {path, "UPDATE event SET payload = replace(payload, '\"type\"', '\"typo\"') WHERE id = %[1]s", recent, "altered"},
		"a time":                     {second, "UPDATE event SET at = at + 1 WHERE id = %[1]s", middle, "altered"},
		"the type of a value":        {second, "UPDATE event SET payload = CAST(payload AS BLOB) WHERE id = %[1]s", middle, "altered"},
		"an actor that is not text":  {path, "UPDATE event SET actor = CAST(x'ff' AS TEXT) WHERE id = %[1]s", recent, "altered"},
		"a row removed":              {second, "DELETE FROM event WHERE id = %[1]s", middle, "removed"},
		"a live row removed":         {path, "DELETE FROM event WHERE id = %[1]s", recent, "removed"},
		"two rows swapped":           {second, swap, middle, ""}, // moved, or altered if they are from two commits
		"two live rows swapped":      {path, swap, recent, "moved"},
		"a row added":                {path, "INSERT INTO event SELECT id + 1, at, kind, msg, rpc_id, actor, topic, message_id, payload, status, error FROM event WHERE id = %[1]s", tail, "added"},
		"the last row cut":           {path, "DELETE FROM event WHERE id = %[1]s", tail, "removed"},
		"the tail cut with its hashes": {path, "DELETE FROM event WHERE id >= (SELECT max(first) FROM batch); DELETE FROM batch WHERE first = (SELECT max(first) FROM batch)",
			"", "this row and later ones were removed"},
		"the tail cut with all that knows of it": {path, `DELETE FROM event WHERE id >= (SELECT max(first) FROM batch); DELETE FROM batch WHERE first = (SELECT max(first) FROM batch);
			DELETE FROM checkpoint`, "", "cut before this row"},
		"a commit removed": {second, `DELETE FROM event WHERE id BETWEEN (SELECT min(first) FROM batch WHERE first > %[1]s) AND (SELECT min(last) FROM batch WHERE first > %[1]s);
			DELETE FROM batch WHERE first = (SELECT min(first) FROM batch WHERE first > %[1]s)`, middle, "were removed together with their hashes"},
		"the hashes of a commit": {second, "UPDATE batch SET leaves = zeroblob(length(leaves)) WHERE first <= %[1]s AND last >= %[1]s", middle, "or their hash was altered"},
	} {
		t.Run(name, func(t *testing.T) {
			at := copyLog(t, path)
			file := filepath.Join(filepath.Dir(at), filepath.Base(c.file))
			sql := c.sql
			if strings.Contains(sql, "%[1]s") {
				sql = fmt.Sprintf(sql, c.row)
			}
			row := c.row
			if strings.Contains(c.what, "added") {
				row = logtest.Query(t, path, "SELECT max(id) + 1 FROM event")[0]
			}
			tamper(t, file, sql)
			_, told := audited(t, at, nil)
			if strings.Contains(name, "cut with") || strings.Contains(name, "commit") {
				row = ""
			}
			if first, _, _ := strings.Cut(told[strings.Index(told+"\n", filepath.Base(file)+" row "+row):], "\n"); !strings.Contains(told, c.what) || row != "" && !strings.Contains(first, c.what) {
				t.Errorf("row %s: it says\n%s", row, told)
			}
		})
	}
}

// TestVerify_FindsRewrittenHashes rewrites rows with their hashes: the signature does
// not match, and the problem names the checkpoints around them.
func TestVerify_FindsRewrittenHashes(t *testing.T) {
	path := signedLog(t)
	id := logtest.Query(t, path, "SELECT id FROM event WHERE kind = 1 ORDER BY id LIMIT 1")[0]
	tamper(t, path, "UPDATE event SET topic = 'agent:other' WHERE id = "+id)
	tamper(t, path, "UPDATE batch SET leaves = NULL")
	w := NewWriter(path, nil)
	stop := running(t, w) // it hashes what has no hashes
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, nil); !strings.Contains(told, "differ from those that were signed") {
		t.Errorf("it says %s", told)
	}
}

// TestVerify_FindsReplacedFile also covers a missing file.
func TestVerify_FindsReplacedFile(t *testing.T) {
	path := signedLog(t)
	for name, damage := range map[string]func(dir string) error{
		"replaced": func(dir string) error {
			return os.Rename(filepath.Join(dir, "activity-000001.db"), filepath.Join(dir, "activity-000002.db"))
		},
		"gone": func(dir string) error { return os.Remove(filepath.Join(dir, "activity-000001.db")) },
	} {
		at := copyLog(t, path)
		if err := damage(filepath.Dir(at)); err != nil {
			t.Fatal(err)
		}
		if _, told := audited(t, at, nil); !strings.Contains(told, "a file was removed or replaced") && !strings.Contains(told, "removed") {
			t.Errorf("%s: it says %q", name, told)
		}
	}
}

// TestVerify_FindsRollbackByKeptCheckpoint checks that a log that was rolled back as a
// whole looks like one that ended there. Only a checkpoint kept elsewhere distinguishes
// them; the bus reports that at startup, and keeps the checkpoint.
func TestVerify_FindsRollbackByKeptCheckpoint(t *testing.T) {
	path := signedLog(t)
	old := copyLog(t, path)
	w := NewWriter(path, nil)
	stop := running(t, w)
	w.Append(logtest.Sent(1000, time.Now())...)
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(merkle.CheckpointPath(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, old, nil); told != "" {
		t.Errorf("nothing can tell it, and it says %s", told)
	}
	if _, told := audited(t, old, &audit.VerifyOptions{Checkpoints: []string{string(kept)}}); !strings.Contains(told, "older copy was restored") {
		t.Errorf("it says %q", told)
	}
	// The checkpoint of the newer one was left there.
	if err := os.WriteFile(merkle.CheckpointPath(old), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	again := NewWriter(old, nil)
	stop = running(t, again)
	for i := range 5 {
		again.Append(logtest.Sent(2000+i, time.Now())...)
	}
	mustSync(t, again)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, old, nil); !strings.Contains(told, "rewritten, or an older copy was restored and continued") {
		t.Errorf("it says %q", told)
	}
}

// TestVerify_ReportsADamagedCheckpoint damages the checkpoint beside the log: verify and the
// bus report it, and the bus writes it again.
func TestVerify_ReportsADamagedCheckpoint(t *testing.T) {
	path := signedLog(t)
	whole, err := os.ReadFile(merkle.CheckpointPath(path))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(merkle.CheckpointPath(path)+".sum", []byte("the operator's own file"))
	if _, told := audited(t, path, nil); told != "" {
		t.Errorf("of another file it says %s", told)
	}
	lines := strings.Split(string(whole), "\n")
	altered := []string{
		"x" + string(whole), string(whole[1:]), // another origin
		strings.Replace(string(whole), "\n", "\n9", 1), strings.Replace(string(whole), lines[1], "1", 1), // another size
		strings.Replace(string(whole), lines[2], strings.Repeat("A", 43)+"=", 1), // another root
	}
	for _, content := range altered {
		if _, told := audited(t, path, &audit.VerifyOptions{Checkpoints: []string{content}}); strings.Count(told, "\n") != 1 || !strings.Contains(told, "the given checkpoint is damaged") {
			t.Errorf("of %q it says %q", content, told)
		}
	}
	for _, content := range append(altered, "", "rubbish", string(whole[:len(whole)/4]), strings.Replace(string(whole), "\n", "\nx", 1), altered[0]) {
		write(merkle.CheckpointPath(path), []byte(content))
		if _, told := audited(t, path, nil); strings.Count(told, "\n") != 1 || !strings.Contains(told, "activity.checkpoint row 0: it is damaged") {
			t.Errorf("of %q it says %q", content, told)
		}
	}
	var log strings.Builder
	logger := zerolog.New(zerolog.SyncWriter(&log))
	if err := running(t, NewWriter(path, &Options{Log: &logger}))(); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, nil); told != "" || !strings.Contains(log.String(), "its checkpoint is damaged") {
		t.Errorf("after a start it says %s; the bus logged %s", told, log.String())
	}
	tamper(t, path, "UPDATE checkpoint SET note = 'rubbish' WHERE size = (SELECT max(size) FROM checkpoint)")
	if text, err := os.ReadFile(merkle.CheckpointPath(path)); err != nil || publishCheckpoint(path) != nil {
		t.Error(err)
	} else if now, err := os.ReadFile(merkle.CheckpointPath(path)); err != nil || !bytes.Equal(now, text) {
		t.Errorf("a damaged checkpoint in the log replaced it by %q (%v)", now, err)
	}
}

// proven checks a proof with the libraries of others, and returns what it proves.
func proven(t *testing.T, text []byte, key string) string {
	t.Helper()
	var p tlogproof.TLogProof
	if err := p.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, err := formats.ParseCheckpoint(p.Checkpoint, v.Name(), v)
	if err != nil {
		t.Fatal(err)
	}
	var hashes [][]byte
	for _, h := range p.Hashes {
		hashes = append(hashes, h[:])
	}
	leaf := sha256.Sum256(append([]byte{0}, p.ExtraData...))
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, c.Size, leaf[:], hashes, c.Hash); err != nil {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(text, p.Marshal()) {
		t.Errorf("written otherwise than others write it:\n%s", text)
	}
	return string(p.ExtraData)
}

// TestProve_ProofsVerifyWithOtherLibraries verifies the proof of each message with code
// that is not ours; a proof contains no row of another message.
func TestProve_ProofsVerifyWithOtherLibraries(t *testing.T) {
	path := signedLog(t)
	key, err := audit.VerifierKey(path)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(merkle.CheckpointPath(path))
	if err != nil {
		t.Fatal(err)
	}
	r := opened(t, path)
	for i := range 60 {
		id := logtest.Sent(i, logtest.Epoch)[0].MessageID
		for _, checkpoint := range []string{"", string(kept)} {
			proofs, err := audit.Prove(t.Context(), r, id, checkpoint)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			rows := 0
			for _, p := range proofs {
				said := proven(t, p.Text, key)
				rows += strings.Count(said, "\n")
				if strings.Count(said, `"message_id":`) > 0 && !strings.Contains(said, `"message_id":"`+id+`"`) {
					t.Errorf("%s: its proof has %s", id, said)
				}
			}
			m, err := r.Message(t.Context(), id)
			if err != nil || rows != len(m.Rows) {
				t.Errorf("%s: %d rows are proven of %d (%v)", id, rows, len(m.Rows), err)
			}
		}
	}
	// A message that was altered is not proven.
	tamper(t, path, "UPDATE event SET at = at + 1 WHERE kind = 1 AND id = (SELECT max(id) FROM event WHERE kind = 1)")
	if _, err := audit.Prove(t.Context(), opened(t, path), lastMessage, ""); err == nil || !strings.Contains(err.Error(), "log verify") {
		t.Errorf("an altered message: %v", err)
	}
}

// TestRetention_KeepsTree checks that removed rows stay in the tree, so that the remaining
// rows can be proved, even against a checkpoint that is older than all of them.
func TestRetention_KeepsTree(t *testing.T) {
	path := signedLog(t)
	var early string
	v, err := segment.Open(segment.Path(path, 1))
	if err != nil {
		t.Fatal(err)
	}
	v.Checkpoints(" ORDER BY size", func(c merkle.Checkpoint, _ int64) { early = c.Note })
	_ = v.Conn.Close()
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := sealedFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	var r Removal
	for _, f := range files[:len(files)-1] {
		if err := r.remove(path, f); err != nil {
			t.Fatal(err)
		}
	}
	a, told := audited(t, path, &audit.VerifyOptions{Checkpoints: []string{early}})
	if strings.Contains(told, "sign") || a.Removed == 0 || a.Signed != a.Entries {
		t.Errorf("%+v: %s", a, told)
	}
	signer, err := merkle.ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	var others merkle.Tree
	for c, _ := merkle.ParseCheckpoint(early); others.Size < c.Size; {
		others.Add(tlog.Hash{})
	}
	other, err := signer.Sign(others)
	if err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, &audit.VerifyOptions{Checkpoints: []string{other.Note}}); !strings.Contains(told, "differ from those that a kept checkpoint") {
		t.Errorf("another history: %s", told)
	}
	key, _ := audit.VerifierKey(path)
	kept, _ := os.ReadFile(merkle.CheckpointPath(path))
	proofs, err := audit.Prove(t.Context(), opened(t, path), lastMessage, string(kept))
	if err != nil || len(proofs) == 0 {
		t.Fatalf("%d proofs, %v", len(proofs), err)
	}
	proven(t, proofs[0].Text, key)
	// The hashes of removed rows are changed.
	name := segment.KeptTrees(path)[0]
	content, _ := os.ReadFile(name)
	content[len(content)-1] ^= 1
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, nil); !strings.Contains(told, "do not match the hashes") {
		t.Errorf("changed hashes: %s", told)
	}
}

// TestKey_LostOneIsReplaced checks that a new key takes its place, and that
// both keys are in the log.
func TestKey_LostOneIsReplaced(t *testing.T) {
	path := signedLog(t)
	first, err := audit.VerifierKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(merkle.KeyPath(path)); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(path, nil)
	stop := running(t, w)
	w.Append(logtest.Sent(1000, time.Now())...)
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	second, err := audit.VerifierKey(path)
	if err != nil || second == first {
		t.Fatalf("%s, %v", second, err)
	}
	for _, key := range []string{first, second} {
		a, told := audited(t, path, &audit.VerifyOptions{Key: key})
		if told != "" || len(a.Keys) != 2 || a.Keys[0].Key != first || a.Keys[1].Key != second {
			t.Errorf("%+v: %s", a, told)
		}
	}
	// A key that cannot be read stops no row, and is not quoted.
	if err := os.WriteFile(merkle.KeyPath(path), []byte("PRIVATE+KEY+secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.VerifierKey(path); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	w = NewWriter(path, nil)
	stop = running(t, w)
	w.Append(logtest.Sent(1001, time.Now())...)
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if a, told := audited(t, path, nil); told != "" || a.Signed >= a.Entries {
		t.Errorf("%+v: %s", a, told)
	}
}
