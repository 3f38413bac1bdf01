package activitylog

import (
	"runtime"
	"syscall"
	"testing"
)

// BenchmarkLeaves is what the tree costs the writer for each message: four rows.
func BenchmarkLeaves(b *testing.B) {
	var rows []Row
	for i := range 512 {
		m := messageRows(i, 1_700_000_000_000_000)
		of := new(Sending)
		for j := range m {
			m[j].Of = of
		}
		rows = append(rows, m[:]...)
	}
	l, t, id := leafBuilder{}, tree{}, int64(1)
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
