package write

import (
	"testing"
	"time"
)

func TestTransaction_IsShorterOnSlowDatabase(t *testing.T) {
	d := &database{}
	for range 5 {
		d.adaptTransaction(300 * time.Millisecond)
	}
	if d.shrink <= transactionTime/2 || d.shrink >= transactionTime {
		t.Errorf("after slow transactions the next is shorter by %s", d.shrink)
	}
	for range 10 {
		d.adaptTransaction(time.Millisecond)
	}
	if d.shrink > time.Millisecond {
		t.Errorf("after quick ones it is still shorter by %s", d.shrink)
	}
}
