package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/write"
	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
)

// spanned is a log of files of which only the spans are known.
func spanned(spans ...segment.Span) *segment.Snapshot {
	r := &segment.Snapshot{}
	for i := range spans {
		f := &segment.File{Path: "none"}
		f.Known.Store(&spans[i])
		r.Parts = append(r.Parts, &segment.Part{File: f, View: &segment.View{}})
	}
	return r
}

// TestWindow_CoversAllIDs checks which ids of which file come next after a place.
// Ids 301 to 400 are missing, and a file has no row.
func TestWindow_CoversAllIDs(t *testing.T) {
	at := func(d time.Duration) int64 { return logtest.Epoch.Add(d).UnixMicro() }
	r := spanned(segment.Span{First: 1, Last: 100, Since: at(0), Until: at(time.Hour)}, segment.Span{}, segment.Span{First: 101, Last: 300, Since: at(time.Hour), Until: at(2 * time.Hour)},
		segment.Span{First: 401, Last: 401 + 3*windowIDs, Since: at(3 * time.Hour), Until: at(4 * time.Hour)})
	last := int64(401 + 3*windowIDs)
	none := segment.Window{}
	for _, c := range []struct {
		dir  segment.Direction
		at   int64
		file int
		want segment.Window
	}{
		{segment.Forward, 0, 0, segment.Window{Low: 1, High: 100}}, {segment.Forward, 1, 0, segment.Window{Low: 2, High: 100}}, {segment.Forward, 99, 0, segment.Window{Low: 100, High: 100}},
		{segment.Forward, 100, 2, segment.Window{Low: 101, High: 300}}, {segment.Forward, 299, 2, segment.Window{Low: 300, High: 300}}, {segment.Forward, 300, 3, segment.Window{Low: 401, High: 400 + windowIDs}},
		{segment.Forward, 400, 3, segment.Window{Low: 401, High: 400 + windowIDs}}, {segment.Forward, 401, 3, segment.Window{Low: 402, High: 401 + windowIDs}},
		{segment.Forward, last - windowIDs, 3, segment.Window{Low: last - windowIDs + 1, High: last}}, {segment.Forward, last - 1, 3, segment.Window{Low: last, High: last}}, {segment.Forward, last, -1, none},
		{segment.Backward, math.MaxInt64, 3, segment.Window{Low: last - windowIDs + 1, High: last}}, {segment.Backward, last + 1, 3, segment.Window{Low: last - windowIDs + 1, High: last}},
		{segment.Backward, last, 3, segment.Window{Low: last - windowIDs, High: last - 1}}, {segment.Backward, 402, 3, segment.Window{Low: 401, High: 401}}, {segment.Backward, 401, 2, segment.Window{Low: 101, High: 300}},
		{segment.Backward, 301, 2, segment.Window{Low: 101, High: 300}}, {segment.Backward, 300, 2, segment.Window{Low: 101, High: 299}}, {segment.Backward, 101, 0, segment.Window{Low: 1, High: 100}},
		{segment.Backward, 2, 0, segment.Window{Low: 1, High: 1}}, {segment.Backward, 1, -1, none},
	} {
		p := &pager{dir: c.dir, at: c.at}
		in, w, ok := p.window(r)
		if ok != (c.file >= 0) || ok && (in != r.Parts[c.file] || w != c.want) {
			t.Errorf("backward %t, at %d: ids %d to %d, %t; want %v", c.dir, c.at, w.Low, w.High, ok, c.want)
		}
	}
	if got := r.End(); got != last {
		t.Errorf("the last row is %d; want %d", got, last)
	}
	if got := spanned(segment.Span{First: 1, Last: 7, Since: 0, Until: 0}, segment.Span{}).End(); got != 7 {
		t.Errorf("the last row before an empty file is %d", got)
	}
	if got := spanned().End(); got != 0 {
		t.Errorf("the last row of no file is %d", got)
	}
	r.Err = errors.New("why")
	for _, p := range []*pager{{at: 1}, {dir: segment.Backward, at: 100}} {
		if _, _, ok := p.window(r); ok {
			t.Error("a reading that failed goes on")
		}
	}
}

