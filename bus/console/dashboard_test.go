package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"
)

var (
	metricName  = regexp.MustCompile(`\b(hubbub|process|go)_[a-z0-9_]+\b`)
	metricLabel = regexp.MustCompile(`(\w+)(=|!=|=~|!~)"`)
)

// TestDashboardShowsMetricsThatExist compares deploy/grafana-dashboard.json with
// what a bus really exports, both ways.
func TestDashboardShowsMetricsThatExist(t *testing.T) {
	b := bustest.Start(t, nil)
	b.Join(t, "agent:a", "agent:a").Send(t, "agent:a", protocol.TypeAgentEvent, map[string]any{"event": "x"})
	resp, err := http.Get("http" + strings.TrimPrefix(b.URL(), "ws") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	exported, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for line := range strings.Lines(string(exported)) {
		if name := metricName.FindString(line); name != "" && !strings.HasPrefix(line, "#") {
			exists[name] = true
		}
	}
	raw, err := os.ReadFile("../../deploy/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("the dashboard cannot be read: %v", err)
	}
	used := map[string]bool{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				if used[name] = true; !exists[name] {
					t.Errorf("%s: the bus exports no %s", p.Title, name)
				}
			}
			for _, l := range metricLabel.FindAllStringSubmatch(target.Expr, -1) {
				if known := strings.Contains(string(exported), l[1]+`="`) || l[1] == "job" || l[1] == "instance"; !known {
					t.Errorf("%s: no metric has a label %s", p.Title, l[1])
				}
			}
		}
	}
	for name := range exists {
		if strings.HasPrefix(name, "hubbub_") && !used[name] && name != "hubbub_limit" {
			t.Errorf("%s is exported, and the dashboard does not show it", name)
		}
	}
}
