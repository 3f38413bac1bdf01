package bus

import (
	"testing"
	"time"

	"hubbub/protocol"
)

// TestTheTableOfFirstsIsBoundedAndForgets fills it, and lets ten minutes pass.
func TestTheTableOfFirstsIsBoundedAndForgets(t *testing.T) {
	var table firsts
	at := time.Unix(1000, 0)
	one := &protocol.Send{From: "tg:1", MessageID: "m1"}
	f, mine, _, err := table.claim(at, one, repeat{})
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	table.settle(f, make([]byte, onceBytes))
	if _, _, _, err := table.claim(at, &protocol.Send{From: "tg:1", MessageID: "m2"}, repeat{}); err != errOnceFull {
		t.Errorf("one too many: %v", err)
	}
	if _, mine, answer, err := table.claim(at.Add(onceFor-1), one, repeat{}); mine || len(answer) != onceBytes || err != nil {
		t.Errorf("a repeat within ten minutes: %t, %v", mine, err)
	}
	if _, mine, _, err := table.claim(at.Add(onceFor), one, repeat{}); !mine || err != nil {
		t.Errorf("after ten minutes: %t, %v", mine, err)
	}
	if table.bytes > 1000 || len(table.order) != 1 {
		t.Errorf("%d bytes and %d messages are left", table.bytes, len(table.order))
	}
	for range onceWaiters {
		if _, mine, _, err := table.claim(at.Add(onceFor), one, repeat{rpcID: []byte("1")}); mine || err != nil {
			t.Fatal(mine, err)
		}
	}
	if _, _, _, err := table.claim(at.Add(onceFor), one, repeat{rpcID: []byte("1")}); err != errOnceWaiters {
		t.Errorf("a repeat too many: %v", err)
	}
}
