package traffic

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hubbub/protocol"
)

// TestPrintSend_CountsOmittedFailures checks that a sender learns of failures that the result does
// not list.
func TestPrintSend_CountsOmittedFailures(t *testing.T) {
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	result := protocol.SendResult{
		MessageID:   "m",
		DeliveredTo: 1,
		Failures:    []protocol.Failure{{Peer: "agent:a", Status: protocol.OutcomeTimeout}},
		Omitted:     2,
	}
	if err := printSend(cmd, "news", result); err != nil {
		t.Fatal(err)
	}
	want := "m processed by 1 peer\n  agent:a  timeout\n  and 2 more failures that the result had no room for\n"
	if out.String() != want {
		t.Errorf("it prints %q; want %q", out.String(), want)
	}
}
