package activitylog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol/datafolder"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"

	"github.com/rs/zerolog"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A compactor maintains a log in the background: it prepares the next file, seals the previous
// one, and removes what is older than the retention time. After a kill, each step starts over.
type compactor struct {
	path        string
	retention   Retention
	log         *zerolog.Logger // default: no log
	wake        notify.Signal   // a file was rotated
	loggedError string          // the last error that was logged

	record func(context.Context, Row) error // appends a row to the log, durably; nil in tests
	sealed []int                            // numbers of the sealed files after the last pass
	begun  bool                             // there was a pass

	clock       *retentionClock
	clockFailed bool // its state could not be stored
}

const (
	// compactEvery is how often the compactor looks for files to seal or remove.
	compactEvery = time.Minute
	// clockEvery is how often the compactor checks the clock for a jump.
	clockEvery = time.Second
)

// run works until ctx ends.
func (k *compactor) run(ctx context.Context) {
	timer, ticks := time.NewTicker(compactEvery), time.NewTicker(clockEvery)
	defer timer.Stop()
	defer ticks.Stop()
	for ctx.Err() == nil {
		k.logOnce(ctx, k.compact(ctx))
		for waiting := true; waiting && ctx.Err() == nil; {
			select {
			case <-ticks.C:
				k.checkClock()
				continue
			case <-k.wake.C():
			case <-timer.C:
			case <-ctx.Done():
			}
			waiting = false
		}
	}
}

// checkClock logs when the clock jumps, and when retention trusts it again.
func (k *compactor) checkClock() {
	if k.clock == nil {
		k.clock = newRetentionClock(k.path, k.retention)
	}
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		return // its folder may have been removed
	}
	defaults.Log(&k.log)
	jump, err := k.clock.check()
	failed := err != nil
	if failed && !k.clockFailed {
		k.log.Warn().Err(err).Str("path", k.path).Msg("activity log: the state of the clock cannot be stored")
	}
	k.clockFailed = failed
	switch {
	case jump == nil:
	case jump.Ended != nil:
		k.log.Warn().Str("path", k.path).Time("from", jump.From).Time("to", jump.To).
			Msg("activity log: the clock is right again; rows that were written since it jumped have wrong times")
	case jump.Believed != nil:
		k.log.Warn().Str("path", k.path).Time("from", jump.From).Time("to", jump.To).
			Msg("activity log: the clock has run for a day since it jumped: retention goes by it again")
	default:
		k.log.Warn().Str("path", k.path).Time("from", jump.From).Time("to", jump.To).
			Msg("activity log: the clock has jumped, or the bus was off for long; retention does not go by the new " +
				"time until the clock has run for a day")
	}
}

func (k *compactor) compact(ctx context.Context) error {
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		return nil // its folder may have been removed
	}
	errs := []error{prepareNext(k.path), publishCheckpoint(k.path)}
	numbers, err := segmentNumbers(k.path)
	errs = append(errs, err)
	for _, n := range numbers {
		if ctx.Err() != nil {
			return nil
		}
		errs = append(errs, k.seal(ctx, segmentPath(k.path, n)))
	}
	if !k.begun {
		k.sealed, k.begun = k.unrecorded(), true
	}
	errs = append(errs, k.recordMissing(ctx, numbers))
	k.checkClock()
	if !k.retention.Forever() {
		removed, err := k.retention.enforce(ctx, k.path, k.clock.now())
		errs = append(errs, err,
			k.recordRemoval(ctx, removed, "not kept longer: activity-keep is "+k.retention.String()))
	}
	k.sealed, err = segmentNumbers(k.path)
	return errors.Join(append(errs, err)...)
}

// prunedPath returns the file beside a log that has the number of the last file whose removal is a
// row of the log.
func prunedPath(path string) string { return strings.TrimSuffix(path, ".db") + ".pruned" }

