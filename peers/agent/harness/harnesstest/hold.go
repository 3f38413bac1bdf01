package harnesstest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
)

// HoldEnv is the environment variable that makes a test binary act as a C2A program that waits at
// the address in its value: before accepting a delivery ("/given"), before answering it
// ("/accepted"), and after its answer was taken or refused ("/sent").
const HoldEnv = "C2A_HOLDS"

var heldWords = regexp.MustCompile(`hold http\S+ ([a-z]+) words`)

// HoldReply returns the reply to the newest message "hold ADDRESS WORD words" in a text, or "".
func HoldReply(text string) string {
	all := heldWords.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return "I read “" + all[len(all)-1][1] + "”."
}

// hold requests an address, which answers when to continue. It returns when ctx ends.
func hold(ctx context.Context, address string) {
	if r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody); err == nil {
		if answered, err := http.DefaultClient.Do(r); err == nil {
			answered.Body.Close() //nolint:errcheck // a test program
		}
	}
}

// RunHoldIfAsked acts as the program of HoldEnv and exits, if the environment says so. The
// program answers each delivery once; it recognizes repeated deliveries by their idempotency key.
func RunHoldIfAsked() {
	address := os.Getenv(HoldEnv)
	if address == "" {
		return
	}
	say := func(m map[string]any) {
		m["jsonrpc"] = "2.0"
		raw, err := json.Marshal(m)
		must(err)
		fmt.Println(string(raw))
	}
	done := map[string]bool{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				EventID, ProtocolVersion string
				Capabilities             json.RawMessage
				Reliability              struct{ IdempotencyKey string }
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch key := m.Params.Reliability.IdempotencyKey; m.Method {
		case "initialize":
			say(
				map[string]any{
					"id": m.ID,
					"result": map[string]any{
						"protocolVersion": m.Params.ProtocolVersion,
						"capabilities":    m.Params.Capabilities,
					},
				},
			)
		case "":
			hold(context.Background(), address+"/sent") // an answer to a call
		case "chat/deliver":
			hold(context.Background(), address+"/given")
			say(map[string]any{"id": m.ID, "result": map[string]any{"accepted": true}})
			if done[key] {
				continue
			}
			done[key] = true
			hold(context.Background(), address+"/accepted")
			say(
				map[string]any{
					"id":     "call-" + key,
					"method": "tools/call",
					"params": map[string]any{"name": "chat.send_message", "arguments": map[string]any{
						"inReplyTo":      m.Params.EventID,
						"text":           HoldReply(lines.Text()),
						"idempotencyKey": "answer-" + key,
					}},
				},
			)
		}
	}
	os.Exit(0)
}
