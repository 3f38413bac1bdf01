package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A questionRound is one burst of questions in a chat, with the duration of its answers.
type questionRound struct {
	chat  models.Chat
	began time.Time
	took  time.Duration
}

func (r questionRound) String() string {
	if r.took == 0 {
		return "none"
	}
	return fmt.Sprintf("%s in chat %d at %s", r.took.Round(time.Millisecond), r.chat.ID, r.began.UTC().Format(time.TimeOnly))
}

// A kill is the kill of a program, for the report about a slow round.
type kill struct {
	at     time.Time
	victim string
}

// slow is the duration of a round from which chaos reports why.
const slow = 10 * time.Second

// slowest returns the slower of two rounds.
func slowest(a, b questionRound) questionRound {
	if b.took > a.took {
		return b
	}
	return a
}

// before is how long before a slow round the report starts.
const before = 3 * time.Second

// reportDelay writes why a round may have been slow: the kills, the rows of its chat in the
// activity log, and the logs of the programs.
func (s *fixture) reportDelay(w io.Writer, r questionRound, kills []kill) {
	from, until := r.began.Add(-before), r.began.Add(r.took)
	type line struct {
		at   time.Time
		text string
	}
	var story []line
	add := func(at time.Time, format string, args ...any) {
		if !at.Before(from) && !at.After(until) {
			story = append(story, line{at, fmt.Sprintf(format, args...)})
		}
	}
	for _, k := range kills {
		add(k.at, "KILLED  %s", k.victim)
	}
	agent := fmt.Sprintf("tg-%d", r.chat.ID)
	for name, text := range s.logs(agent) {
		lines := bufio.NewScanner(strings.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var head struct{ Time time.Time }
			if json.Unmarshal(lines.Bytes(), &head) == nil {
				add(head.Time, "%-7s %.300s", name, lines.Text())
			}
		}
	}
	topic := string(topicOf(r.chat))
	err := s.log.Each(s.t.Context(), read.Filter{Since: from, Until: until}, func(e *activitylog.Entry) error {
		if e.Is(activitylog.PeerConnected) || e.Is(activitylog.PeerDisconnected) ||
			e.Type != string(protocol.TypeAgentEvent) && (e.Topic == topic || e.Topic == "agent:"+agent || e.From == topic) {
			add(e.Time(), "        %s %s %s -> %s %s %s %s %.150s", e.Event, e.Type, e.Actor, e.Topic, e.MessageID[max(0, len(e.MessageID)-6):], e.Status, e.Error, e.Payload)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(w, "the activity log cannot be read: %v\n", err)
	}
	slices.SortStableFunc(story, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range story {
		fmt.Fprintf(w, "%+8.3f %s\n", l.at.Sub(r.began).Seconds(), l.text)
	}
}

// logs returns the logs of the programs, and of the given agent.
func (s *fixture) logs(agent string) map[string]string {
	logs := map[string]string{}
	for name, runs := range s.past {
		for _, p := range runs {
			logs[name] += p.whole()
		}
	}
	raw, err := os.ReadFile(filepath.Join(s.data, "launch", agent+".log"))
	if err != nil {
		raw = []byte(err.Error())
	}
	logs["agent"] = string(raw)
	return logs
}