// unrecorded returns the numbers of the files that were removed, and of whose removal the log has no
// row: it happened while no bus ran, or a kill came before the row. Their hashes are kept.
func (k *compactor) unrecorded() (numbers []int) {
	text, _ := os.ReadFile(prunedPath(k.path)) // nothing was removed before there is one
	last, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for _, name := range keptTrees(k.path) {
		if n := k.numberOf(name); n > last {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// numberOf returns the number of the removed file whose hashes a file keeps.
func (k *compactor) numberOf(tree string) int {
	digits := strings.TrimPrefix(strings.TrimSuffix(tree, treeSuffix), strings.TrimSuffix(k.path, ".db")+"-")
	n, _ := strconv.Atoi(digits) // another file of that kind has no number
	return n
}

// recordMissing records the sealed files that were removed since the last pass, and not by this bus.
func (k *compactor) recordMissing(ctx context.Context, numbers []int) error {
	var missing Removal
	for _, n := range k.sealed {
		if slices.Contains(numbers, n) {
			continue
		}
		missing.Segments++
		if kept, _, err := readTree(treePath(segmentPath(k.path, n))); err == nil {
			missing.Rows += kept.Last - kept.First + 1
		}
	}
	return k.recordRemoval(ctx, missing, "removed by another program")
}

// recordRemoval logs a removal and appends a log_pruned row.
func (k *compactor) recordRemoval(ctx context.Context, r Removal, reason string) error {
	if r.Segments == 0 {
		return nil
	}
	defaults.Log(&k.log)
	k.log.Info().Str("path", k.path).Int("segments", r.Segments).Int64("rows", r.Rows).Int64("bytes",
		r.Bytes).Str("reason", reason).
		Msg("activity log: sealed files were removed; a log_pruned row says so")
	payload, err := json.Marshal(struct {
		Removal
		Reason string `json:"reason"`
	}{r, reason})
	if err != nil {
		panic("a removal cannot be marshalled: " + err.Error())
	}
	if k.record == nil {
		return nil
	}
	if err := k.record(ctx, Row{At: time.Now().UnixMicro(), Event: LogPruned, Payload: payload}); err != nil {
		return err // the next start records it
	}
	names := keptTrees(k.path)
	if len(names) == 0 {
		return nil
	}
	return datafolder.WriteFile(prunedPath(k.path), fmt.Appendln(nil, k.numberOf(names[len(names)-1])))
}

// logOnce logs an error unless it is the same as the last one.
func (k *compactor) logOnce(ctx context.Context, err error) {
	text := ""
	if err != nil && ctx.Err() == nil {
		text = err.Error()
	}
	if text != k.loggedError && text != "" {
		k.log.Warn().Err(err).Str("path", k.path).Msg("activity log: maintenance failed; retrying every minute")
	}
	k.loggedError = text
}

// seal seals a file unless it is sealed already, and logs how long that took.
func (k *compactor) seal(ctx context.Context, path string) error {
	if _, err := os.Stat(path + checksumSuffix); err == nil {
		return nil
	}
	defaults.Log(&k.log)
	began := time.Now()
	k.log.Info().Str("path", path).Msg("activity log: sealing a file")
	err := seal(ctx, path)
	if err == nil {
		k.log.Info().Str("path", path).Dur("took_ms", time.Since(began)).Msg("activity log: sealed the file")
	}
	return err
}

// seal replaces a rotated file by a copy with lookup tables, and then writes its checksum. The
// file is never written again. Current readers of the file continue with the old one.
func seal(ctx context.Context, path string) error {
	v, err := openView(path)
	if err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	done := v.lookup
	err = v.conn.Close()
	if err == nil && !done {
		err = addIndexes(ctx, path)
	}
	if err == nil {
		failpoint("indexed")
		err = writeChecksum(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	failpoint("sealed")
	return nil
}

func addIndexes(ctx context.Context, path string) (err error) {
	to := path + preparedSuffix
	if err := copyFile(ctx, path, to); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	failpoint("copied")
	conn, err := sqlite.OpenConn(to, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	conn.SetInterrupt(ctx.Done())
	for _, pragma := range []string{"PRAGMA journal_mode=DELETE", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF",
		"PRAGMA cache_size=-32768"} {
		err = errors.Join(err, sqlitex.ExecuteTransient(conn, pragma, nil))
	}
	if err == nil {
		err = addLookup(ctx, conn)
	}
	if err == nil {
		err = addSubjects(ctx, conn)
	}
	if err == nil {
		err = addSpan(ctx, conn)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	failpoint("indexes made")
	for _, end := range []string{"-wal", "-shm"} { // readers of the replaced file have them open
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return datafolder.Rename(to, path)
}

// copyFile copies a file that no other process is writing.
func copyFile(ctx context.Context, path, to string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), ctx.Err())
}

// checksum returns the SHA-256 of a file, as sha256sum writes it.
func checksum(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	})); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x  %s\n", sum.Sum(nil), filepath.Base(path)), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func writeChecksum(ctx context.Context, path string) error {
	line, err := checksum(ctx, path)
	if err != nil {
		return err
	}
	return datafolder.WriteFile(path+checksumSuffix, []byte(line))
}
