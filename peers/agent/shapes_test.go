package agent_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/chorus"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"
	"hubbub/peers/attention"
	"hubbub/protocol"
	posts "hubbub/protocol/chorus"
)

// fence is the fence of every turn of these tests, so that shapes can contain it, whole and cut.
var fence = attention.Fence(rand.Text())

// innerShapes are texts of models that are not answers.
var innerShapes = []string{
	"<think>\nThe user wants INNER.\n</think>", "<THINK>INNER</THINK>", "<thinking type=\"x\">INNER ``` INNER</thinking>", "<reasoning>INNER</reasoning>",
	"<tool_call>\n{\"name\":\"INNER\",\"arguments\":{}}\n</tool_call>", "<tool_calls>INNER</tool_calls>", "<function=INNER>{}</function>",
	"<function_calls><invoke name=\"INNER\"></invoke></function_calls>", "<|im_end|>", "<|channel|>analysis<|message|>INNER, then<|end|><|start|>assistant<|channel|>final<|message|>", "<tool_response>INNER</tool_response>",
	"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>INNER\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	"[THINK]INNER[/THINK]", "◁think▷INNER◁/think▷", "<seed:think>INNER</seed:think>", "```tool_code\nprint(INNER)\n```", "<|tool_calls_section_begin|><|tool_call_begin|>INNER<|tool_call_end|><|tool_calls_section_end|>",
	"C2A EVENT\nevent_id: INNER\nresponse_policy: must_respond\n", "<<" + fence + "\n", fence + ">>\n",
	"C2A EVENT\nevent_id: INNER\nfence: " + fence + "\n\nMESSAGE\n<<" + fence + "\nINNER\n" + fence + ">>\n",
}

// answerShapes are texts of models that are answers.
var answerShapes = []string{"", "", "The answer is 4.\n", "It is 4, and <b>that</b> is all.\n", "Here: ", "Sure 🙂 ", "Write `<think>` there.\n", "```\n<tool_call>\n```\n"}

// A shape is a random output of a model, with the part of it that is an answer.
type shape struct{ text, answer string }

// shapes returns n outputs of models that mix answers with hidden parts, each cut at random. No
// cut ends where only the missing text could tell a hidden part from a word: in a fence without
// its marks, in code, or within one line of a header.
func shapes(n int) (list []shape) {
	r := mathrand.New(mathrand.NewPCG(26, 8))
	for len(list) < n {
		type piece struct {
			text   string
			answer bool
		}
		var pieces []piece
		length, over := 0, false
		for range r.IntN(4) + 1 {
			for _, p := range []piece{
				{innerShapes[r.IntN(len(innerShapes))], false}, {[]string{"\n", "\n\n"}[r.IntN(2)], true}, {answerShapes[r.IntN(len(answerShapes))], true},
			} {
				pieces, length = append(pieces, p), length+len(p.text)
			}
		}
		var one shape
		left, word := r.IntN(length)+1, false
		for _, p := range pieces {
			cut := strings.ToValidUTF8(p.text[:min(left, len(p.text))], "")
			left -= min(left, len(p.text))
			if cut != "" && cut != p.text {
				inLine := strings.HasSuffix(one.text, " ") && (len(cut) < 3 || strings.HasPrefix("<seed:t", cut) || strings.HasPrefix(cut, "<<") || cut == fence || strings.HasPrefix(cut, "C2A EVENT\nevent_id: "[:min(len(cut), 20)]))
				word = word || inLine || strings.HasPrefix(cut, "Write `<")
			}
			one.text += cut
			if over = over || p.text == "<|im_end|>" && cut == p.text && strings.TrimSpace(one.answer) != ""; p.answer && !over {
				one.answer += cut
			}
			word = word || strings.HasSuffix(cut, "\n\nM") || cut != "" && len(cut) < 16 && (strings.HasPrefix(fence, cut) || strings.HasPrefix("C2A", cut) || strings.HasPrefix("[TH", cut) || strings.HasPrefix("```tool_", cut) || strings.HasSuffix(strings.TrimSuffix(cut, ">"), "`<think") || strings.Trim(cut, "`<\n") == "" && strings.TrimSpace(cut) != "")
		}
		if !word {
			list = append(list, one)
		}
	}
	return list
}

var askedFor = regexp.MustCompile(`answer \S+ (\d+)`)

