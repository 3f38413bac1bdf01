package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
	"hubbub/protocol/redact"
)

// TestSendFile_SendsFilesOfTheWorkspaceOnly checks that each file is sent once, before the answer. No
// path, link or pipe leads out of the workspace, and each refusal is explained in a sentence.
func TestSendFile_SendsFilesOfTheWorkspaceOnly(t *testing.T) {
	base := t.TempDir()
	workspace, secret := filepath.Join(base, "work"), filepath.Join(base, "secret")
	write := func(path, data string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "top secret")
	write(filepath.Join(workspace, "out", "plan.txt"), "the plan")
	write(filepath.Join(workspace, "empty"), "")
	write(filepath.Join(workspace, "full"), strings.Repeat("x", protocol.MaxFileData))
	write(filepath.Join(workspace, "key"), "the key: AKIA"+"QYLPMN5HFIQR7XYA, for the bucket\n")
	write(filepath.Join(workspace, "large"), strings.Repeat("x", protocol.MaxFileData+1))
	for _, err := range []error{
		os.Symlink(secret, filepath.Join(workspace, "link")), os.Symlink("../secret", filepath.Join(workspace, "up")), os.Symlink("..", filepath.Join(workspace, "folder")),
		os.Symlink("out/plan.txt", filepath.Join(workspace, "inside")), syscall.Mkfifo(filepath.Join(workspace, "pipe"), 0o600),
		os.Link(secret, filepath.Join(workspace, "hard")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		for path, why := range map[string]string{
			"../secret": "leads out of it", secret: "leads out of it", "link": "leads out of it", "up": "leads out of it", "folder/secret": "leads out of it",
			"none": "does not exist there", "pipe": "it is not a regular file", "out": "it is not a regular file", "hard": "it is a hard link", "empty": "it is empty", "key": "appears to contain a secret", "large": "it has 716801 bytes; at most 716800 are sent",
		} {
			if m, r := call(tools, "chat.send_file", map[string]any{"path": path}); !r.IsError || m["status"] != "refused" || !strings.Contains(r.Content[0].Text, why) {
				t.Errorf("%s: %+v; want %s", path, r, why)
			}
		}
		if _, r := call(tools, "chat.send_file", map[string]any{"path": "inside", "caption": strings.Repeat("x", 1025)}); !r.IsError || !strings.Contains(r.Content[0].Text, "at most 1024 characters") {
			t.Errorf("%+v", r)
		}
		var first any
		for i, path := range []string{"out/plan.txt", filepath.Join(workspace, "out/plan.txt")} {
			m, r := call(tools, "chat.send_file", map[string]any{"path": path, "caption": "<think>the plan, then</think>here"})
			if want := []string{"sent", "duplicate"}[i]; r.IsError || m["status"] != want || m["messageId"] == "" || i > 0 && m["messageId"] != first {
				t.Errorf("%s: %+v", path, r)
			}
			first = m["messageId"]
		}
		if m, r := call(tools, "chat.send_file", map[string]any{"path": "full"}); m["status"] != "sent" {
			t.Errorf("%+v", r)
		}
		for i := range 9 {
			m, r := call(tools, "chat.send_file", map[string]any{"path": "inside", "caption": strings.Repeat("i", i+1)})
			if i < 8 && m["status"] != "sent" || i == 8 && m["reason"] != "too_many_files" {
				t.Errorf("%d: %+v", i, r)
			}
		}
		return harness.Outcome{State: harness.Finished, FinalText: "that is all"}, nil
	})
	withFixture(t, s, &agent.Options{Workspace: workspace, Redact: redact.New()}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "send me the plan"))
		w.sleep(30 * time.Second)
		if len(w.replies) != 11 {
			t.Fatalf("%d replies", len(w.replies))
		}
		if r := w.replies[0]; r.Text != "here" || r.InReplyTo != "e1" || r.File == nil || r.File.Name != "plan.txt" || string(r.File.Data) != "the plan" {
			t.Errorf("%+v", r)
		}
		if r := w.replies[1]; r.File == nil || len(r.File.Data) != protocol.MaxFileData {
			t.Errorf("%+v", r.InReplyTo)
		}
		if r := w.replies[10]; r.Text != "that is all" || r.File != nil {
			t.Errorf("%+v", r)
		}
		w.wantDispositions("e1 responded")
		if m, r := call(w.agent.ToolsFor("tg:42"), "chat.send_file", map[string]any{"path": "inside", "inReplyTo": "e1"}); !r.IsError {
			t.Errorf("after the answer: %+v", m)
		}
	})
}

func TestSendFile_NeedsAWorkspace(t *testing.T) {
	withFixture(t, newStub(answering("ok")), nil, func(t *testing.T, w *fixture) {
		if _, r := call(w.tools(), "chat.send_file", map[string]any{"path": "/etc/hostname"}); !r.IsError || !strings.Contains(r.Content[0].Text, "no workspace") {
			t.Errorf("%+v", r)
		}
	})
}
