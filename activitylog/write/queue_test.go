package write

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/timetest"
)

// waiting returns a Writer that made progress 10 ms ago, with a queue that change has modified.
func waiting(change func(w *Writer, q *queue)) *Writer {
	w := NewWriter("none", &Options{QueueRows: 100, QueueBytes: 10_000, Hold: 4 * time.Second})
	w.q.progress = time.Now().Add(-10 * time.Millisecond)
	w.q.rows = 50
	if change != nil {
		change(w, &w.q)
	}
	return w
}

// TestHold_Duration appends rows of 200 bytes.
func TestHold_Duration(t *testing.T) {
	const passed = 10 * time.Millisecond
	for name, c := range map[string]struct {
		change func(w *Writer, q *queue)
		want   time.Duration
	}{
		"there is room":                  {nil, 0},
		"nothing waits":                  {func(_ *Writer, q *queue) { q.rows, q.bytes = 0, 20_000 }, 0},
		"as many rows as fit":            {func(_ *Writer, q *queue) { q.rows = 99 }, 0},
		"one more":                       {func(_ *Writer, q *queue) { q.rows = 100 }, 4*time.Second - passed},
		"as many bytes as fit":           {func(_ *Writer, q *queue) { q.bytes = 9_800 }, 0},
		"one more byte":                  {func(_ *Writer, q *queue) { q.bytes = 9_801 }, 4*time.Second - passed},
		"full, and closed":               {func(_ *Writer, q *queue) { q.rows, q.closed = 100, true }, 0},
		"full, and it fails":             {func(_ *Writer, q *queue) { q.rows, q.reason = 100, "why" }, 250*time.Millisecond - passed},
		"full, and it fails in a step":   {func(w *Writer, q *queue) { q.rows, q.reason = 100, "why"; w.beginStep(3) }, 250*time.Millisecond - passed},
		"full, in a step of three syncs": {func(w *Writer, q *queue) { q.rows = 100; w.beginStep(3) }, 12 * time.Second},
		"full, and another step ended":   {func(w *Writer, q *queue) { q.rows = 100; w.beginStep(3); w.beginStep(1) }, 12 * time.Second},
		"full, after an old step":        {func(_ *Writer, q *queue) { q.rows, q.steps = 100, time.Now().Add(time.Second) }, 4*time.Second - passed},
		"as many as it keeps up with":    {func(_ *Writer, q *queue) { q.limit = 51 }, 0},
		"more than it keeps up with":     {func(_ *Writer, q *queue) { q.limit = 50 }, 250*time.Millisecond - passed},
		"some of which are written":      {func(_ *Writer, q *queue) { q.limit, q.written = 50, 1 }, 0},
		"nobody knows what it does":      {func(_ *Writer, q *queue) { q.limit = 0 }, 0},
		"more, and the disk is slow":     {func(_ *Writer, q *queue) { q.limit, q.slow = 50, true }, 0},
		"more, with a credit":            {func(_ *Writer, q *queue) { q.limit, q.credit = 50, 1 }, 0},
		"more, and the credit is used":   {func(_ *Writer, q *queue) { q.limit, q.credit = 50, -1 }, 250*time.Millisecond - passed},
		"it keeps up with one row alone": {func(_ *Writer, q *queue) { q.limit = 1 }, 250*time.Millisecond - passed},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := waiting(c.change)
			if got := w.holdLocked(make([]activitylog.Row, 1), 200); got != c.want {
				t.Errorf("%s: held for %s; want %s", name, got, c.want)
			}
		})
	}
}

