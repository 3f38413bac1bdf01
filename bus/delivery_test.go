package bus

import (
	"strings"
	"testing"

	"hubbub/protocol/wire"
)

// TestQueue_DeliveryWaitsForItsRecord makes a peer answer after a delivery gets
// its place in the queue and before its start is recorded: the delivery is sent
// once, after that.
func TestQueue_DeliveryWaitsForItsRecord(t *testing.T) {
	srv := New(nil, &Options{PeerWindow: 1})
	stream, far := wire.Pipe(nil)
	s := &session{server: srv, stream: stream}
	b := srv.newBatch()
	first := &delivery{publication: &publication{params: []byte(`"first"`)}, target: s}
	second := &delivery{publication: &publication{params: []byte(`"second"`)}, target: s}
	for _, d := range []*delivery{first, second} {
		if refused := s.reserve(d); refused != "" {
			t.Fatal(refused)
		}
	}
	s.write(b, first)
	s.takeAnswered(b, first.id) // answered: there is room for the second
	if got := written(t, s, far.Read); len(got) != 1 || !strings.Contains(got[0], "first") {
		t.Fatalf("before its start is recorded, these are sent: %q; want the first alone", got)
	}
	s.write(b, second)
	s.takeAnswered(b, second.id)
	if got := written(t, s, far.Read); len(got) != 1 || !strings.Contains(got[0], "second") {
		t.Fatalf("then these are sent: %q; want the second, once", got)
	}
}

// TestWrite_SkipsDeliveryThatTimedOut lets a delivery time out while the log holds its publisher:
// its sender learns that it was not sent, so it must not be sent after that.
func TestWrite_SkipsDeliveryThatTimedOut(t *testing.T) {
	srv := New(nil, nil)
	stream, far := wire.Pipe(nil)
	s := &session{server: srv, stream: stream}
	b := srv.newBatch()
	d := &delivery{publication: &publication{params: []byte(`"late"`), accepted: b.at}, target: s}
	if refused := s.reserve(d); refused != "" {
		t.Fatal(refused)
	}
	if late := s.expired(b, b.at); len(late) != 1 {
		t.Fatalf("%d deliveries have timed out, want 1", len(late))
	}
	s.write(b, d)
	if got := written(t, s, far.Read); len(got) != 0 || d.written {
		t.Errorf("these are sent: %q; want none", got)
	}
}

// written returns the frames that a session has written until now.
func written(t *testing.T, s *session, read func() ([]byte, error)) (frames []string) {
	t.Helper()
	const end = "end"
	if err := s.stream.Write([]byte(end)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if string(frame) == end {
			return frames
		}
		frames = append(frames, string(frame))
	}
}
