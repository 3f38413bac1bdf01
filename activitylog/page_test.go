package activitylog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
)

// spanned is a log of files of which only the spans are known.
func spanned(spans ...span) *snapshot {
	r := &snapshot{}
	for i := range spans {
		f := &file{path: "none"}
		f.known.Store(&spans[i])
		r.parts = append(r.parts, &part{file: f, view: &view{}})
	}
	return r
}

// TestWindowsMeet: at a place, which ids of which file come next. Ids 301 to 400 are
// missing, and a file has no row.
func TestWindowsMeet(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).UnixMicro() }
	r := spanned(span{1, 100, at(0), at(time.Hour)}, span{}, span{101, 300, at(time.Hour), at(2 * time.Hour)},
		span{401, 401 + 3*windowIDs, at(3 * time.Hour), at(4 * time.Hour)})
	last := int64(401 + 3*windowIDs)
	none := window{}
	for _, c := range []struct {
		dir  direction
		at   int64
		file int
		want window
	}{
		{forward, 0, 0, window{1, 100}}, {forward, 1, 0, window{2, 100}}, {forward, 99, 0, window{100, 100}},
		{forward, 100, 2, window{101, 300}}, {forward, 299, 2, window{300, 300}}, {forward, 300, 3, window{401, 400 + windowIDs}},
		{forward, 400, 3, window{401, 400 + windowIDs}}, {forward, 401, 3, window{402, 401 + windowIDs}},
		{forward, last - windowIDs, 3, window{last - windowIDs + 1, last}}, {forward, last - 1, 3, window{last, last}}, {forward, last, -1, none},
		{backward, math.MaxInt64, 3, window{last - windowIDs + 1, last}}, {backward, last + 1, 3, window{last - windowIDs + 1, last}},
		{backward, last, 3, window{last - windowIDs, last - 1}}, {backward, 402, 3, window{401, 401}}, {backward, 401, 2, window{101, 300}},
		{backward, 301, 2, window{101, 300}}, {backward, 300, 2, window{101, 299}}, {backward, 101, 0, window{1, 100}},
		{backward, 2, 0, window{1, 1}}, {backward, 1, -1, none},
	} {
		p := &pager{dir: c.dir, at: c.at}
		in, w, ok := p.window(r)
		if ok != (c.file >= 0) || ok && (in != r.parts[c.file] || w != c.want) {
			t.Errorf("backward %t, at %d: ids %d to %d, %t; want %v", c.dir, c.at, w.low, w.high, ok, c.want)
		}
	}
	if got := r.end(); got != last {
		t.Errorf("the last row is %d; want %d", got, last)
	}
	if got := spanned(span{1, 7, 0, 0}, span{}).end(); got != 7 {
		t.Errorf("the last row before an empty file is %d", got)
	}
	if got := spanned().end(); got != 0 {
		t.Errorf("the last row of no file is %d", got)
	}
	r.err = errors.New("why")
	for _, p := range []*pager{{at: 1}, {dir: backward, at: 100}} {
		if _, _, ok := p.window(r); ok {
			t.Error("a reading that failed goes on")
		}
	}
}

// hourly writes messages an hour apart, three to a file, of which the older ones are sealed.
func hourly(t *testing.T, messages int) (path string, rows []Row) {
	t.Helper()
	var commits [][]Row
	for i := range messages {
		list := sent(i, epoch.Add(time.Duration(i)*time.Hour))
		commits, rows = append(commits, list), append(rows, list...)
	}
	path = t.TempDir() + "/activity.db"
	for i := 0; i < len(commits); i += 3 {
		three := commits[i:min(i+3, len(commits))]
		store(t, path, &Options{SegmentRows: int64(len(slices.Concat(three...))), SegmentAge: 100 * 365 * 24 * time.Hour}, three...)
	}
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path, rows
}

