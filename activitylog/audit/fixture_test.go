package audit

import (
	"testing"

	"hubbub/activitylog/read"
)

func opened(t testing.TB, paths ...string) *read.Reader {
	t.Helper()
	r := read.Open(paths...)
	t.Cleanup(r.Close)
	return r
}

func verdict(t testing.TB, paths ...string) *Verdict {
	t.Helper()
	v, err := Verify(t.Context(), opened(t, paths...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