// hourly writes messages an hour apart, three to a file, of which the older ones are sealed.
func hourly(t *testing.T, messages int) (path string, rows []activitylog.Row) {
	t.Helper()
	var commits [][]activitylog.Row
	for i := range messages {
		list := logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Hour))
		commits, rows = append(commits, list), append(rows, list...)
	}
	path = t.TempDir() + "/activity.db"
	for i := 0; i < len(commits); i += 3 {
		three := commits[i:min(i+3, len(commits))]
		writetest.Store(t, path, &write.Options{SegmentRows: int64(len(slices.Concat(three...))), SegmentAge: 100 * 365 * 24 * time.Hour}, three...)
	}
	if err := logtest.SealAll(t, path); err != nil {
		t.Fatal(err)
	}
	return path, rows
}

// TestFilter_SelectsTimeRange reads from and until the time of each row, and the moments
// beside it, in both directions, in pages of several sizes.
func TestFilter_SelectsTimeRange(t *testing.T) {
	path, rows := hourly(t, 11)
	if n := len(logtest.Sealed(t, path)); n != 4 {
		t.Fatalf("%d sealed files", n)
	}
	r := opened(t, path)
	var moments []time.Time
	for i := 0; i < len(rows); i += 9 {
		at := time.UnixMicro(rows[i].At)
		moments = append(moments, at, at.Add(time.Microsecond))
	}
	moments = append(moments, logtest.Epoch.Add(-time.Hour), logtest.Epoch.Add(1000*time.Hour), time.Time{})
	check := func(f Filter) {
		t.Helper()
		var want []int64
		for i := range rows {
			at := time.UnixMicro(rows[i].At)
			if !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until)) {
				want = append(want, int64(i+1))
			}
		}
		for _, n := range []int{2, 1000} {
			for _, dir := range []segment.Direction{segment.Forward, segment.Backward} {
				var got []int64
				for at := (Cursor)(nil); ; {
					read := r.After
					if dir == segment.Backward {
						read = r.Before
					}
					page, next, err := read(t.Context(), f, at, n)
					if err != nil {
						t.Fatal(err)
					}
					ids := make([]int64, len(page))
					for i := range page {
						ids[i] = page[i].ID
					}
					if got = append(got, ids...); dir == segment.Backward {
						got = append(ids, got[:len(got)-len(ids)]...)
					}
					if at = next; len(page) < n {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v, backward %t, by %d: rows %v; want %v", f, dir, n, got, want)
				}
			}
		}
	}
	for _, at := range moments {
		check(Filter{Since: at})
		check(Filter{Until: at})
		check(Filter{Since: at, Until: at.Add(3 * time.Hour)})
	}
}

// TestPage_IsBoundedInBytes checks that a page ends with the row that reaches
// the bound.
func TestPage_IsBoundedInBytes(t *testing.T) {
	path := t.TempDir() + "/activity.db"
	var rows []activitylog.Row
	large := func(n int) {
		rows = append(rows, activitylog.Row{At: logtest.Epoch.UnixMicro(), Event: activitylog.Rejected, Payload: slices.Repeat([]byte("1"), n)})
	}
	for _, n := range []int{pageBytes - 10, 9, 1, 1, 1} {
		large(n)
	}
	writetest.Store(t, path, nil, rows)
	r := opened(t, path)
	p := &pager{source: r.sources[0], limit: 1000}
	for _, want := range []int{3, 2, 0} {
		page, err := p.next(t.Context())
		if err != nil || len(page) != want {
			t.Errorf("a page has %d rows, %v; want %d", len(page), err, want)
		}
	}
	all, _, err := r.After(t.Context(), Filter{}, nil, 1000)
	if err != nil || len(all) != 5 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}

