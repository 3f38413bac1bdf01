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

// A Transcriber returns the text of a recording or a PDF.
type Transcriber func(ctx context.Context, name string, content []byte) (string, error)

// transcribeTime bounds the time that a program or an endpoint may take for one file.
const transcribeTime = 2 * time.Minute

// Command returns a Transcriber that runs a program with the recording's path as its last
// argument. The program writes the transcript to standard output. It gets no secrets of the
// agent.
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

// Filter returns a Transcriber that runs a program such as pdftotext, with the PDF as standard
// input. The program writes the text to standard output. It gets no secrets of the agent.
func Filter(argv []string, hide []string) Transcriber {
	return func(ctx context.Context, _ string, pdf []byte) (string, error) {
		return run(ctx, argv[1:], argv[0], bytes.NewReader(pdf), hide)
	}
}

// run returns the first maxText bytes of a program's output. The program and its descendants end
// with the agent, with ctx, or after transcribeTime. They cannot gain privileges.
func run(ctx context.Context, args []string, name string, stdin io.Reader, hide []string) (string, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) // the whole process group is ended below
	cmd.Env = proc.DropEnv(os.Environ(), slices.Concat(proc.ProgramEnv, proc.ServiceEnv, hide)...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &limitedWriter{w: &out, left: maxText},
		&limitedWriter{w: &said, left: 4 << 10}
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

// A limitedWriter writes at most left bytes and discards the rest.
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

// Endpoint returns a Transcriber for an HTTP endpoint compatible with that of OpenAI: it takes a
// form with the fields file and model, and returns {"text"}.
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

// form returns the form for an endpoint, and its content type.
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
