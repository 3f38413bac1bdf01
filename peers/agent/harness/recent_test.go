package harness_test

import (
	"testing"

	"hubbub/peers/agent/harness"
)

func TestRecentForgetsWhatWasPutLongestAgo(t *testing.T) {
	r := harness.NewRecent[string, int](2)
	r.Put("a", 1)
	r.Put("b", 2)
	r.Put("a", 3)
	r.Put("c", 4)
	if _, ok := r.Get("b"); ok {
		t.Error("b is still there")
	}
	if v, ok := r.Take("a"); v != 3 || !ok {
		t.Errorf("a = %d, %t", v, ok)
	}
	r.Put("d", 5)
	if v, ok := r.Get("c"); v != 4 || !ok {
		t.Errorf("c = %d, %t", v, ok)
	}
}