// TestAdmit_WithRequiredLog covers a required log: messages are refused when nothing has
// been written for 250 ms, or for 50 ms if more than half of the queue is taken.
func TestAdmit_WithRequiredLog(t *testing.T) {
	ago := func(d time.Duration) func(*Writer, *queue) {
		return func(_ *Writer, q *queue) { q.progress = time.Now().Add(-d) }
	}
	both := func(changes ...func(*Writer, *queue)) func(*Writer, *queue) {
		return func(w *Writer, q *queue) {
			for _, change := range changes {
				change(w, q)
			}
		}
	}
	rows := func(n int) func(*Writer, *queue) { return func(_ *Writer, q *queue) { q.rows = n } }
	bytes := func(n int) func(*Writer, *queue) { return func(_ *Writer, q *queue) { q.bytes = n } }
	because := func(why string) func(*Writer, *queue) { return func(_ *Writer, q *queue) { q.reason = why } }
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		change func(w *Writer, q *queue)
		want   string
	}{
		"it gets on":                        {nil, ""},
		"it did 249 ms ago":                 {ago(249 * ms), ""},
		"it did 250 ms ago":                 {ago(250 * ms), "the log made no progress for 250ms"},
		"nothing waits":                     {both(ago(time.Hour), rows(0)), ""},
		"nothing waits, and it fails":       {both(ago(time.Hour), rows(0), because("why")), "why"},
		"it has just begun to fail":         {both(ago(49*ms), rows(0), because("why")), ""},
		"rows were lost":                    {func(_ *Writer, q *queue) { q.lost.rows = 1 }, "no progress"},
		"it was closed":                     {func(_ *Writer, q *queue) { q.closed = true }, "the log was closed"},
		"half of the rows":                  {both(ago(60*ms), rows(50)), ""},
		"more than half of the rows":        {both(ago(60*ms), rows(51)), "no progress"},
		"more than half of them, 49 ms ago": {both(ago(49*ms), rows(51)), ""},
		"half of the bytes":                 {both(ago(60*ms), bytes(5_000)), ""},
		"more than half of the bytes":       {both(ago(60*ms), bytes(5_001)), "no progress"},
		"it is not required":                {func(w *Writer, q *queue) { w.opts.Required, q.closed = false, true }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := waiting(func(w *Writer, _ *queue) { w.opts.Required = true })
			if c.change != nil {
				c.change(w, &w.q)
			}
			err := w.Admit()
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrBehind) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v; want %q", name, err, c.want)
			}
		})
	}
}

// TestStats_CountsWaitingRows checks Stats.
func TestStats_CountsWaitingRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter("none", &Options{QueueRows: 1, QueueBytes: 2, MaxWAL: 3, Hold: 4, SegmentRows: 5, SegmentBytes: 6, SegmentAge: 7})
		if s := w.Stats(); s.Bounds != (Bounds{1, 2, 3, 4, 5, 6, 7}) || s.Lag != 0 || s.Stalled || s.Failing || s.QueuedRows != 0 {
			t.Errorf("%+v", s)
		}
		w.q.push([]activitylog.Row{{MessageID: "m"}})
		w.q.reason = "why"
		timetest.Advance(stallAfter - 1)
		if s := w.Stats(); s.Lag != stallAfter-1 || s.Stalled || !s.Failing || s.QueuedRows != 1 || s.QueuedBytes != rowOverhead+1 {
			t.Errorf("%+v", s)
		}
		w.q.take() // in flight, it still waits
		timetest.Advance(time.Nanosecond)
		w.q.push([]activitylog.Row{{}})
		if s := w.Stats(); s.Lag != stallAfter || !s.Stalled || s.QueuedRows != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestEnqueue_CountsLostRows checks that rows that fit notify the writer when it may sleep or
