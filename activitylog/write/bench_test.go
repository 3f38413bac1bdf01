package write

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"
)

var benchPayload = []byte(`{"messageId":"msg_01J00000000000000000000000","type":"tg_message","from":"tg:123456789","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello there, how are you"}}`)

// messageRows are the four rows of one delivered message.
func messageRows(i int, at int64) [4]activitylog.Row {
	id := fmt.Sprintf("msg_%026d", i)
	return [4]activitylog.Row{
		{At: at, Event: activitylog.SendStart, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: activitylog.StatusStart, Payload: benchPayload},
		{At: at, Event: activitylog.ProcessStart, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: activitylog.StatusStart},
		{At: at + 1, Event: activitylog.ProcessFinish, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: activitylog.StatusOK},
		{At: at + 1, Event: activitylog.SendFinish, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: activitylog.StatusOK},
	}
}

// BenchmarkAppend appends one message, which is four rows, and waits at the end until all
// are written.
func BenchmarkAppend(b *testing.B) {
	w, _, _ := started(b, &Options{Bus: "bus-1"})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		rows := messageRows(i, time.Now().UnixMicro())
		w.Append(rows[:2]...)
		w.Append(rows[2:]...)
	}
	mustSync(b, w)
	b.ReportMetric(float64(w.Stats().Written)/b.Elapsed().Seconds(), "rows/s")
}

// history writes 100,000 rows: 25,000 messages, of which one in 500 is a reply.
func history(b *testing.B) *read.Reader {
	b.Helper()
	w, path, stop := started(b, nil)
	at := time.Now().UnixMicro()
	for i := range 25_000 {
		rows := messageRows(i, at+int64(i)*1000)
		if i%500 == 0 {
			rows[0].Payload = []byte(strings.Replace(string(benchPayload), "tg_message", "tg_reply", 1))
		}
		w.Append(rows[:]...)
	}
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	r := read.Open(path)
	b.Cleanup(r.Close)
	return r
}

// BenchmarkPage reads pages of 100 rows from 100,000.
func BenchmarkPage(b *testing.B) {
	r := history(b)
	middle := read.Cursor{50_000}
	for _, c := range []struct {
		name string
		f    read.Filter
	}{
		{"all", read.Filter{}},
		{"peer", read.Filter{Peer: "agent:lead"}},
		{"common type", read.Filter{Types: []protocol.MessageType{"tg_message"}}},
		{"rare type", read.Filter{Types: []protocol.MessageType{"tg_reply"}}},
		{"rare text", read.Filter{Text: "nowhere"}},
		{"absent topic", read.Filter{Topic: "nobody:*"}},
	} {
		b.Run("before/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := r.Before(b.Context(), c.f, middle, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("after/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := r.After(b.Context(), c.f, nil, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEach reads all of 100,000 rows.
func BenchmarkEach(b *testing.B) {
	r := history(b)
	for b.Loop() {
		if err := r.Each(b.Context(), read.Filter{}, func(*activitylog.Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
