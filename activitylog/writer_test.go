package activitylog

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

func start(t testing.TB, opts *Options) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	w := NewWriter(path, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w, path
}

func TestOne(t *testing.T) {
	w, _ := start(t, nil)
	w.Append(Row{At: time.Now().UnixMicro(), Event: SendStart, MessageID: "m"})
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Written != 1 || s.QueuedRows != 0 {
		t.Fatalf("%+v", s)
	}
}

func BenchmarkAppend(b *testing.B) {
	w, _ := start(b, &Options{Bus: "bus-1"})
	payload := []byte(`{"messageId":"msg_01J00000000000000000000000","type":"tg_message","from":"tg:123456789","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello there, how are you"}}`)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		id := fmt.Sprintf("msg_%026d", i)
		now := time.Now().UnixMicro()
		w.Append(
			Row{At: now, Event: SendStart, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: StatusStart, Payload: payload},
			Row{At: now, Event: ProcessStart, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: StatusStart})
		w.Append(
			Row{At: now, Event: ProcessFinish, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: StatusOK},
			Row{At: now, Event: SendFinish, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: StatusOK})
		i++
	}
	if err := w.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(w.Stats().Written)/b.Elapsed().Seconds(), "rows/s")
}
