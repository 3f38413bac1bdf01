package broker

import (
	"strings"
	"testing"
	"time"
)

// A restart gives who was online time to be heard of again, and lengthens the life of
// nobody who was gone.
func TestARestartCountsAsHeardOfForWhoIsOnline(t *testing.T) {
	d := newStoredDesk(t)
	d.do("agent:gone", "identity.announce", m{"endpointId": "e-gone"})
	d.do("agent:gone", "identity.leave", m{"endpointId": "e-gone"})
	d.do("agent:here", "identity.announce", m{"endpointId": "e-here"})
	then := stamp(d.now)
	d.now = d.now.Add(time.Hour)
	s, err := load(t.Context(), d.db, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if e := s.endpoints["e-here"]; e == nil || e.LastHeartbeatAt != stamp(d.now) {
		t.Errorf("the endpoint that is online: %+v", e)
	}
	if e := s.endpoints["e-gone"]; e == nil || e.LastHeartbeatAt != then {
		t.Errorf("the endpoint that is gone: %+v", e)
	}
}

// A state with an event left out would decide wrongly from then on.
func TestALogWithAGapIsNotFolded(t *testing.T) {
	d := newDesk(t)
	d.do("cli:will", "conversation.create", m{"id": "c", "kind": "channel"})
	d.do("cli:will", "conversation.create", m{"id": "c2", "kind": "channel"})
	last := d.log[len(d.log)-1]
	if err := newState(nil).apply(last); err == nil || !strings.Contains(err.Error(), "has a gap") {
		t.Errorf("event %d first: %v", last.Seq, err)
	}
}

// An item larger than a page is a page of its own: a list never stands still.
func TestAPageTakesOneItemAtLeast(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  int
	}{{[]int{pageBytes + 1, 1}, 1}, {[]int{1, pageBytes}, 1}, {[]int{1, pageBytes - 1, 1}, 2}, {[]int{pageBytes + 1}, 1}, {nil, 0}} {
		if got := take(0, len(c.sizes), func(i int) int { return c.sizes[i] }); got != c.want {
			t.Errorf("of %v a page takes %d, want %d", c.sizes, got, c.want)
		}
	}
}
