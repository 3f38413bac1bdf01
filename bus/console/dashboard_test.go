package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"
)

var (
	metricLine     = regexp.MustCompile(`(?m)^([a-z]\w*)(?:\{(.*)\})? `)
	metricSelector = regexp.MustCompile(`\b((?:hubbub|process|go)_\w+)(?:\{([^}]*)\})?`)
	metricLabel    = regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`)
	grouping       = regexp.MustCompile(`\b(?:by|on|without) \(([^)]*)\)`)
)

// labelsOf returns what a bus exports: the labels of each metric. Prometheus adds
// job and instance.
func labelsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	b := bustest.Start(t, nil)
	b.Join(t, "agent:a", "agent:a").Send(t, "agent:a", protocol.TypeAgentEvent, map[string]any{"event": "x"})
	resp, err := http.Get("http" + strings.TrimPrefix(b.URL(), "ws") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]map[string]bool{}
	for _, m := range metricLine.FindAllStringSubmatch(string(raw), -1) {
		if exported[m[1]] == nil {
			exported[m[1]] = map[string]bool{"job": true, "instance": true}
		}
		for _, l := range metricLabel.FindAllStringSubmatch(m[2], -1) {
			exported[m[1]][l[1]] = true
		}
	}
	return exported
}

// checkQuery checks that each metric of a query exists with the labels by which
// the query chooses and groups, and returns the metrics.
func checkQuery(t *testing.T, where, query string, exported map[string]map[string]bool) (names []string) {
	t.Helper()
	chosen := metricSelector.FindAllStringSubmatch(query, -1)
	if len(chosen) == 0 {
		t.Errorf("%s: %q asks for no metric", where, query)
	}
	var grouped []string
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		grouped = append(grouped, strings.Split(strings.ReplaceAll(g[1], " ", ""), ",")...)
	}
	for _, m := range chosen {
		name := m[1]
		names = append(names, name)
		if exported[name] == nil {
			t.Errorf("%s: the bus exports no %s", where, name)
			continue
		}
		labels := slices.Clone(grouped)
		for _, l := range metricLabel.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		for _, l := range labels {
			if !exported[name][l] {
				t.Errorf("%s: %s has no label %s", where, name, l)
			}
		}
	}
	return names
}

// TestDashboard_UsesExistingMetrics compares deploy/grafana-dashboard.json with
// what a bus really exports, both ways.
func TestDashboard_UsesExistingMetrics(t *testing.T) {
	exported := labelsOf(t)
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
			for _, name := range checkQuery(t, p.Title, target.Expr, exported) {
				used[name] = true
			}
		}
	}
	for name := range exported {
		if strings.HasPrefix(name, "hubbub_") && !used[name] {
			t.Errorf("%s is exported, and the dashboard does not show it", name)
		}
	}
}

// TestPrometheusAlerts_UseExistingMetrics holds deploy/prometheus-alerts.yaml, and what
// docs/operating.md says about alerts, against what a bus exports.
func TestPrometheusAlerts_UseExistingMetrics(t *testing.T) {
	exported := labelsOf(t)
	rules, err := os.ReadFile("../../deploy/prometheus-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	help, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, m := range regexp.MustCompile(`(?m)^\s+expr: (.*)$`).FindAllStringSubmatch(string(rules), -1) {
		asked++
		for _, name := range checkQuery(t, "the alerts", m[1], exported) {
			if !strings.Contains(string(help), name) {
				t.Errorf("there is an alert about %s, and the help says nothing about it", name)
			}
		}
	}
	if asked == 0 || asked != strings.Count(string(rules), "- alert:") {
		t.Errorf("%d expressions for %d alerts", asked, strings.Count(string(rules), "- alert:"))
	}
	for _, name := range regexp.MustCompile(`\bhubbub_\w+`).FindAllString(string(help), -1) {
		if exported[name] == nil && exported[name+"_bucket"] == nil {
			t.Errorf("the help speaks of %s, which the bus does not export", name)
		}
	}
}