// modelServer answers as a model that answers with these shapes, as the prompt asks. It sends
// every third shape with the tool first.
func modelServer(t *testing.T, shapes []shape) *httptest.Server {
	type object = map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("a request is not JSON: %v", err)
			return
		}
		var number int
		used := false
		for _, m := range q.Messages {
			if asked := askedFor.FindSubmatch(m.Content); m.Role == "user" && asked != nil {
				number, _ = strconv.Atoi(string(asked[1])) //nolint:errcheck // digits
			}
			used = used || m.Role == "tool"
		}
		said := shapes[number].text
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/messages") {
			json.NewEncoder(w).Encode(object{"content": []object{{"type": "text", "text": said}}, "stop_reason": "end_turn"}) //nolint:errcheck // the client may be gone
			return
		}
		message, why := object{"role": "assistant", "content": said}, "stop"
		if number%3 == 0 && !used {
			arguments, _ := json.Marshal(object{"text": said}) //nolint:errcheck // a string always can be
			message, why = object{"role": "assistant", "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "chat_send_message", "arguments": string(arguments)}}}}, "tool_calls"
		}
		json.NewEncoder(w).Encode(object{"choices": []object{{"index": 0, "message": message, "finish_reason": why}}}) //nolint:errcheck // the client may be gone
	}))
	t.Cleanup(server.Close)
	return server
}

// again is a program's answer after it was notified that no part of its answer
// was for people.
const again = "Once more: it is 4."

// wholeFuzz, in the environment, has every harness get all shapes, as make walk does.
const wholeFuzz = "HUBBUB_ALL_SHAPES"

// TestModelShapes_OnlyAnswersReachAChat runs an agent with each harness that has a model behind
// it. Each harness gets a share of a thousand shapes, or all with HUBBUB_ALL_SHAPES. A chat gets
// exactly the parts that are an answer, or a sentence of the host.
func TestModelShapes_OnlyAnswersReachAChat(t *testing.T) {
	list := shapes(1000)
	file := filepath.Join(t.TempDir(), "shapes.json")
	var texts []string
	for _, one := range list {
		texts = append(texts, one.text)
	}
	raw, err := json.Marshal(texts)
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	key := func() (string, error) { return "", nil }
	from := 0
	for _, c := range []struct {
		name  string
		share int
		hint  bool // it is notified, at once or later, that nothing was for people
		open  func(t *testing.T) harness.Harness
	}{
		{"openai", 75, false, func(t *testing.T) harness.Harness {
			return model.OpenAI(&model.Options{BaseURL: modelServer(t, list).URL + "/v1", Model: "m"})
		}},
		{"anthropic", 40, false, func(t *testing.T) harness.Harness {
			return model.Anthropic(&model.Options{BaseURL: modelServer(t, list).URL, Model: "m", Key: key})
		}},
		{"acp", 40, false, func(*testing.T) harness.Harness {
			return acp.New([]string{os.Args[0]}, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "fake", "GORACE": "atexit_sleep_ms=0"}})
		}},
		{"a2a", 40, true, func(t *testing.T) harness.Harness {
			return newElsewhere(t, func(_ context.Context, heard string) string {
				if strings.Contains(heard, attention.NothingVisible) {
					return again
				}
				return textAskedFor(list, heard)
			})
		}},
		{"c2a", 40, true, func(*testing.T) harness.Harness {
			env := map[string]string{programAnswers: file, "GORACE": "atexit_sleep_ms=0"}
			return c2a.New([]string{os.Args[0], "-test.run=^$"}, &c2a.Options{Env: env})
		}},
		{"chorus", 25, true, func(t *testing.T) harness.Harness { return newPosted(t, list) }},
	} {
		mine, first := list[from:from+c.share], from
		from += c.share
		if os.Getenv(wholeFuzz) != "" {
			mine, first = list, 0
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onlyAnswers(t, c.open(t), c.name, mine, file, first, c.hint)
		})
	}
}

// textAskedFor returns the shape that a message asks for.
func textAskedFor(list []shape, message string) string {
	n, _ := strconv.Atoi(askedFor.FindStringSubmatch(message)[1]) //nolint:errcheck // digits
	return list[n].text
}

// newPosted returns the harness of an agent that answers at callbacks, and answers again if it is
// refused.
func newPosted(t *testing.T, list []shape) harness.Harness {
	var h *chorus.Harness
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	h = chorus.New(func(_ context.Context, turn, revision, _ string, p *posts.Post) error {
		message := p.Message.Content
		playing.Go(func() {
			for i, text := range []string{textAskedFor(list, message), "</think>\n" + again} {
				raw, _ := json.Marshal(text) //nolint:errcheck // a string
				err := h.Handle(context.Background(), turn, revision, fmt.Sprint(turn, i), &posts.Event{Type: posts.EventMessage, Content: raw})
				if _, refused := errors.AsType[*harness.RefusedError](err); !refused {
					return
				}
			}
		})
		return nil
	}, false)
	return h
}

// programAnswers is the environment variable that names a file of texts. A C2A
// program answers messages with these texts, and again if a text is refused.
const programAnswers = "AGENT_TEST_PROGRAM_ANSWERS"

