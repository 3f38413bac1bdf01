package activity

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestWhy_PrintsRecordsExactly compares what why prints about every kind of record, as text and as
// JSON, with testdata/records.golden. The records are as agents write them.
func TestWhy_PrintsRecordsExactly(t *testing.T) {
	contents, err := os.ReadFile(filepath.Join("testdata", "records.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []activitylog.Row
	for i, content := range strings.Split(strings.TrimSpace(string(contents)), "\n") {
		rows = append(rows, messageRows(time.Duration(i)*time.Second, fmt.Sprintf("m%02d", i), "agent_event", "agent:a",
			"system:attention", content, time.Millisecond)...)
	}
	r := newLog(t, rows...)
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.Flags().Bool("json", true, "")
	if err := printWhy(cmd, r, read.AttentionFilter{EventID: "e<1"}, nil); err != nil {
		t.Fatal(err)
	}
	err = r.Attention(t.Context(), read.AttentionFilter{}, func(a *activitylog.AttentionRecord) error {
		fmt.Fprintf(&out, "%s %s: %s | %s\n", a.MessageID, a.Event, view.Full.Record(&a.Record), view.Brief.Record(&a.Record))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "records.golden")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Error(diff)
	}
}
