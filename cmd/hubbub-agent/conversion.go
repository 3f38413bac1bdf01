package main

import (
	"os/exec"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness/subprocess"
)

// transcribeKey is the variable with the key of the --transcribe endpoint. Programs started by
// the agent do not get it.
const transcribeKey = "HUBBUB_TRANSCRIBE_KEY"

// A conversion has the settings for converting voice messages and PDFs to text.
type conversion struct {
	With  string `flag:"transcribe" usage:"what turns voice messages into text: a command in shell words, which gets the file as its last argument, or the http or https address of an endpoint like OpenAI's audio/transcriptions"`
	Model string `flag:"transcribe-model" default:"whisper-1" usage:"model that --transcribe names to its endpoint; its key is HUBBUB_TRANSCRIBE_KEY"`
	PDF   string `flag:"read-pdf" usage:"what turns a PDF into text: a command in shell words, which gets it as its standard input and writes the text, such as pdftotext -q - -"`
}

// endpoint reports whether the setting is an address rather than a command.
func (c *conversion) endpoint() bool {
	return strings.HasPrefix(c.With, "http://") || strings.HasPrefix(c.With, "https://")
}

// command returns the words of the command, or nil if there is none.
func (c *conversion) command() (argv []string, err error) {
	if c.endpoint() {
		return nil, nil
	}
	return commandOf(c.With)
}

// commandOf returns the words of a command with the path of its program, or nil if there is none.
func commandOf(line string) (argv []string, err error) {
	if line == "" {
		return nil, nil
	}
	if argv, err = subprocess.SplitCommand(line); err != nil {
		return nil, err
	}
	if argv[0], err = exec.LookPath(argv[0]); err != nil {
		return nil, program.Retryable(err) // it may be installed later
	}
	return argv, nil
}

// transcriber returns the converter of voice messages, or nil if there is none.
func (c *conversion) transcriber(env *program.Env) files.Transcriber {
	argv, err := c.command()
	switch {
	case err != nil || c.With == "":
		return nil
	case c.endpoint():
		return files.Endpoint(c.With, c.Model, func() (string, error) { return env.Secret(transcribeKey) })
	default:
		return files.Command(argv, modelKeys)
	}
}

// pdfReader returns the converter of PDFs, or nil if there is none.
func (c *conversion) pdfReader() files.Transcriber {
	argv, err := commandOf(c.PDF)
	if err != nil || argv == nil {
		return nil
	}
	return files.Filter(argv, modelKeys)
}
