package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

// TestADecisionHidesNothingAtTheCommandLine: what takes no room or turns the text round is
// spelled.
func TestADecisionHidesNothingAtTheCommandLine(t *testing.T) {
	a := collab.Approval{ApprovalParams: collab.ApprovalParams{Tool: "she\u200bll", Arguments: "make \u202e~ fr- mr\u2066\ufeff\u2800"}}
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.Flags().Bool("json", false, "")
	cmd.SetOut(&out)
	if err := printDecision(&brokerInput{Command: cmd}, &a, nil); err != nil {
		t.Fatal(err)
	}
	for what, said := range map[string]string{"one": out.String(), "the list": strings.Join(decisionListing.row(&awaited{Approval: a}, time.Now()), " ")} {
		if !strings.Contains(said, `she\u200bll`) || !strings.Contains(said, `make \u202e~ fr- mr\u2066\ufeff\u2800`) {
			t.Errorf("%s: %q", what, said)
		}
	}
}