// when a chunk is full. Rows that do not fit are counted, and reported before the next rows.
func TestEnqueue_CountsLostRows(t *testing.T) {
	w := NewWriter("none", &Options{QueueRows: 3 * chunkRows, QueueBytes: 1 << 30, Required: true})
	push := func(n int, of *activitylog.Sending) (signal bool) {
		rows := make([]activitylog.Row, n)
		for i := range rows {
			rows[i].Of = of
		}
		return w.enqueueLocked(rows, sizeOf(rows))
	}
	q := &w.q
	for i, c := range []struct {
		rows   int
		of     *activitylog.Sending
		signal bool
		queued int
		lost   int64
	}{
		{1, nil, true, 1, 0}, {1, nil, false, 2, 0}, {chunkRows - 3, nil, false, chunkRows - 1, 0}, {1, nil, true, chunkRows, 0},
		{1, nil, false, chunkRows + 1, 0}, {2*chunkRows - 1, nil, false, 3 * chunkRows, 0},
		{2, nil, false, 3 * chunkRows, 2}, {1, nil, false, 3 * chunkRows, 3},
		{1, &activitylog.Sending{}, false, 3*chunkRows + 2, 0}, // of an accepted message, after the log_gap row
	} {
		if signal := push(c.rows, c.of); signal != c.signal || q.rows != c.queued || q.lost.rows != c.lost {
			t.Errorf("%d: it wakes the writer: %t; %d wait, %d are lost", i, signal, q.rows, q.lost.rows)
		}
	}
	last := q.chunks[len(q.chunks)-1].rows
	if len(q.chunks) != 4 || len(last) != 2 || last[0].Event != activitylog.LogGap || !strings.Contains(string(last[0].Payload), `"lost":3`) || q.totals.Lost != 3 {
		t.Errorf("%d chunks, the last has %+v; %d rows were lost", len(q.chunks), last, q.totals.Lost)
	}
	q.closed = true
	if push(1, &activitylog.Sending{}); q.rows != 3*chunkRows+2 || q.lost != (gap{1, "the log was closed"}) {
		t.Errorf("after the end: %d wait, lost %+v", q.rows, q.lost)
	}
	w = NewWriter("none", nil)
	w.q.push([]activitylog.Row{{}})
	w.q.take() // in flight, so that the writer sleeps until rows wait again
	if !push(1, nil) || push(1, nil) {
		t.Error("rows behind those in flight do not wake the writer once")
	}
	w = NewWriter("none", nil)
	for credit, want := range map[int]int{0: 0, 1: -4, 5: 0, 9: 4, -2: -2} {
		if w.q.credit = credit; true {
			push(5, nil)
		}
		if w.q.credit != want {
			t.Errorf("a credit of %d is %d after five rows; want %d", credit, w.q.credit, want)
		}
	}
}

// A queueModel drives a queue, and compares the counts of the queue with its rows.
type queueModel struct {
	t                        *testing.T
	q                        *queue
	taken                    []*chunk
	pushed, written, settled int
}

func (m *queueModel) check(when string) {
	m.t.Helper()
	bytes := 0
	for i := m.settled; i < m.pushed; i++ {
		bytes += rowOverhead + i%7
	}
	if q := m.q; q.rows != m.pushed-m.settled || q.bytes != bytes || q.backlog.written != m.written-m.settled ||
		q.appended != uint64(m.pushed) || q.settled != uint64(m.settled) {
		m.t.Fatalf("%s: %+v, %d appended, %d settled; want %d, %d, %d", when, q.backlog, q.appended, q.settled,
			m.pushed-m.settled, bytes, m.written-m.settled)
	}
}

func (m *queueModel) push(n int) {
	rows := make([]activitylog.Row, n)
	for i := range rows {
		rows[i].MessageID = strings.Repeat("x", (m.pushed+i)%7)
	}
	m.q.push(rows)
	m.pushed += n
	m.check("push")
}

func (m *queueModel) write(n int) {
	for n > 0 {
		if len(m.taken) == 0 {
			m.taken = append(m.taken, m.q.take())
		}
		c := m.taken[0]
		part := min(n, len(c.rows)-c.written)
		m.q.markWritten(c, int64(m.written+1), part, time.Millisecond)
		m.written, n = m.written+part, n-part
		if last := m.q.commits[len(m.q.commits)-1]; last.first != int64(m.written-part+1) || len(last.rows) != part ||
			len(last.rows[0].MessageID) != (m.written-part)%7 {
			m.t.Fatalf("the commit is %+v", last)
		}
		if c.written == len(c.rows) {
			m.taken = m.taken[1:]
		}
	}
	m.check("write")
}

func (m *queueModel) settle(n int) {
	m.q.settle(n)
	m.settled += n
	m.check("settle")
}

