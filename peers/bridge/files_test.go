package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// TestFiles_ListenAddress checks the order of choice: the setting, the last address, any local
// address.
func TestFiles_ListenAddress(t *testing.T) {
	listen := func(chosen, last string) (net.Listener, error) {
		s := &FileServer{Listen: chosen}
		l, err := s.listen(t.Context(), last)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return l, err
	}
	first, err := listen("", "")
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	if _, err := listen(address, ""); err == nil || !strings.Contains(err.Error(), "listening for files on "+address+" (see --files-listen)") {
		t.Errorf("a chosen address that is taken: %v", err)
	}
	if l, err := listen("", address); err != nil || l.Addr().String() == address || !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Errorf("the last address is taken: %v, %v", l, err)
	}
	first.Close()
	again, err := listen("", address)
	if err != nil || again.Addr().String() != address {
		t.Fatalf("the last address is free: %v, %v; want %s", again, err, address)
	}
	again.Close()
	if l, err := listen(address, "127.0.0.1:1"); err != nil || l.Addr().String() != address {
		t.Errorf("a chosen address: %v, %v", l, err)
	}
}

func TestFiles_ErrorSaysWhatToDo(t *testing.T) {
	log := zerolog.Nop()
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"too large":  {fmt.Errorf("Telegram does not provide it, it is larger than 20 MB: %w", ErrNoFile), 404, "larger than 20 MB"},
		"no network": {errors.New("no network"), 502, "try again"},
		"no path":    {nil, 502, "try again"},
	} {
		w := httptest.NewRecorder()
		(&FileServer{Log: &log}).writeError(w, c.err)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestFiles_AreServedOrRefused checks what an agent gets for a file, by the answer of the chat
// system. The body of a refusal, which a client may return along with the error, is not the file.
func TestFiles_AreServedOrRefused(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "files.db"), Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	log := zerolog.Nop()
	for name, c := range map[string]struct {
		status int
		length int64
		err    error
		code   int
		says   string
	}{
		"a file":              {200, 9, nil, 200, "the bytes"},
		"a file at the limit": {200, maxFile, nil, 200, "the bytes"},
		"a part of a file":    {206, maxFile + 1, nil, 206, "the bytes"},
		"no length":           {200, -1, nil, 200, "the bytes"},
		"a large file":        {200, maxFile + 1, nil, 404, "it has 20971521 bytes; files of at most 20971520 are passed on"},
		"a refusal":           {429, 9, errors.New("M_LIMIT_EXCEEDED"), 502, "try again"},
	} {
		s := &FileServer{
			Path: "/files/", URL: "http://files", DB: db, Log: &log,
			Fetch: func(context.Context, string, string) (*http.Response, string, error) {
				answer := httptest.NewRecorder()
				answer.WriteHeader(c.status)
				answer.WriteString("the bytes")
				resp := answer.Result()
				resp.ContentLength = c.length
				return resp, "", c.err
			},
		}
		var sent []protocol.Attachment
		if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
			sent = s.Attachments(tx, []StoredFile{{ID: "mxc://hs/1"}})
		}); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		s.serve(w, httptest.NewRequest(http.MethodGet, sent[0].Ref, http.NoBody))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
