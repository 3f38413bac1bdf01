package write

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
)

// slowDatabase is a database on a disk whose syncs take a given time: those of a commit, of a
// commit that restarts the write-ahead log, and all syncs that a step may need.
type slowDatabase struct {
	*database
	disk   time.Duration
	writes int
}

func (s *slowDatabase) write(rows []activitylog.Row) (int64, int, error) {
	if s.writes++; s.writes%3 == 0 {
		time.Sleep(s.disk) // SQLite syncs the header of the write-ahead log
	}
	return s.database.write(rows)
}

func (s *slowDatabase) sync() error {
	time.Sleep(s.disk)
	return s.database.sync()
}

func (s *slowDatabase) idle() error {
	time.Sleep(s.disk)
	return s.database.idle()
}

// TestSlowDisk_LosesNothing covers first starts, restarts, sealed files, checkpoints and a full
// write-ahead log, which need different numbers of syncs. Publishers at full speed are held as
// long as the disk makes progress.
func TestSlowDisk_LosesNothing(t *testing.T) {
	for _, disk := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 4 * time.Second} {
		for name, opts := range map[string]Options{
			"sealing":       {SegmentRows: 3000},
			"checkpointing": {MaxWAL: 100 << 10},
			"both":          {SegmentRows: 5000, MaxWAL: 200 << 10},
		} {
			t.Run(fmt.Sprintf("%s, %s", disk, name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "activity.db")
				for start := range 2 {
					synctest.Test(t, func(t *testing.T) { publishSlowly(t, path, opts, disk, start) })
				}
				if got := logtest.Query(t, path, "SELECT max(id) FROM event"); got[0] != "16000" {
					t.Errorf("the last row is %s; want 16000", got[0])
				}
			})
		}
	}
}

// publishSlowly appends 8,000 rows as fast as it can, with pauses in which the log is idle.
func publishSlowly(t *testing.T, path string, opts Options, disk time.Duration, start int) {
	t.Helper()
	opts.QueueRows, opts.StopTimeout, opts.SegmentAge = 2100, time.Hour, 100*365*24*time.Hour
	w := NewWriter(path, &opts)
	w.opts.step = func(syncs int) {
		w.beginStep(syncs)
		time.Sleep(time.Duration(syncs) * disk)
	}
	w.open = func() (sink, error) {
		s, err := openDatabase(path, &w.opts)
		if err != nil {
			return nil, err
		}
		return &slowDatabase{database: s.(*database), disk: disk}, nil
	}
	stop := running(t, w)
	<-w.Opened()
	for i := range 8000 {
		if i%4000 == 3999 {
			time.Sleep(10 * time.Second)
		}
		w.Append(logtest.Numbered(8000*start + i))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := w.Stats(); got.Lost != 0 || got.Failures != 0 {
		t.Errorf("start %d: %d rows were lost, %s", start+1, got.Lost, got.LastError)
	}
}
