package activitylog

import (
	"testing"
	"time"
)

func TestASlowDiskGetsLongerTransactions(t *testing.T) {
	for commit, want := range map[time.Duration]time.Duration{
		0: transactionTime, time.Millisecond: transactionTime, transactionTime: transactionTime,
		1200 * time.Millisecond: 1200 * time.Millisecond, maxTransactionTime: maxTransactionTime, time.Minute: maxTransactionTime,
	} {
		if got := insertTime(commit); got != want {
			t.Errorf("after a commit of %s the next transaction inserts for %s; want %s", commit, got, want)
		}
	}
}
