package activitylog

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// sendings returns the rows of so many messages, as a bus appends them that has as many under
// way at a time: all that are sent, then all that are processed, each with a random id.
func sendings(n, depth int, at int64) (rows [][]Row) {
	var raw [16]byte
	of := make([]Sending, n)
	ids := make([]string, n)
	for i := range n {
		rand.Read(raw[:]) //nolint:errcheck // it never fails
		ids[i] = "msg_" + hex.EncodeToString(raw[:])
	}
	for from := 0; from < n; from += depth {
		to := min(from+depth, n)
		for i := from; i < to; i++ {
			payload := []byte(`{"messageId":"` + ids[i] + `","type":"agent_event","from":"agent:load-1","timestamp":"2026-02-17T12:00:00.000000Z","content":{"text":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}}`)
			rows = append(rows, []Row{
				{At: at + int64(i), Event: SendStart, MessageID: ids[i], RPCID: fmt.Sprint(i), Actor: "agent:load-1", Topic: "agent:load-2", Status: StatusStart, Payload: payload, Of: &of[i]},
				{At: at + int64(i), Event: ProcessStart, MessageID: ids[i], RPCID: fmt.Sprint(i + 7), Actor: "agent:load-2", Topic: "agent:load-2", Status: StatusStart, Of: &of[i]},
			})
		}
		for i := from; i < to; i++ {
			rows = append(rows, []Row{
				{At: at + int64(i), Event: ProcessFinish, MessageID: ids[i], RPCID: fmt.Sprint(i + 7), Actor: "agent:load-2", Topic: "agent:load-2", Status: StatusOK, Payload: []byte(`{"processed":true}`), Of: &of[i]},
				{At: at + int64(i), Event: SendFinish, MessageID: ids[i], RPCID: fmt.Sprint(i), Actor: "agent:load-1", Topic: "agent:load-2", Status: StatusOK, Payload: []byte(`{"accepted":true,"messageId":"` + ids[i] + `","deliveredTo":1}`), Of: &of[i]},
			})
		}
	}
	return rows
}

// BenchmarkCost is what the Writer takes for 100,000 messages of one delivery, in seconds of
// processor time.
func BenchmarkCost(b *testing.B) {
	const messages = 100_000
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		w, _, stop := started(b, &Options{Bus: "bus-1"})
		rows := sendings(messages, 64, time.Now().UnixMicro())
		before := cpu()
		b.StartTimer()
		for _, r := range rows {
			w.Append(r...)
		}
		mustSync(b, w)
		b.StopTimer()
		used += cpu() - before
		if err := stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "CPU-s/100k")
}

func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
