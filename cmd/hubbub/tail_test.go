package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/peers/store"
)

// TestTailBeginsOnceTheLogIsFree follows a log that another program keeps for
// itself at first, and shows what is there no more than once.
func TestTailBeginsOnceTheLogIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), activityFile)
	logTo(t, path, activitylog.Row{At: noon.UnixMicro(), Event: activitylog.SendStart, MessageID: "first"}).Close()
	db, err := store.Attach(path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, sql := range []string{"PRAGMA journal_mode=DELETE", "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE"} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := activitylog.Open(path)
	defer r.Close()
	var shown bytes.Buffer
	out := newTailWriter(&printer{json: true, w: &shown}, new(view.Titles))
	waited := 0
	waiting := func(error) {
		waited++
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	at, err := (&tailing{follow: true}).last(t.Context(), r, activitylog.Filter{}, 10, out, waiting)
	if err != nil || waited != 1 || len(at) != 1 || at[0] != 1 {
		t.Errorf("it waited %d times, and then: %v, %v", waited, at, err)
	}
	if err := out.flush(); err != nil || bytes.Count(shown.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%v; it shows %s", err, shown.Bytes())
	}
}
