package write

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/read"
)

func TestForecast(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	days := func(n int) time.Time { return now.Add(-time.Duration(n) * 24 * time.Hour) }
	const gib = 1 << 30
	for _, tt := range []struct {
		keep string
		f    activitylog.DiskUsage
		want string
	}{
		{"90d", activitylog.DiskUsage{}, "It takes 0 bytes. Its growth can be estimated once it has run for an hour."},
		{"90d", activitylog.DiskUsage{Bytes: gib, Since: now.Add(-time.Hour + 1)}, "It takes 1 GiB. Its growth can be estimated once it has run for an hour."},
		{"90d", activitylog.DiskUsage{Bytes: gib, Since: now.Add(-time.Hour)}, "It takes 1 GiB. At this rate it will take about 2.11 TiB in 90 days."},
		{"90d", activitylog.DiskUsage{Bytes: 3 * gib, Since: days(30)}, "It takes 3 GiB. At this rate it will take about 9 GiB in 60 days."},
		{"90d", activitylog.DiskUsage{Bytes: 3 * gib, Since: days(89)}, "It takes 3 GiB. At this rate it will take about 3.03 GiB in a day."},
		{"90d", activitylog.DiskUsage{Bytes: 9 * gib, Since: days(90)}, "It takes 9 GiB. It stays at about 9 GiB."},
		{"90d", activitylog.DiskUsage{Bytes: 10 * gib, Since: days(100)}, "It takes 10 GiB. It stays at about 10 GiB."},
		{"20GiB", activitylog.DiskUsage{Bytes: 5 * gib, Since: days(10)}, "It takes 5 GiB. At this rate it will take about 20 GiB in 30 days."},
		{"20GiB", activitylog.DiskUsage{Bytes: 21 * gib, Since: days(10)}, "It takes 21 GiB. It stays at about 21 GiB."},
		{"20GiB", activitylog.DiskUsage{Bytes: 2, Since: days(10)}, "It takes 2 bytes. At this rate it will take about 20 GiB in 53376 days."},
		{"forever", activitylog.DiskUsage{Bytes: 1000, Since: days(10)}, "It takes 1000 bytes. It grows by about 100 bytes a day without limit."},
	} {
		keep, err := activitylog.ParseRetention(tt.keep)
		if got := keep.Describe(tt.f, now); err != nil || got != tt.want {
			t.Errorf("%s of %+v: %q, %v; want %q", tt.keep, tt.f, got, err, tt.want)
		}
	}
}

func TestDiskUsage_CountsOnlyFilesOfTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	if f, err := read.DiskUsageOf(t.Context(), path); err != nil || f != (activitylog.DiskUsage{}) {
		t.Fatalf("a log that is not there: %+v, %v", f, err)
	}
	w, path, stop := started(t, nil)
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before, err := read.DiskUsageOf(t.Context(), path)
	if err != nil || before.Bytes == 0 || time.Since(before.Since) > time.Hour {
		t.Fatalf("%+v, %v", before, err)
	}
	for name, counts := range map[string]int64{
		"activity-000007.db": 10, "activity-000007.db.sha256": 100, "activity.db-wal": 1000,
		"activity-copy.db": 0, "activity2.db": 0, "activity.txt": 0, "broker.db": 0,
	} {
		name = filepath.Join(filepath.Dir(path), name)
		if err := os.WriteFile(name, make([]byte, max(counts, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		after, _ := read.DiskUsageOf(t.Context(), path) // a file of nothing but zeros cannot be read
		if got := after.Bytes - before.Bytes; got != counts {
			t.Errorf("%s counts for %d bytes; want %d", filepath.Base(name), got, counts)
		}
		os.Remove(name)
	}
}
