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

// TestOneCredentialDoesNotFillTheTableOfFirsts: with its share used up it is refused, and
// others are not, until ten minutes have passed.
func TestOneCredentialDoesNotFillTheTableOfFirsts(t *testing.T) {
	var table firsts
	at := time.Unix(1000, 0)
	greedy, other := &account{name: "greedy"}, &account{name: "other"}
	claim := func(by *account, id string, at time.Time) (*first, error) {
		f, _, _, err := table.claim(at, &protocol.Send{From: "tg:1", MessageID: id}, repeat{by: by})
		return f, err
	}
	f, err := claim(greedy, "m1", at)
	if err != nil {
		t.Fatal(err)
	}
	table.settle(f, make([]byte, onceShare))
	if _, err := claim(greedy, "m2", at); err != errOnceShare {
		t.Errorf("beyond its share: %v", err)
	}
	if f, err = claim(other, "m3", at); err != nil {
		t.Fatalf("another credential: %v", err)
	}
	table.settle(f, []byte("{}"))
	if _, err := claim(greedy, "m2", at.Add(onceFor)); err != nil || len(table.used) != 1 {
		t.Errorf("after ten minutes: %v; %d credentials have a share", err, len(table.used))
	}
}
