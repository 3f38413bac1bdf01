package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness/child"
)

// raw speaks to a fresh run of the program by hand: what a well-behaved host
// never says.
func (r *run) raw(ctx context.Context) error {
	const name, title = "unknown", "unknown methods get an error, unknown notifications nothing, and stdout holds JSON-RPC alone"
	if !r.wanted(string(r.version)+"/"+name, title) {
		return nil
	}
	process, err := child.Start(r.argv, &child.Options{Dir: r.opts.Dir, Env: r.opts.Env, Log: r.opts.Log})
	if err != nil {
		return err
	}
	defer process.Stdout.Close() //nolint:errcheck // read to its end
	defer process.Stop()
	stop := context.AfterFunc(ctx, process.Stop)
	defer stop()
	process.Stdout.SetReadDeadline(time.Now().Add(r.opts.Timeout)) //nolint:errcheck // then a read fails later
	lines := []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"init-1","method":"initialize","params":{"protocolVersion":%q,"clientInfo":{"name":"hubbub-conformance","version":"1"},"capabilities":{}}}`, r.version),
		`{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"x":1}}`,
		`{"jsonrpc":"2.0","id":"odd-1","method":"chat/unheard_of","params":{}}`,
	}
	out := bufio.NewScanner(process.Stdout)
	out.Buffer(nil, 1<<20)
	var problems []string
	for i, line := range lines {
		if _, err := fmt.Fprintln(process.Stdin, line); err != nil {
			problems = append(problems, "it does not read: "+err.Error())
			break
		}
		want := []string{"init-1", "", "odd-1"}[i]
		if want == "" {
			continue
		}
		failed, err := awaitAnswer(out, want)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: %v", want, err))
		case want == "odd-1" && !failed:
			problems = append(problems, "an unknown method got a result, want an error (-32601)")
		case want == "init-1" && failed:
			problems = append(problems, "initialize without capabilities got an error")
		}
		if err != nil {
			break
		}
	}
	r.conclude(name, title, problems...)
	return nil
}

// awaitAnswer reads lines until the answer to an id.
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
			return false, errors.New("an answer must have a result or an error, and not both")
		}
		return len(f.Error) > 0, nil
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("no answer: %w", err)
	}
	return false, errors.New("no answer: its stdout ended")
}
