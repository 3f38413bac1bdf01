package activitylog

import (
	"fmt"
	"testing"
	"time"
)

var benchPayload = []byte(`{"messageId":"msg_01J00000000000000000000000","type":"tg_message","from":"tg:123456789","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello there, how are you"}}`)

// messageRows are the four rows of one delivered message.
func messageRows(i int, at int64) [4]Row {
	id := fmt.Sprintf("msg_%026d", i)
	return [4]Row{
		{At: at, Event: SendStart, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: StatusStart, Payload: benchPayload},
		{At: at, Event: ProcessStart, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: StatusStart},
		{At: at + 1, Event: ProcessFinish, MessageID: id, RPCID: "55", Actor: "agent:lead", Topic: "agent:lead", Status: StatusOK},
		{At: at + 1, Event: SendFinish, MessageID: id, RPCID: "12", Actor: "tg:123456789", Topic: "agent:lead", Status: StatusOK},
	}
}

// BenchmarkAppend is one message: four rows appended, and all written in the end.
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
