package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/cmd/internal/documentstest"
	"hubbub/cmd/internal/program"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
)

// documents returns the texts that show commands.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "deploy/Containerfile", "deploy/hubbub.toml", "deploy/*/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(text)
		}
	}
	return texts
}

// elsewhere has the other programs in the documents, and why no test here runs them.
var elsewhere = map[string]string{
	"podman":  "needs a registry for the base image",
	"kubectl": "needs a cluster",
	"go":      "makes the module of a peer, in TestNewPeer_AnswersInOrder",
	"node":    "runs a peer, in TestReadmePeers",
	"strace":  "slows down every sync of a benchmark",
	"mkdir":   "makes the folder of the tokens that kubectl reads",
	"for":     "makes these tokens",
}

// notCommands matches indented lines that show something else: a picture, a wire frame, a file or
// a metric.
var notCommands = regexp.MustCompile(`^(?:#|agent-unit = |->|<-|"|\{|\}|map \$|server \{|frontend |backend |[a-z_]+: |example\.com \{|Telegram|stored,|confirmed|paced,|│|hubbub-system \(|[a-z*0-9-]+\.(?:db|key|toml|env),?|what$|hubbub_|_[a-z]|process_|overflow)`)

// TestDocuments_CommandsExist parses every command line in the documents as its program would.
// Other programs must be known.
func TestDocuments_CommandsExist(t *testing.T) {
	flags := programFlags(t)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	used, count := map[string]bool{}, 0
	for where, text := range documents(t) {
		for _, c := range documentstest.Find(where, text) {
			count++
			switch name := c.Words[0]; {
			case name == "hubbub":
				checkCommandLine(t, where, c.Words)
			case flags[name] != nil:
				checkProgramLine(t, where, c.Words, flags[name])
			case name == "make":
				if len(c.Words) > 1 && !strings.Contains(string(makefile), "\n"+c.Words[1]+":") {
					t.Errorf("%s: the Makefile has no target %s", where, c.Words[1])
				}
			case elsewhere[name] != "":
				used[name] = true
			case !notCommands.MatchString(c.String()):
				t.Errorf("%s shows %q, which is neither checked here nor listed as not to be", where, c)
			}
		}
	}
	for name := range elsewhere {
		if !used[name] {
			t.Errorf("no document calls %s", name)
		}
	}
	if count < 100 {
		t.Errorf("only %d commands were found", count)
	}
}

// programFlags returns the flags of each program, from the sample of its settings.
func programFlags(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "hubbub.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]map[string]any
	plain := regexp.MustCompile(`(?m)^# (\[[a-z]+\]|[a-z-]+ = .*)$`).ReplaceAllString(string(text), "$1")
	_, tables, _ := strings.Cut(plain, "####\n")
	if _, err := toml.Decode(tables, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]bool{}
	for name, table := range file {
		flags := map[string]bool{}
		for key := range table {
			flags[key] = true
		}
		for _, shared := range []string{"bus", "token-file", "data", "config", "log-level", "log-format", "version", "help", "id"} {
			flags[shared] = true
		}
		all["hubbub-"+name] = flags
	}
	if names := slices.Sorted(maps.Keys(all)); len(names) != 7 {
		t.Fatalf("the sample has tables for %v", names)
	}
	return all
}

func checkProgramLine(t *testing.T, where string, words []string, flags map[string]bool) {
	t.Helper()
	for _, w := range words[1:] {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && !flags[name] {
			t.Errorf("%s: %q: %s has no flag --%s", where, strings.Join(words, " "), words[0], name)
		}
	}
}

// TestExamples_AreAccepted parses the examples in the help of commands.
func TestExamples_AreAccepted(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range documentstest.Calls(cmd.CommandPath(), cmd.Example) {
			if c.Words[0] == "hubbub" {
				checkCommandLine(t, c.Where, c.Words)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

// checkCommandLine parses a command line of hubbub without running it.
func checkCommandLine(t *testing.T, where string, words []string) {
	t.Helper()
	root := newRoot()
	program.Attach(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	line := strings.Join(words, " ")
	cmd, rest, err := root.Find(slices.Clone(words[1:]))
	if err != nil || cmd == root && !slices.Contains(words, "--help") {
		t.Errorf("%s: %q is no command: %v", where, line, err)
		return
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %q: %v", where, line, err)
		return
	}
	asked, err := cmd.Flags().GetBool("help")
	if cmd.Args == nil || cmd.Name() == "help" || cmd.HasSubCommands() || err == nil && asked {
		return
	}
	if given := cmd.Flags().Args(); len(given) > 0 || where != strings.TrimPrefix(where, "hubbub help") {
		if err := cmd.Args(cmd, given); err != nil {
			t.Errorf("%s: %q: %v", where, line, err)
		}
	}
}
