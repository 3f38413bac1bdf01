package chorus

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
)

// TestLimiter_EndsAStalledBody also covers a handler that does not read the body.
func TestLimiter_EndsAStalledBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"unread": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) },
		"read": func(w http.ResponseWriter, r *http.Request) {
			if _, err := readBody(w, r); err == nil {
				t.Error("half a body is one")
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := bustest.Listen()
			server := &http.Server{Handler: limitBodyTime(handler)}
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(l) }()
			start := time.Now()
			if err := l.HoldBody("POST", "/"); err != nil {
				t.Error(err)
			}
			if held := time.Since(start); held > time.Minute {
				t.Errorf("%s: held for %v", name, held)
			}
			server.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
	}
}

// TestLimiter_AnswerMayOutlastTheBody checks that the time limit covers only the body.
func TestLimiter_AnswerMayOutlastTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bustest.Listen()
		lived := make(chan error, 1)
		server := &http.Server{Handler: limitBodyTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := readBody(w, r); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			lived <- r.Context().Err()
		}))}
		go server.Serve(l) //nolint:errcheck // ended by Close below
		conn, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")); err != nil {
			t.Fatal(err)
		}
		if err := <-lived; err != nil {
			t.Errorf("after an hour the call is %v", err)
		}
		conn.Close()
		server.Close()
	})
}