// TestRowsOfATime: from and until each moment at which a row is, and a moment beside it,
// in both directions, by pages of several sizes.
func TestRowsOfATime(t *testing.T) {
	path, rows := hourly(t, 11)
	if n := len(sealed(t, path)); n != 4 {
		t.Fatalf("%d sealed files", n)
	}
	r := opened(t, path)
	var moments []time.Time
	for i := 0; i < len(rows); i += 9 {
		at := time.UnixMicro(rows[i].At)
		moments = append(moments, at, at.Add(time.Microsecond))
	}
	moments = append(moments, epoch.Add(-time.Hour), epoch.Add(1000*time.Hour), time.Time{})
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
			for _, dir := range []direction{forward, backward} {
				var got []int64
				for at := (Cursor)(nil); ; {
					read := r.After
					if dir == backward {
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
					if got = append(got, ids...); dir == backward {
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

// TestAPageIsBoundedInBytes: it ends with the row that reaches the bound.
func TestAPageIsBoundedInBytes(t *testing.T) {
	path := t.TempDir() + "/activity.db"
	var rows []Row
	large := func(n int) {
		rows = append(rows, Row{At: epoch.UnixMicro(), Event: Rejected, Payload: slices.Repeat([]byte("1"), n)})
	}
	for _, n := range []int{pageBytes - 10, 9, 1, 1, 1} {
		large(n)
	}
	store(t, path, nil, rows)
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

// TestEnvelopes_AreFoundAtAnyTime although the clock was put forward or back while messages were
// on their way, or another bus has another clock. Of messages whose send_start rows are gone, all
// files are searched for the first ones only.
func TestEnvelopes_AreFoundAtAnyTime(t *testing.T) {
	path, other := t.TempDir()+"/activity.db", t.TempDir()+"/activity.db"
	start := func(id string) Row {
		return Row{At: epoch.UnixMicro(), Event: SendStart, MessageID: id, Payload: []byte(`{"type":"tg_message","from":"tg:1"}`)}
	}
	finish := func(id string, after time.Duration) Row {
		return Row{At: epoch.Add(after).UnixMicro(), Event: ProcessFinish, MessageID: id}
	}
	opts := &Options{SegmentRows: 1, SegmentAge: 100 * 365 * 24 * time.Hour}
	var later []Row
	for _, after := range []time.Duration{0, clockSlack, -clockSlack, time.Hour, -time.Hour, 400 * 24 * time.Hour, -400 * 24 * time.Hour} {
		later = append(later, finish("here", after), finish("there", after), finish("nowhere", after))
	}
	store(t, path, opts, []Row{start("here")}, []Row{{At: epoch.UnixMicro(), Event: LogGap}}, later)
	store(t, other, opts, []Row{start("there")}, []Row{{At: epoch.UnixMicro(), Event: LogGap}})
	for _, typed := range []bool{false, true} {
		f := Filter{Events: []Event{ProcessFinish}}
		if typed {
			f.Types = []protocol.MessageType{protocol.TypeTGMessage}
		}
		found := map[string]int{}
		if err := opened(t, path, other).Each(t.Context(), f, func(e *Entry) error {
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
	var lost []Row
	for i := range maxMisses + 5 {
		lost = append(lost, finish(fmt.Sprint("lost ", i), time.Hour))
	}
	store(t, path, opts, append(lost, finish("here", 2*time.Hour), finish("there", 0)))
	for n, want := range map[int]string{maxMisses: "", maxMisses - 1: "tg_message"} {
		r := opened(t, path)
		p := &pager{source: r.sources[0], limit: 1, misses: n, at: int64(2 + len(later) + len(lost))}
		page, err := p.next(t.Context())
		if err != nil || len(page) != 1 || page[0].Type != want {
			t.Errorf("after %d misses: %+v, %v", n, page, err)
		}
	}
}

// TestAReadingBeginsAnewInAnotherLog: forward at its begin, backward where it was.
func TestAReadingBeginsAnewInAnotherLog(t *testing.T) {
	path, _ := hourly(t, 2)
	other, _ := hourly(t, 1)
	for dir, want := range map[direction]int{forward: 2, backward: 0} {
		p := &pager{source: newSource(path), limit: 100, dir: dir, at: 5}
		if _, err := p.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.source = newSource(other)
		if p.at = 100; dir == backward {
			p.at = 1
		}
		if page, err := p.next(t.Context()); err != nil || len(page) != want {
			t.Errorf("backward %t: %d rows of the other log, %v", dir, len(page), err)
		}
	}
}

func TestWordsOfRowsAreKeptOnce(t *testing.T) {
	for _, s := range []string{"send_start", "log_gap", "start", "ok", "another", ""} {
		if got := intern(s); got != s {
			t.Errorf("%q is %q", s, got)
		}
	}
	for e := range Event(len(eventNames) + 1) {
		name := e.String()
		back, ok := ParseEvent(name)
		if known := e > 0 && int(e) < len(eventNames); ok != known || ok && back != e || !known && name != fmt.Sprintf("event(%d)", e) {
			t.Errorf("event %d is %q, and back %d, %t", e, name, back, ok)
		}
	}
	if e, ok := ParseEvent(""); ok {
		t.Errorf("no name is event %d", e)
	}
}

// TestTheConditionsOfAFilter in a file of this program, a sealed one, and one of an older.
func TestTheConditionsOfAFilter(t *testing.T) {
	at := epoch.Add(time.Microsecond)
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
		{Filter{Events: []Event{SendStart}}, " AND kind = 1[]", ""},
		{Filter{Events: []Event{Rejected, LogGap}}, " AND kind IN (5,10)[]", ""},
		{Filter{Brief: true}, " AND NOT (kind = 2 OR status = 'ok' AND kind IN (3,4)) AND NOT (kind = 1 AND payload_json IS NOT NULL AND (payload_json LIKE '" + strings.Join(signsOfLife, "' OR payload_json LIKE '") + "')) AND NOT (actor GLOB 'cli:*' AND kind IN (6,7,8,9))[]", ""},
		{Filter{NotTopic: "a:*", NotPeer: "tg:1"}, " AND (topic IS NULL OR topic NOT GLOB ?) AND (actor IS NULL OR actor NOT GLOB ?)[a:* tg:1]", ""},
		{Filter{Status: "ok"}, " AND status = ?[ok]", ""},
		{Filter{Text: `5%_\`}, ` AND (payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')[%5\%\_\\% %5\%\_\\% %5\%\_\\%]`, ""},
		{Filter{Since: at}, fmt.Sprintf(" AND at >= ?[%d]", at.UnixMicro()), ""},
		{Filter{Until: at}, fmt.Sprintf(" AND at < ?[%d]", at.UnixMicro()), ""},
		{Filter{about: "e1"}, ` AND (payload_json LIKE ? ESCAPE '\' OR error LIKE ? ESCAPE '\' OR message_id LIKE ? ESCAPE '\')[%e1% %e1% %e1%]`,
			" AND id IN (SELECT id FROM about WHERE subject = ?)[e1]"},
		{Filter{about: "é"}, "", " AND id IN (SELECT id FROM about WHERE subject = ?)[é]"},
	} {
		sealed := cmp.Or(c.sealed, c.narrow)
		for want, v := range map[*string]*view{&c.narrow: {}, &sealed: {about: true}} {
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
		events []Event
		want   bool
	}{{nil, false}, {[]Event{SendStart}, true}, {[]Event{SendFinish}, false}, {[]Event{SendStart, SendFinish}, false}} {
		if got := (&Filter{Events: c.events}).startsOnly(); got != c.want {
			t.Errorf("%v are starts alone: %t", c.events, got)
		}
	}
}
