package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hubbub/bus/bustest"
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
	address := bustest.FreeAddress(t)
	first, err := listen("", address)
	if err != nil || first.Addr().String() != address {
		t.Fatalf("the last address: %v, %v; want %s", first, err, address)
	}
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
		"a file at the limit": {200, MaxFile, nil, 200, "the bytes"},
		"a part of a file":    {206, MaxFile + 1, nil, 206, "the bytes"},
		"no length":           {200, -1, nil, 200, "the bytes"},
		"a large file":        {200, MaxFile + 1, nil, 404, "it has 20971521 bytes; files of at most 20971520 are passed on"},
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

// TestFiles_AreBounded checks that no file is passed on whose unknown length exceeds the limit,
// and that only a limited number are passed on at once: further requests wait.
func TestFiles_AreBounded(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "files.db"), Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	log := zerolog.Nop()
	fetched, finish := make(chan bool, 100), make(chan bool)
	var size atomic.Int64
	size.Store(10)
	s := &FileServer{
		Path: "/files/", URL: "http://files", DB: db, Log: &log,
		Fetch: func(context.Context, string, string) (*http.Response, string, error) {
			fetched <- true
			<-finish
			body := io.NopCloser(io.LimitReader(zeros{}, size.Load()))
			return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: body, Header: http.Header{}}, "", nil
		},
	}
	var ref string
	if err := store.InTx(t.Context(), db, func(tx *store.Tx) { ref = s.Attachments(tx, []StoredFile{{ID: "mxc://hs/1"}})[0].Ref }); err != nil {
		t.Fatal(err)
	}
	get := func() (n int64, err error) {
		web := httptest.NewServer(http.HandlerFunc(s.serve))
		defer web.Close()
		resp, err := http.Get(web.URL + strings.TrimPrefix(ref, "http://files")) //nolint:noctx // the server is this test's
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return io.Copy(io.Discard, resp.Body)
	}
	results := make(chan error, 2*maxFetches)
	for range 2 * maxFetches {
		go func() {
			n, err := get()
			if err == nil && n != size.Load() {
				err = fmt.Errorf("%d bytes came", n)
			}
			results <- err
		}()
	}
	for range maxFetches {
		<-fetched
	}
	if fetches.TryAcquire(1) || len(fetched) > 0 {
		t.Errorf("more than %d files are fetched at once", maxFetches)
	}
	close(finish)
	for range 2 * maxFetches {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	for n, fits := range map[int64]bool{MaxFile: true, MaxFile + 1: false, MaxFile * 2: false} {
		size.Store(n)
		if got, err := get(); fits != (err == nil && got == n) {
			t.Errorf("of a file of %d bytes, %d came: %v", n, got, err)
		}
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
