package write

import (
	"runtime"
	"syscall"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/merkle"
)

// BenchmarkLeaves measures what the tree costs the writer for a message of four rows.
func BenchmarkLeaves(b *testing.B) {
	var rows []activitylog.Row
	for i := range 512 {
		m := messageRows(i, 1_700_000_000_000_000)
		of := new(activitylog.Sending)
		for j := range m {
			m[j].Of = of
		}
		rows = append(rows, m[:]...)
	}
	l, t, id := leafBuilder{}, merkle.Tree{}, int64(1)
	b.ReportAllocs()
	cpu := func() (ns int64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(1, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cpu()
	for b.Loop() {
		l.begin()
		l.store(rows, id, 1)
		l.leaves(rows, id, &t)
		id += int64(len(rows))
	}
	b.ReportMetric(float64(cpu()-began)/float64(b.N)/512, "cpu-ns/message")
}