// TestQueue_CountsMatchItsRows enqueues rows, takes them, writes and settles them in
// parts, and drops the rest: in any order, the counts match the rows.
func TestQueue_CountsMatchItsRows(t *testing.T) {
	q := &queue{}
	m := &queueModel{t: t, q: q}
	m.push(10)
	m.push(3 * chunkRows)
	if len(q.chunks) != 4 || len(q.chunks[3].rows) != 10 {
		t.Fatalf("%d chunks", len(q.chunks))
	}
	m.write(5)
	m.settle(2)
	m.settle(3)
	m.write(chunkRows + 100)
	m.settle(chunkRows)
	m.push(1)
	m.write(50)
	m.settle(150)
	m.write(m.pushed - m.written)
	m.settle(m.written - m.settled)
	if len(q.inFlight)+len(q.chunks) != 0 || q.oldest() != nil || len(q.free) != 4 {
		t.Errorf("%d in flight, %d wait, %d are free", len(q.inFlight), len(q.chunks), len(q.free))
	}
	m.push(chunkRows + 20)
	if len(q.free) != 2 || len(q.chunks[0].rows) != chunkRows || q.chunks[0].written != 0 {
		t.Errorf("%d are free", len(q.free))
	}
	m.write(30)
	m.settle(10)
	if n := q.drop(); n != chunkRows-10 {
		t.Errorf("%d rows were dropped", n)
	}
	// Rows that were written and are not settled stay.
	if q.rows != 20 || q.written != 20 || len(q.chunks) != 0 || len(q.inFlight) != 1 || q.settled != uint64(m.pushed-20) || q.bytes != sizeOf(q.inFlight[0].rows[10:30]) {
		t.Errorf("after the drop: %+v, %d settled", q.backlog, q.settled)
	}
	q.settle(20)
	if q.rows != 0 || q.bytes != 0 || q.written != 0 || len(q.inFlight) != 0 {
		t.Errorf("in the end: %+v", q.backlog)
	}
	if q.drop() != 0 || q.rows != 0 {
		t.Error("nothing was dropped, and something left")
	}
}

// TestMarkWritten_MeasuresSpeed checks how many rows can be written within 50 ms, and
// how many may follow settled ones.
func TestMarkWritten_MeasuresSpeed(t *testing.T) {
	for _, c := range []struct {
		rows int
		took time.Duration
		want int
	}{
		{chunkRows, 50 * time.Millisecond, chunkRows}, {chunkRows, 100 * time.Millisecond, chunkRows / 2}, {2 * chunkRows, 25 * time.Millisecond, 4 * chunkRows},
		{chunkRows - 1, time.Hour, 7}, {1, time.Hour, 7}, {chunkRows, time.Hour, 0},
	} {
		q := &queue{pacing: pacing{limit: 7}}
		if q.markWritten(&chunk{rows: make([]activitylog.Row, c.rows)}, 1, c.rows, c.took); q.limit != c.want {
			t.Errorf("%d rows in %s teach %d; want %d", c.rows, c.took, q.limit, c.want)
		}
	}
	q := &queue{pacing: pacing{limit: 7}}
	if q.markWritten(&chunk{rows: make([]activitylog.Row, chunkRows)}, 1, chunkRows, 0); q.limit < chunkRows {
		t.Errorf("no time at all teaches %d", q.limit)
	}
	for _, c := range []struct{ before, settled, want int }{{0, 1, 0}, {0, 2, 1}, {5, 10, 10}, {-8, 10, -3}, {0, 2 * chunkRows, chunkRows}, {1, 2 * chunkRows, chunkRows}} {
		q := &queue{pacing: pacing{credit: c.before}}
		q.push(make([]activitylog.Row, c.settled))
		for n := 0; n < c.settled; {
			k := q.take()
			q.markWritten(k, int64(n+1), len(k.rows), time.Second)
			n += len(k.rows)
		}
		if q.settle(c.settled); q.credit != c.want {
			t.Errorf("a credit of %d is %d after %d rows; want %d", c.before, q.credit, c.settled, c.want)
		}
	}
}

func TestQueue_KeepsFewEmptyChunks(t *testing.T) {
	q := &queue{}
	q.recycle(&chunk{rows: make([]activitylog.Row, 10, chunkRows+1)})
	q.recycle(&chunk{rows: make([]activitylog.Row, 10, chunkRows-1)})
	if len(q.free) != 0 {
		t.Error("one of another size is kept")
	}
	for i := range 12 {
		rows := make([]activitylog.Row, 1, chunkRows)
		rows[0].MessageID = "m"
		c := &chunk{rows: rows, written: 1, done: 1, bytes: 9}
		q.recycle(c)
		if len(q.free) != min(i+1, 8) || len(c.rows) != 0 || c.written+c.done+c.bytes != 0 || rows[0].MessageID != "" {
			t.Errorf("%d are kept of %d, %+v", len(q.free), i+1, c)
		}
	}
}

