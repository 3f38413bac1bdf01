package mx

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"hubbub/peers/store"
)

// A gap answers the first sync with what a homeserver sends after a long time, and says what was missed.
type gap struct{ sync, missed string }

func (g gap) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/sync"):
		body = g.sync
	case strings.HasSuffix(r.URL.Path, "/messages") && r.URL.Query().Get("from") == "cut":
		body = g.missed
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: r}, nil
}

// TestSync_AfterGapNewestStateHolds checks that the state that a limited sync names stays the newest one,
// although older states among the missed events are read later, and that a state older than those counts.
func TestSync_AfterGapNewestStateHolds(t *testing.T) {
	const (
		event  = `{"sender":"@a:hs","event_id":`
		sealed = event + `"$e","type":"m.room.encryption","state_key":"","content":{}}`
		first  = event + `"$n1","type":"m.room.name","state_key":"","content":{"name":"first"}}`
		second = event + `"$n2","type":"m.room.name","state_key":"","content":{"name":"second"}}`
		join   = event + `"$j","type":"m.room.member","state_key":"@x:hs","content":{"membership":"join"}}`
		leave  = event + `"$l","type":"m.room.member","state_key":"@x:hs","content":{"membership":"leave"}}`
		last   = event + `"$m","type":"m.room.message","content":{"msgtype":"m.text","body":"hi"}}`
	)
	b := newBridge(t, nil, nil)
	b.api.Client = &http.Client{Transport: gap{
		sync: `{"next_batch":"2","rooms":{"join":{"!room:hs":{"state":{"events":[` + sealed + `,` + leave + `,` + second +
			`]},"timeline":{"limited":true,"prev_batch":"cut","events":[` + last + `]}}}}}`,
		missed: `{"chunk":[` + second + `,` + leave + `,` + join + `,` + first + `]}`,
	}}
	err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO account (one, user, device, since) VALUES (1, '', '', '1')`)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ingest.applyBatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := store.ReadValue[string](t.Context(), b.db, `SELECT title || ' ' || encrypted || ' ' ||
		(SELECT count(*) FROM members WHERE room = '!room:hs') || ' ' || (SELECT count(*) FROM inbox) FROM chats`)
	if err != nil || got != "second 1 0 6" {
		t.Errorf("title, encryption, members and events are %q, %v; want those of the newest state: second 1 0 6", got, err)
	}
}
