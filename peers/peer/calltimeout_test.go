package peer

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A transportFunc is a transport that calls the function.
type transportFunc func(r *http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCallHTTP_GivesEachBusATimeoutOfItsOwn calls two buses that never answer, and then one that
// answers.
func TestCallHTTP_GivesEachBusATimeoutOfItsOwn(t *testing.T) {
	before := busClient
	t.Cleanup(func() { busClient = before })
	busClient = &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "answers" {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		}
		return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody}, r.Context().Err()
	})}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		p := New("agent:a", &Options{Buses: []string{"ws://hangs", "ws://hangs-too", "ws://answers"}})
		status, _, err := p.CallHTTP(ctx, HTTPCall{Method: http.MethodGet, Path: "/whoami"})
		if took := time.Since(start); err != nil || status != http.StatusTeapot || took != 2*callTimeout {
			t.Errorf("%d, %v after %s", status, err, took)
		}
	})
}
