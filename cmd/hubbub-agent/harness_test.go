package main

import (
	"os"
	"path/filepath"
	"testing"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness/model"
)

// TestEachAgentHasAMemoryOfItsOwn: agents that share a data folder share no
// history. One that had the folder to itself keeps what an earlier version wrote.
func TestEachAgentHasAMemoryOfItsOwn(t *testing.T) {
	open := func(data, name string) *model.History {
		t.Helper()
		path, err := historyFile(data, name)
		if err != nil {
			t.Fatal(err)
		}
		history, err := model.OpenHistory(path, remembered)
		if err != nil {
			t.Fatal(err)
		}
		return history
	}
	remember := func(data, name, text string) {
		t.Helper()
		history := open(data, name)
		defer history.Close()
		if err := history.Save(t.Context(), "42", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	recall := func(data, name string) string {
		t.Helper()
		history := open(data, name)
		defer history.Close()
		text, err := history.Load(t.Context(), "42")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	mailbox := func(data, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, "agent-"+name+".db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	earlier := func(data string) {
		t.Helper()
		remember(data, "tmp", "of an earlier version")
		if err := os.Rename(filepath.Join(data, "history-tmp.db"), filepath.Join(data, "history.db")); err != nil {
			t.Fatal(err)
		}
	}

	shared := t.TempDir()
	mailbox(shared, "alice")
	mailbox(shared, "bob")
	earlier(shared)
	remember(shared, "alice", "what alice knows")
	if a, b := recall(shared, "alice"), recall(shared, "bob"); a != "what alice knows" || b != "" {
		t.Errorf("alice remembers %q, bob %q", a, b)
	}

	own := filepath.Join(t.TempDir(), "a folder [1") // as a pattern it is none
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	mailbox(own, "lead")
	earlier(own)
	for range 2 {
		if got := recall(own, "lead"); got != "of an earlier version" {
			t.Errorf("the only agent of the folder remembers %q", got)
		}
	}
	if _, err := os.Stat(filepath.Join(own, "history.db")); !os.IsNotExist(err) {
		t.Errorf("the old file: %v", err)
	}
}

// TestACheckLooksWhereTheHarnessWillStart: a path with folders counts from the
// workspace, a name alone from PATH.
func TestACheckLooksWhereTheHarnessWillStart(t *testing.T) {
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, "harness"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for command, found := range map[string]bool{"./harness --fast": true, filepath.Join(workspace, "harness"): true, "sh": true, "./nothing": false, "harness": false} {
		s := settings{harness: "c2a", harnessCommand: command, permission: "reading", agent: agent.Options{Workspace: workspace}}
		if err := s.checkHarness(nil); (err == nil) != found {
			t.Errorf("%s: %v", command, err)
		}
	}
	s := settings{harness: "c2a", harnessCommand: "./harness", permission: "reading"}
	if err := s.checkHarness(nil); err == nil {
		t.Error("without a workspace it was found there all the same")
	}
}
