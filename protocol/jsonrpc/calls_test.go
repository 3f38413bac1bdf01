package jsonrpc_test

import (
	"maps"
	"strconv"
	"testing"

	"hubbub/protocol/jsonrpc"

	"pgregory.net/rapid"
)

func TestCalls_AreTakenOnce(t *testing.T) { rapid.Check(t, callsAreTakenOnce) }

func FuzzCalls(f *testing.F) { f.Fuzz(rapid.MakeFuzz(callsAreTakenOnce)) }

// callsAreTakenOnce adds requests and takes them by the ids of answers, some of
// which are late, repeated or invented, beside a map of the waiting ones.
func callsAreTakenOnce(t *rapid.T) {
	var calls jsonrpc.Calls[int]
	waiting := map[uint64]int{}
	for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0, 1:
			id := calls.Add(n)
			if _, used := waiting[id]; used || id == 0 {
				t.Fatalf("id %d is given twice", id)
			}
			waiting[id] = n
		case 2, 3, 4:
			id := rapid.Uint64Range(0, 40).Draw(t, "id")
			want, ok := waiting[id]
			if calls.Has(id) != ok {
				t.Fatalf("%d waits: %t; want %t", id, !ok, ok)
			}
			if got, found := calls.Take(id); found != ok || got != want {
				t.Fatalf("taking %d: %d, %t; want %d, %t", id, got, found, want, ok)
			}
			delete(waiting, id)
		default:
			if got := calls.TakeAll(); !maps.Equal(got, waiting) {
				t.Fatalf("taking all: %v; want %v", got, waiting)
			}
			clear(waiting)
		}
		if got := maps.Collect(calls.All); !maps.Equal(got, waiting) || calls.Len() != len(waiting) {
			t.Fatalf("%d wait, %v; want %v", calls.Len(), got, waiting)
		}
	}
	text := rapid.OneOf(rapid.StringMatching(`[0-9]{0,21}`), rapid.String()).Draw(t, "id of an answer")
	got, ok := jsonrpc.ParseCallID(jsonrpc.ID(text))
	if ok && strconv.FormatUint(got, 10) != text {
		t.Fatalf("%q is read as %d", text, got)
	}
	if want, err := strconv.ParseUint(text, 10, 64); !ok && err == nil && strconv.FormatUint(want, 10) == text && want != 0 {
		t.Fatalf("%q is not read", text)
	}
}
