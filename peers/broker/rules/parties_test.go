package rules

import (
	"fmt"
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// Only the endpoints that are described get labels, each of which is compared with all endpoints.
func TestResolve_LimitsDescribedEndpoints(t *testing.T) {
	const n = 500
	s := &Parties{Endpoints: map[string]*Endpoint{}}
	for i := range n {
		e := &Endpoint{Endpoint: collab.Endpoint{
			EndpointID: fmt.Sprintf("e%03d", i), LogicalAgentID: "lead", WorkspaceID: fmt.Sprint("W", i),
			Identity: protocol.AgentID(fmt.Sprint(i)), AgentIdentity: "agent:lead",
		}}
		s.Endpoints[e.EndpointID] = e
	}
	var got Resolution
	allocations := testing.AllocsPerRun(1, func() { got = s.Resolve("@lead", Locality{}) })
	if len(got.Candidates) != maxOptions || got.Candidates[0].EndpointID != "e000" ||
		got.Candidates[maxOptions-1].EndpointID != "e019" || got.Failure != collab.CodeAmbiguous {
		t.Errorf("%s: %v", got.Failure, got.Candidates)
	}
	if allocations > 500*n {
		t.Errorf("%v allocations for %d endpoints", allocations, n)
	}
}
