package main

import (
	"os"
	"path/filepath"
	"testing"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness/model"
)

func TestHistory_IsSeparateForEachAgent(t *testing.T) {
	shared := t.TempDir()
	open := func(name string) *model.History {
		t.Helper()
		history, err := model.OpenHistory(historyFile(shared, name), remembered)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { history.Close() })
		return history
	}
	alice, bob := open("alice"), open("bob")
	if err := alice.Save(t.Context(), "42", []byte("what alice knows")); err != nil {
		t.Fatal(err)
	}
	for history, want := range map[*model.History]string{alice: "what alice knows", bob: ""} {
		if got, err := history.Load(t.Context(), "42"); err != nil || string(got) != want {
			t.Errorf("an agent remembers %q, %v; want %q", got, err, want)
		}
	}
}

// TestCheckHarness_LooksInItsWorkingFolder checks that a path with folders is relative to the
// workspace, and that a bare name is looked up in PATH.
func TestCheckHarness_LooksInItsWorkingFolder(t *testing.T) {
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, "harness"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for command, found := range map[string]bool{"./harness --fast": true, filepath.Join(workspace, "harness"): true, "sh": true, "./nothing": false, "harness": false} {
		s := settings{Harness: "c2a", HarnessCommand: command, Permission: "reading", agent: agent.Options{Workspace: workspace}}
		if err := s.checkHarness(nil); (err == nil) != found {
			t.Errorf("%s: %v", command, err)
		}
	}
	s := settings{Harness: "c2a", HarnessCommand: "./harness", Permission: "reading"}
	if err := s.checkHarness(nil); err == nil {
		t.Error("without a workspace it was found there all the same")
	}
}
