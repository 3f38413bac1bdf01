package openai_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/modelapi"
)

// TestBrokenStreamsRunNoTool: an answer that breaks off is dropped whole, and
// the request is sent again.
func TestBrokenStreamsRunNoTool(t *testing.T) {
	piece := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"chat_send_message","arguments":"{\"text\":\"half\"}"}}]}}]}`
	for name, broken := range map[string]harnesstest.Answer{
		"connection cut":      harnesstest.Cut(text("I will"), piece),
		"end without finish":  harnesstest.Events(text("I will"), piece),
		"done without finish": harnesstest.Events(piece, "[DONE]"),
		"error event":         harnesstest.Events(piece, `{"error":{"message":"The server is overloaded","type":"server_error"}}`),
		"not JSON":            harnesstest.Events(piece, `{"choices":[{"index":0,`),
	} {
		t.Run(name, func(t *testing.T) {
			api := harnesstest.StartAPI(t, broken, say("whole"))
			tools := &harnesstest.Tools{}
			out, err := newHarness(api, &waits{}).Turn(t.Context(), turn("x"), tools)
			if err != nil || out.FinalText != "whole" || len(tools.Calls()) != 0 || len(api.Requests()) != 2 {
				t.Errorf("%+v, %v, calls %v, %d requests", out, err, tools.Called(), len(api.Requests()))
			}
		})
	}
}

func TestSilentStreamIsBrokenOff(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	api := harnesstest.StartAPI(t, func(w http.ResponseWriter) {
		harnesstest.Events(text("wait"))(w)
		<-release
	}, say("back"))
	out, err := newHarness(api, &waits{}, func(o *modelapi.Options) { o.Idle = 30 * time.Millisecond }).Turn(t.Context(), turn("x"), &harnesstest.Tools{})
	if err != nil || out.FinalText != "back" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestCancelStopsTheStreamWithItsCause(t *testing.T) {
	cause := errors.New("message was edited before response")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	api := harnesstest.StartAPI(t, func(w http.ResponseWriter) {
		harnesstest.Events(text("thinking"))(w)
		cancel(cause)
		for { // until the client has closed its side
			if _, err := fmt.Fprint(w, ": ping\n\n"); err != nil {
				break
			}
			w.(http.Flusher).Flush()
		}
		close(gone)
	})
	_, err := newHarness(api, &waits{}).Turn(ctx, turn("x"), &harnesstest.Tools{})
	if !errors.Is(err, cause) {
		t.Errorf("err = %v", err)
	}
	<-gone
}