// TestEnvelopes_AreFoundAtAnyTime sets the clock forward or back while messages are under
// way, and gives another bus another clock. If the send_start rows of messages are gone,
// only the first of these messages are searched for in all files.
func TestEnvelopes_AreFoundAtAnyTime(t *testing.T) {
	path, other := t.TempDir()+"/activity.db", t.TempDir()+"/activity.db"
	start := func(id string) activitylog.Row {
		return activitylog.Row{At: logtest.Epoch.UnixMicro(), Event: activitylog.SendStart, MessageID: id, Payload: []byte(`{"type":"tg_message","from":"tg:1"}`)}
	}
	finish := func(id string, after time.Duration) activitylog.Row {
		return activitylog.Row{At: logtest.Epoch.Add(after).UnixMicro(), Event: activitylog.ProcessFinish, MessageID: id}
	}
	opts := &write.Options{SegmentRows: 1, SegmentAge: 100 * 365 * 24 * time.Hour}
	var later []activitylog.Row
	for _, after := range []time.Duration{0, clockSlack, -clockSlack, time.Hour, -time.Hour, 400 * 24 * time.Hour, -400 * 24 * time.Hour} {
		later = append(later, finish("here", after), finish("there", after), finish("nowhere", after))
	}
	writetest.Store(t, path, opts, []activitylog.Row{start("here")}, []activitylog.Row{{At: logtest.Epoch.UnixMicro(), Event: activitylog.LogGap}}, later)
	writetest.Store(t, other, opts, []activitylog.Row{start("there")}, []activitylog.Row{{At: logtest.Epoch.UnixMicro(), Event: activitylog.LogGap}})
	for _, typed := range []bool{false, true} {
		f := Filter{Events: []activitylog.Event{activitylog.ProcessFinish}}
		if typed {
			f.Types = []protocol.MessageType{protocol.TypeTGMessage}
		}
		found := map[string]int{}
		if err := opened(t, path, other).Each(t.Context(), f, func(e *activitylog.Entry) error {
			found[e.MessageID+" "+e.Type]++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"here tg_message": 7, "there tg_message": 7}
		if !typed {
			want["nowhere "] = 7
		}
		if !maps.Equal(found, want) {
			t.Errorf("with a type %t: %v; want %v", typed, found, want)
		}
	}
	var lost []activitylog.Row
	for i := range maxMisses + 5 {
		lost = append(lost, finish(fmt.Sprint("lost ", i), time.Hour))
	}
	writetest.Store(t, path, opts, append(lost, finish("here", 2*time.Hour), finish("there", 0)))
	for n, want := range map[int]string{maxMisses: "", maxMisses - 1: "tg_message"} {
		r := opened(t, path)
		p := &pager{source: r.sources[0], limit: 1, misses: n, at: int64(2 + len(later) + len(lost))}
		page, err := p.next(t.Context())
		if err != nil || len(page) != 1 || page[0].Type != want {
			t.Errorf("after %d misses: %+v, %v", n, page, err)
		}
	}
}

// TestPager_RestartsInReplacedLog checks that reading continues in a log that
// replaced another: forward at its beginning, and backward at the same place.
func TestPager_RestartsInReplacedLog(t *testing.T) {
	path, _ := hourly(t, 2)
	other, _ := hourly(t, 1)
	for dir, want := range map[segment.Direction]int{segment.Forward: 2, segment.Backward: 0} {
		p := &pager{source: segment.NewSource(path), limit: 100, dir: dir, at: 5}
		if _, err := p.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.source = segment.NewSource(other)
		if p.at = 100; dir == segment.Backward {
			p.at = 1
		}
		if page, err := p.next(t.Context()); err != nil || len(page) != want {
			t.Errorf("backward %t: %d rows of the other log, %v", dir, len(page), err)
		}
	}
}

func TestIntern_SharesWords(t *testing.T) {
	for _, s := range []string{"send_start", "log_gap", "start", "ok", "another", ""} {
		if got := intern(s); got != s {
			t.Errorf("%q is %q", s, got)
		}
	}
	for e := range activitylog.LogPruned + 2 {
		name := e.String()
		back, ok := activitylog.ParseEvent(name)
		if known := e > 0 && e <= activitylog.LogPruned; ok != known || ok && back != e || !known && name != fmt.Sprintf("event(%d)", e) {
			t.Errorf("event %d is %q, and back %d, %t", e, name, back, ok)
		}
	}
	if e, ok := activitylog.ParseEvent(""); ok {
		t.Errorf("no name is event %d", e)
	}
}

// TestFilter_Conditions applies each condition to an active file, a sealed one, and one
// of an older program.
func TestFilter_Conditions(t *testing.T) {
	at := logtest.Epoch.Add(time.Microsecond)
	for _, c := range []struct {
		f              Filter
		narrow, sealed string
	}{
		{Filter{}, "", ""},
		{Filter{Topic: "agent:a"}, " AND topic = ?[agent:a]", ""},
		{Filter{Topic: "system:attention"}, " AND topic = 'system:attention'[]", ""},
		{Filter{Topic: "agent:*"}, " AND topic GLOB ?[agent:*]", ""},
		{Filter{Topic: "agent:?x"}, " AND topic GLOB ?[agent:?x]", ""},
		{Filter{Peer: "tg:1", Topic: "x"}, " AND topic = ? AND actor = ?[x tg:1]", ""},
		{Filter{Events: []activitylog.Event{activitylog.SendStart}}, " AND kind = 1[]", ""},
		{Filter{Events: []activitylog.Event{activitylog.Rejected, activitylog.LogGap}}, " AND kind IN (5,10)[]", ""},
		{Filter{Brief: true}, " AND NOT (kind = 2 OR status = 'ok' AND kind IN (3,4)) AND NOT (kind = 1 AND payload_json IS NOT NULL AND (payload_json LIKE '" + strings.Join(signsOfLife, "' OR payload_json LIKE '") + "')) AND NOT (actor GLOB 'cli:*' AND kind IN (6,7,8,9))[]", ""},
		{Filter{NotTopic: "a:*", NotPeer: "tg:1"}, " AND (topic IS NULL OR topic NOT GLOB ?) AND (actor IS NULL OR actor NOT GLOB ?)[a:* tg:1]", ""},
		{Filter{Status: "ok"}, " AND status = ?[ok]", ""},
		{Filter{Text: `5%_\`}, ` AND (payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')[%5\%\_\\% %5\%\_\\% %5\%\_\\%]`, ""},
		{Filter{Since: at}, fmt.Sprintf(" AND at >= ?[%d]", at.UnixMicro()), ""},
		{Filter{Until: at}, fmt.Sprintf(" AND at < ?[%d]", at.UnixMicro()), ""},
		{Filter{about: "e1"}, ` AND (payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')[%e1% %e1% %e1%]`,
			" AND id IN (SELECT id FROM about WHERE subject = ? OR subject >= ? AND subject < ?)[e1 e1#edit- e1#edit.]"},
		{Filter{about: "é"}, "", " AND id IN (SELECT id FROM about WHERE subject = ? OR subject >= ? AND subject < ?)[é é#edit- é#edit.]"},
	} {
		sealed := cmp.Or(c.sealed, c.narrow)
		for want, v := range map[*string]*segment.View{&c.narrow: {}, &sealed: {About: true}} {
			where, args := c.f.where(v, 0)
			got := where
			if where != "" {
				got += fmt.Sprint(args)
			}
			if got != *want {
				t.Errorf("%+v: %s; want %s", c.f, got, *want)
			}
		}
	}
	for c, many := range map[rune]bool{' ': true, '!': false, '~': false, 0x7f: true, 0x1f: true, 'é': true, '"': true, '\\': true, '/': true, '<': true, '>': true, '&': true, '\'': true, 'a': false, '0': false} {
		if manySpellings(c) != many {
			t.Errorf("%q has several spellings: %t", c, !many)
		}
	}
	for _, c := range []struct {
		events []activitylog.Event
		want   bool
	}{{nil, false}, {[]activitylog.Event{activitylog.SendStart}, true}, {[]activitylog.Event{activitylog.SendFinish}, false}, {[]activitylog.Event{activitylog.SendStart, activitylog.SendFinish}, false}} {
		if got := (&Filter{Events: c.events}).startsOnly(); got != c.want {
			t.Errorf("%v are starts alone: %t", c.events, got)
		}
	}
}

func TestRead_InterruptedOneReturnsNothing(t *testing.T) {
	s := logtest.NewScript(t)
	for range 50 {
		s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	}
	r := opened(t, writetest.Log(s, ""))
	p := &pager{source: r.sources[0], limit: 1000}
	ctx, cancel := context.WithCancel(t.Context())
	err := p.source.With(ctx, func(r *segment.Snapshot) {
		in := r.Parts[0]
		v := r.Open(in)
		cancel()
		for v.Err == nil { // until the interrupt has come
			v.Query("SELECT 1", nil, func(*sqlite.Stmt) bool { return true })
		}
		v.Err = nil
		p.read(r, in, segment.Window{Low: 1, High: 100})
	})
	if !errors.Is(err, context.Canceled) || p.at != 0 {
		t.Errorf("after an interrupt: %v, place %d", err, p.at)
	}
	ctx, cancel = context.WithCancel(t.Context())
	var page []activitylog.Entry
	err = p.source.With(ctx, func(r *segment.Snapshot) {
		page = p.read(r, r.Parts[0], segment.Window{Low: 1, High: 100})
		cancel()
	})
	if err != nil || len(page) != 100 || p.at != 100 {
		t.Errorf("a page that was read before the end: %d rows, %v, place %d", len(page), err, p.at)
	}
}
