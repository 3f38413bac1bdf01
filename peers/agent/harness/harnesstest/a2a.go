package harnesstest

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// An A2AAgent is an agent built on the official A2A library. Each message is a task; the function
// returns its artifact.
type A2AAgent func(ctx context.Context, heard string) string

// Serve serves the agent and returns its address.
func (e A2AAgent) Serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(&sdk.AgentCard{
		Name:    "elsewhere",
		Version: "1",
		SupportedInterfaces: []*sdk.AgentInterface{
			sdk.NewAgentInterface(server.URL+"/a2a/", sdk.TransportProtocolJSONRPC),
		},
		DefaultInputModes: []string{
			"text/plain",
		},
		DefaultOutputModes: []string{"text/plain"},
		Capabilities:       sdk.AgentCapabilities{Streaming: true},
		Skills:             []sdk.AgentSkill{},
	}))
	mux.Handle("/a2a/", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(e)))
	return server.URL
}

// Execute implements a2asrv.AgentExecutor.
func (e A2AAgent) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if !yield(sdk.NewSubmittedTask(x, x.Message), nil) {
			return
		}
		if yield(sdk.NewArtifactEvent(x, sdk.NewTextPart(e(ctx, x.Message.Parts[0].Text()))), nil) {
			yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCompleted, nil), nil)
		}
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (A2AAgent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
	}
}