func runAnswering(file string) {
	var list []string
	if raw, err := os.ReadFile(file); err != nil || json.Unmarshal(raw, &list) != nil {
		os.Exit(3)
	}
	say := func(m map[string]any) {
		m["jsonrpc"] = "2.0"
		raw, _ := json.Marshal(m) //nolint:errcheck // strings
		fmt.Println(string(raw))
	}
	answer := func(call, event, text string) {
		say(map[string]any{"id": call, "method": "tools/call", "params": map[string]any{"name": "chat.send_message", "arguments": map[string]any{"inReplyTo": event, "text": text}}})
	}
	texts := map[string]string{} // by call
	call := func(id, text string) {
		texts[id] = text
		_, event, _ := strings.Cut(id, " ")
		answer(id, event, text)
	}
	var busy []string // calls that were refused because too many came at once; they are made again when one is answered
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Error  json.RawMessage
			Params struct {
				EventID, ProtocolVersion string
				Capabilities             json.RawMessage
			}
			Result struct{ IsError bool }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say(map[string]any{"id": m.ID, "result": map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": m.Params.Capabilities}})
		case "chat/deliver":
			say(map[string]any{"id": m.ID, "result": map[string]any{"accepted": true}})
			n, _ := strconv.Atoi(askedFor.FindStringSubmatch(lines.Text())[1]) //nolint:errcheck // digits
			call("first "+m.Params.EventID, list[n])
		case "":
			var id string
			_ = json.Unmarshal(m.ID, &id) // it is ours
			if m.Error != nil {
				busy = append(busy, id)
				continue
			}
			if event, first := strings.CutPrefix(id, "first "); first && m.Result.IsError {
				call("second "+event, again)
			}
			if len(busy) > 0 {
				id, busy = busy[0], busy[1:]
				call(id, texts[id])
			}
		}
	}
}

func onlyAnswers(t *testing.T, h harness.Harness, name string, list []shape, file string, from int, hint bool) {
	b := bustest.StartInMemory(t, nil)
	system, chats := b.Join(t, "agent:system", "system:*"), b.Join(t, "tg:bot", "tg:*")
	start(t, b, "agent:lead", h, &agent.Options{HarnessType: name, ComposeWindow: 1, ComposeCap: 1, FirstRetry: 1, MaxAttempts: 2, Deadline: time.Hour, Parallel: 32, Fence: func() string { return fence }})
	system.Next(t) // it is on the bus

	ended, said := map[string]string{}, map[string][]string{} // by event
	look := func() {
		for system.Pending() > 0 {
			r := content[record](t, system.Next(t))
			if d, _ := r["disposition"].(string); r.is("disposition") && attention.Disposition(d).Final() {
				ended[r["eventId"].(string)] = d
			}
		}
		for chats.Pending() > 0 {
			d := chats.Next(t)
			if d.Message.Type != protocol.TypeTGReply {
				continue
			}
			if r := content[protocol.ChatReply](t, d); r.Text != "" && !strings.HasPrefix(r.IdempotencyKey, "failed:") {
				said[r.InReplyTo] = append(said[r.InReplyTo], r.Text)
			} else if strings.Contains(r.Text, "INNER") {
				t.Errorf("a notice says %q", r.Text)
			}
		}
	}
	for i := range list {
		chat := fmt.Sprint(i + 1)
		m := protocol.ChatMessage{
			SourceID: "e" + chat, Text: fmt.Sprintf("answer %s %d", file, from+i), Chat: &protocol.Chat{ID: chat, Kind: "dm"}, Author: &protocol.Author{ID: "u" + chat, Kind: "human"},
		}
		chats.SendAs(t, protocol.PeerID("tg:"+chat), "agent:lead", protocol.TypeTGMessage, m)
		look()
	}
	harnesstest.Until(t, "every event ends", func() bool { look(); return len(ended) == len(list) })
	answered := 0
	for i, shape := range list {
		event := fmt.Sprint("e", i+1)
		want := strings.Fields(shape.answer)
		if len(want) > 0 {
			answered++
		} else if hint && (name != "a2a" || strings.TrimSpace(shape.text) != "") { // nothing at all is silence
			want = strings.Fields(again)
		}
		got := said[event]
		if len(got) > 1 || len(got) == 0 && len(want) > 0 || !slices.Equal(strings.Fields(strings.Join(got, " ")), want) {
			t.Errorf("the model said\n%q\nand the chat got\n%q (%s); want\n%q", shape.text, got, ended[event], want)
		}
	}
	if answered < len(list)/3 || answered > len(list)*9/10 {
		t.Errorf("%d of %d shapes hold an answer: the test shows little", answered, len(list))
	}
}
