package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"

	"github.com/rs/zerolog"
)

// A compactor maintains a log in the background: it prepares the next file, seals the previous
// one, and removes what is older than the retention time. After a kill, each step starts over.
type compactor struct {
	path        string
	retention   activitylog.Retention
	log         *zerolog.Logger // default: no log
	wake        notify.Signal   // a file was rotated
	loggedError string          // the last logged error

	record func(context.Context, activitylog.Row) error // appends a row to the log, durably; nil in tests
	begun  bool                                         // a pass has run

	// the sealed files after the last pass, and those whose removal is not yet recorded
	sealed []int

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
			Msg("activity log: the bus has run long enough since the clock jumped; retention uses it again")
	default:
		k.log.Warn().Str("path", k.path).Time("from", jump.From).Time("to", jump.To).
			Msg("activity log: the clock has jumped, or the bus was off for a long time; retention does not use the " +
				"new " +
				"time until the clock has run for a day")
	}
}

func (k *compactor) compact(ctx context.Context) error {
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		return nil // its folder may have been removed
	}
	errs := []error{prepareNext(k.path), publishCheckpoint(k.path)}
	numbers, err := segment.Numbers(k.path)
	errs = append(errs, err)
	for _, n := range numbers {
		if ctx.Err() != nil {
			return nil
		}
		errs = append(errs, k.seal(ctx, segment.Path(k.path, n)))
	}
	if !k.begun {
		k.sealed, k.begun = k.unrecorded(), true
	}
	k.sealed = append(k.sealed, numbers...)
	slices.Sort(k.sealed)
	k.sealed = slices.Compact(k.sealed)
	err = k.recordMissing(ctx, numbers)
	k.checkClock()
	if !k.retention.Forever() {
		removed, failed := enforce(ctx, k.retention, k.path, k.clock.now())
		errs = append(errs, failed)
		if err == nil {
			err = k.recordRemoval(ctx, removed, "not kept longer: activity-keep is "+k.retention.String())
		}
	}
	if err == nil { // otherwise the next pass records the rest
		k.sealed, err = segment.Numbers(k.path)
	}
	return errors.Join(append(errs, err)...)
}

// prunedPath returns the path of the file with the number of the last file whose removal is
// recorded in the log.
func prunedPath(path string) string { return strings.TrimSuffix(path, ".db") + ".pruned" }

// unrecorded returns the numbers of the removed files whose removal is not recorded in the log.
// They were removed while no bus ran, or a kill prevented the record. Their hashes are kept.
func (k *compactor) unrecorded() (numbers []int) {
	text, _ := os.ReadFile(prunedPath(k.path)) // without the file, nothing was removed
	last, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for _, name := range segment.KeptTrees(k.path) {
		if n := k.numberOf(name); n > last {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// numberOf returns the number of the removed file whose hashes a file keeps.
func (k *compactor) numberOf(tree string) int {
	digits := strings.TrimPrefix(strings.TrimSuffix(tree, segment.KeptTreeSuffix), strings.TrimSuffix(k.path, ".db")+
		"-")
	n, _ := strconv.Atoi(digits) // other files have no number
	return n
}

// recordMissing records the removal of sealed files that another program has removed since the
// last pass.
func (k *compactor) recordMissing(ctx context.Context, numbers []int) error {
	var missing Removal
	for _, n := range k.sealed {
		if slices.Contains(numbers, n) {
			continue
		}
		missing.Segments++
		if kept, _, err := segment.ReadKeptTree(segment.KeptTreePath(segment.Path(k.path, n))); err == nil {
			missing.Rows += kept.Last - kept.First + 1
		}
	}
	return k.recordRemoval(ctx, missing, "removed by another program")
}

// recordRemoval appends a log_pruned row and logs the removal. After an error, the caller must
// record the removal again.
func (k *compactor) recordRemoval(ctx context.Context, r Removal, reason string) error {
	if r.Segments == 0 {
		return nil
	}
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
	if err := k.record(ctx, activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.LogPruned,
		Payload: payload}); err != nil {
		return fmt.Errorf("recording the removal of %d sealed files: %w", r.Segments, err)
	}
	defaults.Log(&k.log)
	k.log.Info().Str("path", k.path).Int("segments", r.Segments).Int64("rows", r.Rows).Int64("bytes",
		r.Bytes).Str("reason", reason).
		Msg("activity log: sealed files were removed, as a log_pruned row records")
	names := segment.KeptTrees(k.path)
	if len(names) == 0 {
		return nil
	}
	err = datafolder.WriteFile(prunedPath(k.path), fmt.Appendln(nil, k.numberOf(names[len(names)-1])))
	if err != nil {
		k.log.Warn().Err(err).Str("path", k.path).Msg("activity log: the next start will record this removal again")
	}
	return nil
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

// seal seals a file unless it is sealed, and logs how long that took.
func (k *compactor) seal(ctx context.Context, path string) error {
	if _, err := os.Stat(path + segment.ChecksumSuffix); err == nil {
		return nil
	}
	defaults.Log(&k.log)
	began := time.Now()
	k.log.Info().Str("path", path).Msg("activity log: sealing a file")
	err := segment.Seal(ctx, path)
	if err == nil {
		k.log.Info().Str("path", path).Dur("took_ms", time.Since(began)).Msg("activity log: sealed the file")
	}
	return err
}
