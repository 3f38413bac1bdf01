package bus

import (
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// FuzzProcessedAnswer_AgreesWithParser compares the reading without the parser with the parser: the
// processed answer is the answer to the same delivery, and says that it was processed.
func FuzzProcessedAnswer_AgreesWithParser(f *testing.F) {
	for _, id := range []string{"1", "70", "18446744073709551615", "18446744073709551616", "0", "01", "-1", "1.0", "1e3", `"1"`, "null", " 1", "1,", ""} {
		f.Add([]byte(answerHead + id + answerTail))
		f.Add([]byte(answerHead + id + answerTail + " "))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		id, ok := processedAnswer(frame)
		if !ok {
			return
		}
		var p jsonrpc.Parser
		m, err := p.Parse(frame)
		if err != nil || m.Kind != jsonrpc.KindResponse {
			t.Fatalf("the parser takes %q for %+v: %v", frame, m, err)
		}
		if want, _ := jsonrpc.ParseCallID(m.ID); id != want {
			t.Fatalf("%q answers %d; the parser says %d", frame, id, want)
		}
		if o, text := classifyAnswer(&p, m, nil); o != protocol.OutcomeOK {
			t.Fatalf("%q means %s: %s", frame, o, text)
		}
	})
}

// TestProcessedAnswer_NeedsNoParser uses the answer of our own peers, of encoding/json
// and of every writer that keeps the order of keys and adds no space.
func TestProcessedAnswer_NeedsNoParser(t *testing.T) {
	frame := jsonrpc.AppendResult(nil, jsonrpc.ID("70"), processedResult)
	if id, ok := processedAnswer(frame); !ok || id != 70 {
		t.Errorf("processedAnswer(%s) = %d, %t", frame, id, ok)
	}
}
