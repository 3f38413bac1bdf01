package traffic

import (
	"strings"
	"testing"
	"time"

	"hubbub/bus/console"
	"hubbub/bus/report"
	"hubbub/cmd/internal/term"
)

// TestTop_FitsTerminal checks terminals of several widths. Only names and reasons are cut, chats
// have titles, and commands that came and went take one line.
func TestTop_FitsTerminal(t *testing.T) {
	now := time.Now()
	s := console.State{At: now, Counters: report.Counters{Name: "bus-1", Started: now}, Rates: console.StateRates{P99: 1.5}}
	for id, title := range map[string]string{"tg:-1001": "Launch crew", "agent:tg--1001": "Launch crew", "cli:pub-a": "", "cli:pub-b": "", "cli:top": ""} {
		s.Peers = append(s.Peers, console.StatePeer{Peer: report.Peer{ID: id}, Title: title, Connected: id == "agent:tg--1001" || id == "cli:top"})
	}
	s.Failures = []console.StateFailure{{At: now, Type: "tg_reply", From: "agent:tg--1001", Topic: "tg:-1001", Status: "rejected", Error: strings.Repeat("because ", 20)}, {At: now.Add(-25 * time.Hour), From: "tg:9", Status: "rejected"}}
	for _, columns := range []int{0, 60, 80, 120} {
		top := topScreen{columns: columns, rows: 24}
		top.draw(s)
		shown := strings.Join(top.lines, "\n")
		for _, line := range top.lines {
			if columns > 0 && term.Width(line) > columns {
				t.Errorf("%d columns: too wide: %s", columns, line)
			}
		}
		for _, want := range []string{"99% within 1.5 ms", "agent:tg--1001 → tg:“Launch crew”", "25h00m ago rejected", "tg:9", "and 2 commands that came and went", "cli:top", "log"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%d columns: no %q:\n%s", columns, want, shown)
			}
		}
		if strings.Contains(shown, "pub-a") || strings.Contains(shown, "tg:9 →") {
			t.Errorf("%d columns:\n%s", columns, shown)
		}
	}
}
