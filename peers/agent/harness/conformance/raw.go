package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"hubbub/peers/agent/harness/subprocess"
)

// raw restarts the program and sends it what a well-behaved host never sends.
func (r *checker) raw(ctx context.Context) error {
	const name, title = "unknown",
		"unknown methods get an error, unknown notifications get nothing, and stdout contains only JSON-RPC"
	if !r.isSelected(name, title) {
		return nil
	}
	process, err := subprocess.Start(r.argv, &subprocess.Options{Env: r.opts.Env, Log: r.opts.Log})
	if err != nil {
		return err
	}
	defer process.Stdout.Close() //nolint:errcheck // read to its end
	defer process.Stop()
	stop := context.AfterFunc(ctx, process.Stop)
	defer stop()
	process.Stdout.SetReadDeadline(time.Now().Add(r.opts.Timeout)) //nolint:errcheck // then a read fails later
	err = checkRaw(process, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"protocolVersion":%q,"clientInfo":{"name":"hubbub-conformance","version":"1"},"capabilities":{}}}`,
		r.version,
	))
	if errors.Is(err, io.EOF) {
		process.Stop()
		err = fmt.Errorf("%w: %w", err, process.Wait())
	}
	r.reportCase(name, title, err)
	return nil
}

// checkRaw initializes the program and calls an unknown method.
func checkRaw(process *subprocess.Process, initialize string) error {
	lines := bufio.NewScanner(process.Stdout)
	lines.Buffer(nil, 1<<20)
	unheard := `{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"x":1}}` + "\n" +
		`{"jsonrpc":"2.0","id":"odd-1","method":"chat/unheard_of","params":{}}`
	for _, request := range []struct {
		text, id, wrong string
		fails           bool
	}{
		{initialize, "init-1", "initialize without capabilities got an error", false},
		{unheard, "odd-1", "an unknown method got a result, want an error (-32601)", true},
	} {
		if _, err := fmt.Fprintln(process.Stdin, request.text); err != nil {
			return fmt.Errorf("it does not read its input: %w", err)
		}
		failed, err := awaitAnswer(lines, request.id)
		if err != nil {
			return fmt.Errorf("%s: %w", request.id, err)
		}
		if failed != request.fails {
			return errors.New(request.wrong)
		}
	}
	return nil
}

// awaitAnswer reads lines until the answer to id, and reports whether the answer is an error.
func awaitAnswer(lines *bufio.Scanner, id string) (failed bool, err error) {
	for lines.Scan() {
		var f struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil || f.JSONRPC != "2.0" {
			return false, fmt.Errorf("a line is not JSON-RPC 2.0: %.80q", lines.Text())
		}
		if f.Method != "" || string(f.ID) != `"`+id+`"` {
			continue
		}
		if (len(f.Result) == 0) == (len(f.Error) == 0) {
			return false, errors.New("an answer must have either a result or an error")
		}
		return len(f.Error) > 0, nil
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("no answer: %w", err)
	}
	return false, fmt.Errorf("no answer: its stdout ended (%w)", io.EOF)
}
