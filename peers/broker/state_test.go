package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/store"
)

// A restart gives online endpoints time for a sign of life, and offline ones no more time.
func TestLoad_RestartsTheTimeoutOfEndpoints(t *testing.T) {
	d := newStoredFixture(t)
	d.do("agent:gone", "identity.announce", m{"endpointId": "e-gone"})
	d.do("agent:gone", "identity.leave", m{"endpointId": "e-gone"})
	d.do("agent:here", "identity.announce", m{"endpointId": "e-here"})
	then := formatTime(d.now)
	d.now = d.now.Add(time.Hour)
	s, err := load(t.Context(), d.db, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if e := s.Endpoints["e-here"]; e == nil || e.LastHeartbeatAt != formatTime(d.now) {
		t.Errorf("the endpoint that is online: %+v", e)
	}
	if e := s.Endpoints["e-gone"]; e == nil || e.LastHeartbeatAt != then {
		t.Errorf("the endpoint that is gone: %+v", e)
	}
}

// A state that misses an event would decide wrongly from then on.
func TestApply_RefusesAGap(t *testing.T) {
	d := newFixture(t)
	d.do("cli:will", "conversation.create", m{"id": "c", "kind": "channel"})
	d.do("cli:will", "conversation.create", m{"id": "c2", "kind": "channel"})
	last := d.log[len(d.log)-1]
	if err := newState(nil).apply(last); err == nil || !strings.Contains(err.Error(), "has a gap") {
		t.Errorf("event %d first: %v", last.Seq, err)
	}
}

// An item larger than a page is a page of its own, so a list always advances.
func TestPageSize_IsAtLeastOne(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  int
	}{{[]int{pageBytes + 1, 1}, 1}, {[]int{1, pageBytes}, 1}, {[]int{1, pageBytes - 1, 1}, 2}, {[]int{pageBytes + 1}, 1}, {nil, 0}} {
		if got := pageSize(0, len(c.sizes), func(i int) int { return c.sizes[i] }); got != c.want {
			t.Errorf("of %v a page takes %d, want %d", c.sizes, got, c.want)
		}
	}
}

// TestPageSize_IsBounded checks a default of 200 and a maximum of 1000.
func TestPageSize_IsBounded(t *testing.T) {
	for _, c := range []struct{ asked, n, want int }{
		{0, 5000, 200}, {0, 200, 200}, {0, 199, 199}, {1, 5000, 1}, {1000, 5000, 1000}, {1001, 5000, 1000}, {7, 7, 7}, {8, 7, 7},
	} {
		if got := pageSize(c.asked, c.n, func(int) int { return 1 }); got != c.want {
			t.Errorf("asked for %d of %d a page takes %d; want %d", c.asked, c.n, got, c.want)
		}
	}
	if pageBytes != 512<<10 {
		t.Errorf("a page has %d bytes", pageBytes)
	}
}

// TestTable_IsTheSameInMemoryAndStored compares the open records, and the results and order of
// lists.
func TestTable_IsTheSameInMemoryAndStored(t *testing.T) {
	stored := newStoredFixture(t)
	from := &tables{tx: store.On(t.Context(), stored.db)}
	for name, s := range map[string]*table[int]{"in memory": newTable[int]("x", nil), "stored": newTable[int]("x", from)} {
		s.put("a", 1, "odd", true, 1)
		s.put("b", 2, "even", false, 2)
		s.put("c", 3, "odd", false, 3)
		s.put("a", 5, "odd", true, 4) // it keeps its place
		check := func(when string) {
			for _, c := range []struct {
				ref, after string
				limit      int
				want       []int
			}{
				{"", "", 9, []int{5, 2, 3}}, {"odd", "", 9, []int{5, 3}}, {"even", "", 9, []int{2}}, {"none", "", 9, nil},
				{"", "a", 9, []int{2, 3}}, {"odd", "a", 9, []int{3}}, {"", "c", 9, nil}, {"", "", 2, []int{5, 2}}, {"", "a", 1, []int{2}}, {"", "", 0, nil},
			} {
				if got := s.list(c.ref, c.after, c.limit); !slices.Equal(got, c.want) {
					t.Errorf("%s, %s: %d of %q after %q are %v; want %v", name, when, c.limit, c.ref, c.after, got, c.want)
				}
			}
			if got := s.openIDs(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%s, %s: open are %v", name, when, got)
			}
			for id, want := range map[string]int{"a": 5, "b": 2, "d": 0, "": 0} {
				if got, found := s.find(id); got != want || found != (want > 0) || s.get(id) != want {
					t.Errorf("%s, %s: %q is %d, %v", name, when, id, got, found)
				}
			}
		}
		check("put")
		if name == "stored" {
			from.flush()
			from.evict()
			if len(s.cache) != 1 || len(s.dirty) != 0 {
				t.Errorf("%d are in memory, and %d to be written; one is open", len(s.cache), len(s.dirty))
			}
			check("committed")
			s.put("a", 5, "odd", false, 5) // closed
			from.flush()
			from.evict()
			again := newTable[int]("x", &tables{tx: from.tx})
			if list := again.loadOpen(); len(s.cache) != 0 || len(list) != 0 {
				t.Errorf("what is closed is still in memory, or read: %v", list)
			}
		}
	}
	if err := from.tx.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestNextDue_ReturnsTheEarliestTime covers all kinds of open records.
func TestNextDue_ReturnsTheEarliestTime(t *testing.T) {
	d := newFixture(t)
	begun := d.now
	want := func(after time.Duration) {
		t.Helper()
		if got := d.turn("collab:broker").nextDue(); got.Sub(begun) != after && !(got.IsZero() && after == 0) {
			t.Errorf("due after %v; want %v", got.Sub(begun), after)
		}
	}
	decide := func(id string, after time.Duration) {
		d.do("agent:a", "decision.ask", m{"id": id, "tool": "shell", "digest": "abc", "mayDecide": []string{}, "expiresAt": formatTime(begun.Add(after))})
	}
	want(0)
	d.announce("lead")
	want(30 * time.Second)
	decide("late", 40*time.Second)
	want(30 * time.Second)
	decide("dec", 20*time.Second)
	want(20 * time.Second)
	d.do("agent:a", "claim.acquire", m{"eventId": "e", "ttlMs": 10_000})
	want(10 * time.Second)
	d.do("agent:a", "claim.release", m{"eventId": "e", "token": 1})
	want(20 * time.Second)
	d.do("cli:will", "decision.decide", m{"id": "dec", "verdict": "allow", "scope": "always"}) // open, but not due
	want(30 * time.Second)
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	want(40 * time.Second)
}

// TestEndpoint_ExpiresAfterItsTimeout checks that it goes offline after its timeout and is
// forgotten a day later.
func TestEndpoint_ExpiresAfterItsTimeout(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	for _, c := range []struct {
		later time.Duration
		want  string
	}{
		{30*time.Second - time.Microsecond, "online"}, {time.Microsecond, "offline"}, {24*time.Hour - 30*time.Second - time.Microsecond, "offline"}, {time.Microsecond, ""},
	} {
		d.sweep(c.later)
		status := ""
		if e := d.state.Endpoints["e-lead"]; e != nil {
			status = e.Status
		}
		if status != c.want {
			t.Errorf("after %v more it is %q; want %q", c.later, status, c.want)
		}
	}
	d.checkRebuild()
}
