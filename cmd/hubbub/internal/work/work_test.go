package work

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/protocol/collab"
)

// TestDecision_EscapesInvisibleCharacters checks that invisible characters, and those that
// change the direction of writing, are escaped.
func TestDecision_EscapesInvisibleCharacters(t *testing.T) {
	a := collab.Approval{ApprovalParams: collab.ApprovalParams{Tool: "she\u200bll", Arguments: "make \u202e~ fr- mr\u2066\ufeff\u2800"}}
	var out bytes.Buffer
	printApproval(&output.Printer{Out: &out}, &a, new(view.Titles))
	for what, said := range map[string]string{"one": out.String(), "the list": strings.Join(decisionListing.row(&pendingItem{Approval: a}, time.Now()), " ")} {
		if !strings.Contains(said, `she\u200bll`) || !strings.Contains(said, `make \u202e~ fr- mr\u2066\ufeff\u2800`) {
			t.Errorf("%s: %q", what, said)
		}
	}
}

// TestStaleEndpoints checks that a restarted agent is listed once, and
// that an offline one is listed.
func TestStaleEndpoints(t *testing.T) {
	var list []collab.Listed[collab.Endpoint]
	for _, e := range []collab.Endpoint{
		{Identity: "agent:a", EndpointID: "before", Status: collab.StatusOffline}, {Identity: "agent:a", EndpointID: "now", Status: collab.StatusOnline},
		{Identity: "agent:b", EndpointID: "away", Status: collab.StatusOffline},
	} {
		raw, err := collab.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, collab.Listed[collab.Endpoint]{RawMessage: raw})
	}
	ghost, shown := staleEndpoints(list), []string{}
	for _, raw := range list {
		if e, err := raw.Read(); err != nil {
			t.Error(err)
		} else if !ghost(&e) {
			shown = append(shown, e.EndpointID)
		}
	}
	if got := strings.Join(shown, " "); got != "now away" {
		t.Errorf("who shows %s", got)
	}
}