// TestStallReason covers an error, and a stall without one.
func TestStallReason(t *testing.T) {
	for want, q := range map[string]*queue{
		"why": {reason: "why", closed: true}, "the log was closed": {closed: true}, "the log made no progress for 3s": {},
	} {
		if got := q.stallReason(3 * time.Second); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	q := &queue{}
	if q.take() != nil {
		t.Error("nothing was taken as something")
	}
	q.lost = gap{2, "why"}
	if c := q.take(); c == nil || len(c.rows) != 1 || c.rows[0].Event != activitylog.LogGap || q.lost != (gap{}) || len(q.inFlight) != 1 || q.rows != 1 {
		t.Errorf("what was lost is taken as %+v", c)
	}
	space := q.nextCommit()
	if q.nextCommit() != space {
		t.Error("two wait for two commits")
	}
	q.wakeWaiters()
	q.wakeWaiters() // nobody waits
	if _, open := <-space; open || q.nextCommit() == space {
		t.Error("who waits is not told, or who comes later is")
	}
}

// TestCheckpoint_BeginsByWALSize counts the bytes of the write-ahead log since the
// last checkpoint.
func TestCheckpoint_BeginsByWALSize(t *testing.T) {
	const most = 64 << 20
	why := errors.New("why")
	for name, c := range map[string]struct {
		wal, moved, most int64
		begins           bool
	}{
		"nothing":                          {0, 0, most, false},
		"nearly enough":                    {usualWAL - 1, 0, most, false},
		"enough":                           {usualWAL, 0, most, true},
		"nearly enough since":              {usualWAL + 99, 100, most, false},
		"enough since":                     {usualWAL + 100, 100, most, true},
		"it began anew":                    {99, 100, most, true},
		"it is as it was":                  {100, 100, most, false},
		"nearly half of a small bound":     {499, 0, 1000, false},
		"half of a small bound":            {500, 0, 1000, true},
		"a bound twice the usual, nearly":  {usualWAL - 1, 0, 2 * usualWAL, false},
		"a bound just below, half of that": {usualWAL - 1, 0, 2*usualWAL - 2, true},
	} {
		begun := make(chan string) // without room, so that the checkpoint does not end before it is awaited
		d := &database{path: "log", opts: &Options{MaxWAL: c.most}}
		d.checkpointing = checkpointing{wal: c.wal, moved: c.moved, checkpoint: func(path string) error { begun <- path; return why }}
		if err := d.boundWAL(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (d.background != nil) != c.begins {
			t.Errorf("%s: it begins: %t", name, !c.begins)
		}
		if !c.begins {
			continue
		}
		if path := <-begun; path != "log" || d.moved != c.wal {
			t.Errorf("%s: of %s, moved are %d", name, path, d.moved)
		}
		if err := d.awaitCheckpoint(); !errors.Is(err, why) || d.background != nil || d.awaitCheckpoint() != nil {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
	d := &database{opts: &Options{MaxWAL: most}}
	d.checkpointing = checkpointing{background: make(chan error, 1)} // one runs
	if err := d.boundWAL(); err != nil || d.background == nil {
		t.Errorf("while one runs: %v", err)
	}
	d.background <- why
	if err := d.boundWAL(); !errors.Is(err, why) || d.background != nil {
		t.Errorf("when it has failed: %v", err)
	}
}

func TestRowSize(t *testing.T) {
	r := activitylog.Row{MessageID: "1", RPCID: "22", Actor: "333", Topic: "4444", Status: "55555", Payload: []byte("666666"), Error: "7777777"}
	if got := rowSize(&r); got != 152+1+2+3+4+5+6+7 || sizeOf([]activitylog.Row{r, {}, r}) != 2*got+152 {
		t.Errorf("%d bytes", got)
	}
	for took, want := range map[time.Duration]time.Duration{2 * transactionTime: 20 * time.Millisecond, 2*transactionTime + 1: 45 * time.Millisecond} {
		d := &database{shrink: 40 * time.Millisecond}
		if d.adaptTransaction(took); d.shrink != want {
			t.Errorf("after %s a transaction is shorter by %s; want %s", took, d.shrink, want)
		}
	}
	d := &database{activeSegment: activeSegment{inserts: [len(insertRows)]insert{{rows: 64}, {rows: 8}, {rows: 1}}}}
	for rows, want := range map[int]int{1: 1, 7: 1, 8: 8, 63: 8, 64: 64, 65: 64, 1000: 64} {
		if got := d.insertFor(rows).rows; got != want {
			t.Errorf("%d rows are inserted by %d", rows, got)
		}
	}
	if fmt.Sprint(insertRows) != "[64 8 1]" {
		t.Errorf("rows are inserted by %v", insertRows)
	}
}
