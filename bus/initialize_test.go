package bus

import (
	"slices"
	"testing"

	"hubbub/activitylog"
	"hubbub/protocol/wire"
)

// kept is a log that keeps its rows.
type kept struct{ rows []activitylog.Row }

func (k *kept) TryAppend(rows ...activitylog.Row) bool { k.Append(rows...); return true }
func (k *kept) Append(rows ...activitylog.Row)         { k.rows = append(k.rows, rows...) }
func (k *kept) Admit() error                           { return nil }
func (k *kept) Stats() activitylog.Stats               { return activitylog.Stats{} }

// TestASessionThatEndsWhileItInitializes ends a session before it gets its
// clientId, after that, and once it is one of a peer. It never stays in the bus,
// and the log has as many ends as beginnings.
func TestASessionThatEndsWhileItInitializes(t *testing.T) {
	const id = "agent:a"
	for name, c := range map[string]struct {
		end  func(s *session, end func())
		rows []activitylog.Event
	}{
		"before it has its id": {func(s *session, end func()) {
			end()
			if _, ok := s.server.register(s, id); ok {
				t.Error("a session that has ended was registered")
			}
		}, nil},
		"before it is ready": {func(s *session, end func()) {
			s.server.register(s, id)
			end()
			if reason, ok := s.open(); ok || reason != "it must" {
				t.Errorf("opened after its end: %t, because %q", ok, reason)
			}
		}, nil}, // initialize has recorded the beginning, and records the end
		"once it is ready": {func(s *session, end func()) {
			s.server.register(s, id)
			if _, ok := s.open(); !ok {
				t.Error("not opened")
			}
			end()
		}, []activitylog.Event{activitylog.PeerDisconnected}},
	} {
		log := &kept{}
		srv := New(log, nil)
		stream, _ := wire.Pipe(nil)
		s := srv.enter(stream, "here", nil)
		b := srv.newBatch()
		c.end(s, func() { s.end(b, "it must") })
		var events []activitylog.Event
		for _, r := range log.rows {
			events = append(events, r.Event)
		}
		if !slices.Equal(events, c.rows) {
			t.Errorf("%s: rows %v; want %v", name, events, c.rows)
		}
		if len(srv.peers) > 0 || len(srv.sessions) > 0 || len(srv.Peers()) > 0 {
			t.Errorf("%s: it is still there", name)
		}
	}
}
