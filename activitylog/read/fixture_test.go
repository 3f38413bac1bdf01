package read

import "testing"

func opened(t testing.TB, paths ...string) *Reader {
	t.Helper()
	r := Open(paths...)
	t.Cleanup(r.Close)
	return r
}
