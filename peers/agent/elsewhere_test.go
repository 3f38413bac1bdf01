package agent_test

import (
	"net/http"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/a2a"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/protocol/retry"
)

// newElsewhere returns the harness of an agent of the official A2A library.
func newElsewhere(t *testing.T, answer harnesstest.A2AAgent) harness.Harness {
	t.Helper()
	return a2a.New(answer.Serve(t), &a2a.Options{Transport: http.DefaultTransport, Backoff: retry.Backoff{Min: 1, Max: 1}, PollBackoff: retry.Backoff{Min: 1, Max: time.Millisecond}})
}
