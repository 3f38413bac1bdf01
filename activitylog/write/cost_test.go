package write

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog"
)

// interleavedRows returns the rows of messages, each with a random id, as a bus appends them with
// that many messages under way: all are sent, and then all are processed.
func interleavedRows(n, depth int, at int64) (rows [][]activitylog.Row) {
	var raw [16]byte
	of := make([]activitylog.Sending, n)
	ids := make([]string, n)
	for i := range n {
		rand.Read(raw[:]) //nolint:errcheck // it never fails
		ids[i] = "msg_" + hex.EncodeToString(raw[:])
	}
	for from := 0; from < n; from += depth {
		to := min(from+depth, n)
		for i := from; i < to; i++ {
			payload := []byte(`{"messageId":"` + ids[i] + `","type":"agent_event","from":"agent:load-1","timestamp":"2026-02-17T12:00:00.000000Z","content":{"text":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}}`)
			rows = append(rows, []activitylog.Row{
				{At: at + int64(i), Event: activitylog.SendStart, MessageID: ids[i], RPCID: fmt.Sprint(i), Actor: "agent:load-1", Topic: "agent:load-2", Status: activitylog.StatusStart, Payload: payload, Of: &of[i]},
				{At: at + int64(i), Event: activitylog.ProcessStart, MessageID: ids[i], RPCID: fmt.Sprint(i + 7), Actor: "agent:load-2", Topic: "agent:load-2", Status: activitylog.StatusStart, Of: &of[i]},
			})
		}
		for i := from; i < to; i++ {
			rows = append(rows, []activitylog.Row{
				{At: at + int64(i), Event: activitylog.ProcessFinish, MessageID: ids[i], RPCID: fmt.Sprint(i + 7), Actor: "agent:load-2", Topic: "agent:load-2", Status: activitylog.StatusOK, Payload: []byte(`{"processed":true}`), Of: &of[i]},
				{At: at + int64(i), Event: activitylog.SendFinish, MessageID: ids[i], RPCID: fmt.Sprint(i), Actor: "agent:load-1", Topic: "agent:load-2", Status: activitylog.StatusOK, Payload: []byte(`{"accepted":true,"messageId":"` + ids[i] + `","deliveredTo":1}`), Of: &of[i]},
			})
		}
	}
	return rows
}

// BenchmarkCost measures how many seconds of processor time the Writer takes for 100,000
// messages with one delivery each.
func BenchmarkCost(b *testing.B) {
	const messages = 100_000
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		w, _, stop := started(b, &Options{Bus: "bus-1"})
		rows := interleavedRows(messages, 64, time.Now().UnixMicro())
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
