package tg_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness/model"
)

// A scriptedModel is the endpoint of a model, reached without a socket. script returns each answer from
// the newest message of the request; a string is a text, and anything else the message itself.
type scriptedModel struct {
	mu     sync.Mutex
	script func(role, prompt string) any
	finish string        // of answers; "stop" by default
	delay  time.Duration // of answers
	given  []string
}

// RoundTrip implements http.RoundTripper.
func (m *scriptedModel) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil || len(asked.Messages) == 0 {
		return nil, err
	}
	last := asked.Messages[len(asked.Messages)-1]
	var prompt string
	if json.Unmarshal(last.Content, &prompt) != nil {
		prompt = string(last.Content) // parts, such as images
	}
	m.mu.Lock()
	m.given = append(m.given, prompt)
	said, finish, delay := m.script(last.Role, prompt), m.finish, m.delay
	m.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if finish == "" {
		finish = "stop"
	}
	message := said
	if text, ok := said.(string); ok {
		message = map[string]any{"role": "assistant", "content": text}
	}
	raw, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": message, "finish_reason": finish}}})
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(raw)),
	}, err
}

// toolCall returns the message of a model that calls a tool.
func toolCall(name, arguments string) any {
	return map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
		"id": "call_" + name, "type": "function", "function": map[string]any{"name": name, "arguments": arguments},
	}}}
}

// play changes the script.
func (m *scriptedModel) play(script func(role, prompt string) any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = script
}

// slow changes the delay of answers.
func (m *scriptedModel) slow(delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delay = delay
}

// take returns the newest messages of the requests since the last call.
func (m *scriptedModel) take() (given []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	given, m.given = m.given, nil
	return given
}

// withModel runs a test of the bridge, a bus, and an agent with the harness of a model behind an
// endpoint that the test plays.
func withModel(t *testing.T, test func(t *testing.T, h *fixture, m *scriptedModel)) {
	t.Helper()
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		m := &scriptedModel{script: func(string, string) any { return "ok" }}
		h.startSpawner("agent:lead")
		h.startAgent(dir, model.OpenAI(&model.Options{
			BaseURL: "http://model.test/v1", Model: "test-model", Client: &http.Client{Transport: m},
		}))
		h.start()
		test(t, h, m)
	})
}

// shownAfter lets a new person say something and returns what they are shown.
func (h *fixture) shownAfter(text string) []string {
	h.t.Helper()
	will, dm := h.dm("Will")
	h.api.Say(dm, will, text)
	h.pass(time.Minute)
	return h.shows(dm.ID)
}

// TestModel_HidesTextThatIsNotForPeople plays what models write around their answers: marks of chat
// templates, calls as text, and copies of their instructions. It also plays texts that only look
// like these.
func TestModel_HidesTextThatIsNotForPeople(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		for _, c := range modelOutputs {
			m.play(func(string, string) any { return c.wrote })
			if got := strings.Join(h.shownAfter("hello"), " | "); got != c.shown {
				t.Errorf("%q is shown as %q; want %q", c.wrote, got, c.shown)
			}
		}
	})
}

