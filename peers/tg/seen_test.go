package tg_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
)

// A reader is a harness whose model only reads.
type reader struct {
	harness.Synchronous
	mu    sync.Mutex
	turns []string
}

func (r *reader) Run(ctx context.Context, _ harness.Host) error {
	<-ctx.Done()
	return nil
}

func (r *reader) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{Injection: harness.AllInjection}, nil
}

func (r *reader) Turn(_ context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(t.Prompt, "\nlast_try: ") { // a silent turn runs once more
		r.turns = append(r.turns, t.Prompt)
	}
	return harness.Outcome{State: harness.Finished}, t.Attempted(t.Attempt)
}

func (r *reader) take() (turns []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns, r.turns = r.turns, nil
	return turns
}

// startAgent runs agent:lead on a harness until the test ends, and returns its database.
func (h *fixture) startAgent(dir string, model harness.Harness) *store.DB {
	h.t.Helper()
	db, err := agent.Open(filepath.Join(dir, "agent.db"))
	if err != nil {
		h.t.Fatal(err)
	}
	a := agent.New("agent:lead", db, model, &agent.Options{
		Peer: &peer.Options{Dial: h.bus.Dial, Token: "secret"}, Zone: time.UTC, Approve: []string{"shell"},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, db.Close()); err != nil {
			h.t.Errorf("the agent ended: %v", err)
		}
	})
	h.pass(time.Second)
	return db
}

var (
	drawn   = regexp.MustCompile(`(?m)^fence: (\S+)$`) // differs in each run
	times   = regexp.MustCompile(`(?m)^(?:now|sent): .*\n`)
	earlier = regexp.MustCompile(`(?s)CONTEXT\nEarlier .*?FENCE>>\n\n([A-Z ]+\n)`) // was compared before
)

// TestCorpus_WhatModelsRead sends the corpus to a real agent over the bridge and the bus. It
// compares the agent's decisions and its model's prompts with testdata/seen.golden.
func TestCorpus_WhatModelsRead(t *testing.T) {
	corpus, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		h.dm("Will")
		h.api.Group(-10, "Team")
		h.api.Forum(-100500, "House")
		h.startSpawner("agent:lead")
		other := h.bus.Join(t, "agent:other", "agent:other")
		r := &reader{}
		db := h.startAgent(dir, r)
		h.start()

		var golden bytes.Buffer
		var last int64
		lines := bufio.NewScanner(bytes.NewReader(corpus))
		for lines.Scan() {
			var c struct {
				Case   string          `json:"case"`
				Update json.RawMessage `json:"update"`
			}
			var n struct {
				ID int64 `json:"update_id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(c.Update, &n); err != nil {
				t.Fatal(err)
			}
			if c.Case == "dm: button" {
				for i, value := range []string{"yes", "late"} {
					reply(t, other, 1001, protocol.ChatReply{Text: "May it?", Buttons: []protocol.Button{{Text: "Press", Value: value}}})
					h.pass(5 * time.Second)
					if err := storetest.Exec(h.db, `UPDATE sends SET message = ? WHERE reply = (SELECT max(id) FROM replies WHERE json_extract(content, '$.buttons') <> '')`, 50+i); err != nil {
						t.Fatal(err)
					}
				}
			}
			golden.WriteString("# " + c.Case + "\n")
			h.api.InjectRaw(n.ID, c.Update)
			h.pass(time.Second)
			if !strings.Contains(c.Case, "album a") { // an album waits for more pictures
				h.pass(4 * time.Second) // longer than the compose window
			}
			decisions, err := store.ReadAll(t.Context(), db, (*storedDecision).columns,
				`SELECT seq, decision ->> '$.reason', policy, mode FROM events WHERE seq > ? ORDER BY seq`, last)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range decisions {
				last = d.seq
				golden.WriteString("decided: " + d.reason + ", " + d.policy + ", " + d.mode + "\n")
			}
			for _, prompt := range r.take() {
				if found := drawn.FindStringSubmatch(prompt); found != nil {
					prompt = strings.ReplaceAll(prompt, found[1], "FENCE")
				}
				golden.WriteString(times.ReplaceAllString(earlier.ReplaceAllString(prompt, "$1"), "") + "\n")
			}
		}
		compareGolden(t, "testdata/seen.golden", golden.Bytes())
	})
}

// A storedDecision is an event from an agent's mailbox.
type storedDecision struct {
	seq                  int64
	reason, policy, mode string
}

func (d *storedDecision) columns() []any { return []any{&d.seq, &d.reason, &d.policy, &d.mode} }
