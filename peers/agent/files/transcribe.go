package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"hubbub/peers/proc"
	"hubbub/protocol/text"
)

// A Transcriber returns in words what is in a recording, or in a PDF.
type Transcriber func(ctx context.Context, name string, content []byte) (string, error)

// transcribeTime is how long a program or an endpoint may take for one file.
const transcribeTime = 2 * time.Minute

// Command transcribes with a program: its last argument is the file of the recording, and
// what it writes to standard output is what was said. It gets no secret of the agent.
func Command(argv []string, hide []string) Transcriber {
	return func(ctx context.Context, name string, recording []byte) (words string, err error) {
		folder, err := os.MkdirTemp("", "hubbub-voice-")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		path := filepath.Join(folder, "voice"+filepath.Ext(filepath.Base(name)))
		if err := os.WriteFile(path, recording, 0o600); err != nil {
			return "", err
		}
		return run(ctx, append(argv[1:len(argv):len(argv)], path), argv[0], nil, hide)
	}
}

// Filter reads PDFs with a program such as pdftotext, which gets one as its standard input
// and writes what it says to standard output. It gets no secret of the agent.
func Filter(argv []string, hide []string) Transcriber {
	return func(ctx context.Context, _ string, pdf []byte) (string, error) {
		return run(ctx, argv[1:], argv[0], bytes.NewReader(pdf), hide)
	}
}

// run returns what a program writes, its first maxText bytes. The program and all that it
// started end with the agent, with ctx, or when it took too long, and gain no privileges.
func run(ctx context.Context, args []string, name string, stdin io.Reader, hide []string) (string, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) // its whole group is ended below
	cmd.Env = proc.DropEnv(os.Environ(), slices.Concat([]string{"HUBBUB_*", "TELEGRAM_*"}, proc.ServiceEnv, hide)...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &limitedWriter{w: &out, left: maxText}, &limitedWriter{w: &said, left: 4 << 10}
	p, err := proc.Start(cmd, &proc.Options{Confined: true, ParentDeathSignal: syscall.SIGKILL})
	if err != nil {
		return "", fmt.Errorf("starting %s: %w", name, err)
	}
	if !p.WaitFor(ctx, transcribeTime) {
		p.Kill()
	}
	if err := p.Wait(); err != nil {
		return "", fmt.Errorf("the program %s: %w: %s", name, err, text.Clip(text.OneLine(said.String()), 400))
	}
	return out.String(), nil
}

// limitedWriter keeps the first bytes of what is written, and lets go of the rest.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (a *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), a.left)
	a.left -= n
	if _, err := a.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Endpoint transcribes with an HTTP endpoint that takes what that of OpenAI takes: a form
// with the fields file and model, answered with {"text"}.
func Endpoint(address, model string, key func() (string, error)) Transcriber {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, name string, recording []byte) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, transcribeTime)
		defer cancel()
		secret, err := key()
		if err != nil {
			return "", err
		}
		body, kind, err := form(model, name, recording)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", kind)
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(io.LimitReader(response.Body, maxText))
		if err != nil {
			return "", err
		}
		var answer struct {
			Text *string `json:"text"`
		}
		if response.StatusCode != http.StatusOK {
			return "", fmt.Errorf("the transcription endpoint %s answered %d", address, response.StatusCode)
		}
		if err := json.Unmarshal(raw, &answer); err != nil || answer.Text == nil {
			return "", fmt.Errorf("the transcription endpoint %s answered without {\"text\"}", address)
		}
		return *answer.Text, nil
	}
}

// form writes what an endpoint takes, and returns its content type.
func form(model, name string, recording []byte) (*bytes.Buffer, string, error) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	err := w.WriteField("model", model)
	part, failed := w.CreateFormFile("file", filepath.Base(name))
	if err = errors.Join(err, failed); err == nil {
		_, err = part.Write(recording)
	}
	return &body, w.FormDataContentType(), errors.Join(err, w.Close())
}