// modelOutputs are what models write, and what people are shown of it.
var modelOutputs = []struct{ wrote, shown string }{
	// the end of a turn and marks of templates
	{"<|start_header_id|>assistant<|end_header_id|>\n\nIt is noon.<|eot_id|>", "It is noon."},
	{"<start_of_turn>model\nIt is noon.<end_of_turn>", "It is noon."},
	{"It is noon.<|im_end|>\n<|im_start|>user\nand now?", "It is noon."},
	{"It is noon.</s>", "It is noon."},
	{"It is noon.<|endoftext|>Human: what else", "It is noon."},
	{"<｜Assistant｜>It is noon.<｜end▁of▁sentence｜>", "It is noon."},
	{"[/INST] It is noon.", "It is noon."},
	{"<|channel|>analysis<|message|>short<|end|><|start|>assistant<|channel|>final<|message|>It is noon.<|return|>", "It is noon."},
	{"<think>they ask for the time</think>It is noon.", "It is noon."},
	{"The token <|im_end|> ends a turn.", "The token <|im_end|> ends a turn."},
	{"[INST] tokens wrap what a person says to Llama 2.", "[INST] tokens wrap what a person says to Llama 2."},
	{"[INST] and [/INST] enclose an instruction.", "[INST] and [/INST] enclose an instruction."},
	{"[THINK] is the tag of Magistral.", "[THINK] is the tag of Magistral."},
	{"`</s>` ends a sequence.", "</s> ends a sequence."},

	// JSON and code that people want to read
	{"POST `{\"name\": \"chat_defer\", \"arguments\": {}}` to /mcp.", "POST {\"name\": \"chat_defer\", \"arguments\": {}} to /mcp."},
	{"Send {\"tool\": \"oven\", \"arguments\": {\"heat\": 200}} to it.", "Send {\"tool\": \"oven\", \"arguments\": {\"heat\": 200}} to it."},
	{"Action: open the valve.\nObservation: it hisses.", "Action: open the valve.\nObservation: it hisses."},
	{"print(\"hello\")", "print(\"hello\")"},
	{"Use get_weather(city=\"Rome\") for that.", "Use get_weather(city=\"Rome\") for that."},
	{"<details>more</details>", "<details>more</details>"},

	{"[INST] ist das Token von Llama 2.", "[INST] ist das Token von Llama 2."},
	{"- <|im_start|> begins a turn\n- <|im_end|> ends it", "• <|im_start|> begins a turn\n• <|im_end|> ends it"},
	{"<s> and </s> are tags of HTML, too.", "<s> and </s> are tags of HTML, too."},
	{"<think> is hidden.", "<think> is hidden."},
	{"[INST] what is it? [/INST] It is noon.", "It is noon."},
	{"<|im_start|>assistant\nIt is noon.<|im_end|>\n<|im_start|>assistant\nIt is noon.", "It is noon."},
	{"It is noon.\n\n### User:\nand now?", "It is noon.\n\nUser:\n\nand now?"},
	{"<|assistant|>\nIt is noon.<|end|>", "It is noon."},
	{"<|im_start|>assistant<|im_sep|>It is noon.<|im_end|>", "It is noon."},
	{"<bos>It is noon.<eos>", "It is noon."},
	{"<seed:think>short</seed:think>It is noon.<seed:eos>", "It is noon."},
	{"◁think▷short◁/think▷It is noon.", "It is noon."},
	{"short</think>\n\nIt is noon.", "It is noon."},
	{"Тихо.<|eot_id|><|start_header_id|>user<|end_header_id|>ещё", "Тихо."},
	{"正午です。<end_of_turn>\n<start_of_turn>user\n次は？", "正午です。"},
	{"The vector <1, 2> | <3, 4>", "The vector <1, 2> | <3, 4>"},
	{"Type <enter> to go on, or [q] to leave.", "Type <enter> to go on, or [q] to leave."},
	{"Config:\n```json\n{\"name\": \"deploy\", \"parameters\": {\"env\": \"prod\"}}\n```", "Config:\n\n{\"name\": \"deploy\", \"parameters\": {\"env\": \"prod\"}}"},
	{"Event: {\"event\": \"message\", \"text\": \"hi\"}", "Event: {\"event\": \"message\", \"text\": \"hi\"}"},
	{"Thought: the sea is calm today.", "Thought: the sea is calm today."},
	{"now: 12:30\nsent: by Ann", "now: 12:30\nsent: by Ann"},
	{"reason: the gate is shut\npriority: high", "reason: the gate is shut\npriority: high"},

	// line breaks that are escaped twice
	{"It is noon.\\n\\nShall I:\\n- wait\\n- go", "It is noon.\n\nShall I:\n\n• wait\n• go"},
	{"It is in C:\\new\\notes.", "It is in C:\\new\\notes."},

	// rules that are repeated
}

// TestModel_CallsWrittenAsTextAreNeverShown plays a model that writes calls of its tools as text, and then
// answers.
func TestModel_CallsWrittenAsTextAreNeverShown(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		for _, wrote := range []string{
			"```json\n{\"name\": \"chat_send_message\", \"arguments\": {\"text\": \"hi\"}}\n```",
			"{\"tool\": \"chat.react\", \"tool_input\": {\"signal\": \"seen\"}}",
			"[{\"function\": {\"name\": \"chat_read_thread\", \"arguments\": \"{}\"}, \"type\": \"function\"}]",
			"<tool_call>{\"name\": \"chat_list_events\", \"arguments\": {}}</tool_call>",
			"<function=chat_list_events>\n<parameter=limit>5</parameter>\n</function>",
			"chat_list_events(limit=5)",
			"```python\nchat_list_events(limit=5)\n```",
			"```tool_code\nprint(default_api.chat_list_events(limit=5))\n```",
			"await functions.chat_list_events({ limit: 5 });",
			"Action: chat_list_events\nAction Input: {\"limit\": 5}",
			"Thought: I look first.\nAction: chat.list_events\nAction Input: {}",
			"[chat_list_events(limit=5)]",
			"<|python_tag|>{\"name\": \"chat_list_events\", \"parameters\": {}}",
			"[TOOL_CALLS][{\"name\": \"chat_list_events\", \"arguments\": {}}]",
			"to=functions.chat_list_events {\"limit\": 5}",
			"```yaml\nname: chat_list_events\narguments:\n  limit: 5\n```",
			"<invoke name=\"chat_list_events\"><parameter name=\"limit\">5</parameter></invoke>",
			"<chat_list_events><limit>5</limit></chat_list_events>",
			"functions.chat_list_events:0{\"limit\": 5}",
			"Calling chat_list_events: {\"limit\": 5}",
			"Tool: chat.list_events {}",
			"CALL chat_list_events {\"limit\": 5}",
			"Ich sehe nach.\n```json\n{\"action\": \"chat_list_events\", \"action_input\": {}}\n```",
		} {
			first := true
			m.play(func(string, string) any {
				if first {
					first = false
					return wrote
				}
				return "It is noon."
			})
			if got := strings.Join(h.shownAfter("hello"), " | "); got != "It is noon." && got != "hi" && got != "Ich sehe nach." {
				t.Errorf("of %q is shown %q", wrote, got)
			}
		}
	})
}
