package model

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// The API's responses: one event of a stream, or an answer in one piece.
type (
	openaiChunk struct {
		Choices []struct {
			Index        int          `json:"index"`
			Delta        openaiPiece  `json:"delta"`
			Message      *openaiPiece `json:"message"`       // only in an answer in one piece
			Text         string       `json:"text"`          // some endpoints answer in the format of plain completions
			FinishReason string       `json:"finish_reason"` // some endpoints never send it
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
	}
	openaiUsage struct { // some endpoints report fractions
		PromptTokens     float64 `json:"prompt_tokens"`
		CompletionTokens float64 `json:"completion_tokens"`
		PromptDetails    struct {
			CachedTokens float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Cost float64 `json:"cost"` // OpenRouter: in US dollars
	}
	openaiPiece struct {
		Content      openaiText      `json:"content"` // null reads as ""
		Refusal      string          `json:"refusal"`
		ToolCalls    []openaiCall    `json:"tool_calls"`
		FunctionCall *openaiFunction `json:"function_call"` // the only call of an answer, in the API's first format
	}
	openaiCall struct {
		Index    *int            `json:"index"` // missing on some endpoints, which send complete calls
		ID       openaiID        `json:"id"`
		Function openaiFunction  `json:"function"`
		Extra    json.RawMessage `json:"extra_content"` // Gemini's thought signatures
	}
	openaiFunction struct {
		Name      string          `json:"name"`
		Arguments openaiArguments `json:"arguments"`
	}
	openaiText      string // a string or a list of parts
	openaiArguments string // JSON in a string; some endpoints send an object
	openaiID        string // some endpoints number calls
)

// UnmarshalJSON joins the parts of a text, each an object or a string. It ignores parts of other
// types.
func (t *openaiText) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '[':
		var parts []openaiText
		err := json.Unmarshal(raw, &parts)
		var all strings.Builder
		for _, p := range parts {
			all.WriteString(string(p))
		}
		*t = openaiText(all.String())
		return err
	case '{':
		var part struct{ Type, Text string }
		err := json.Unmarshal(raw, &part)
		if slices.Contains([]string{"", "text", "output_text"}, part.Type) {
			*t = openaiText(part.Text)
		}
		return err
	}
	return json.Unmarshal(raw, (*string)(t))
}

// UnmarshalJSON takes anything but a string as the JSON that the string should contain.
func (a *openaiArguments) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' || raw[0] == 'n' {
		return json.Unmarshal(raw, (*string)(a))
	}
	*a = openaiArguments(raw)
	return nil
}

// UnmarshalJSON takes a number as its digits.
func (i *openaiID) UnmarshalJSON(raw []byte) error {
	return (*openaiArguments)(i).UnmarshalJSON(raw)
}

// openai is the dialect of one endpoint of the chat completions API.
type openai struct {
	official bool // OpenAI's own

	mu     sync.Mutex
	quirks quirks
}

// quirks are what an endpoint turned out to require.
type quirks struct {
	limitName       string // "max_tokens" or "max_completion_tokens"
	noStreamOptions bool
	noTools         bool
}

func (*openai) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (o *openai) encode(model string, r *request) (body any, learn func(refusal string) (lesson string)) {
	o.mu.Lock()
	q := o.quirks
	o.mu.Unlock()
	if q.noTools {
		r = stripTools(r)
	}
	fields := object{"model": model, "stream": true, "messages": openaiMessages(r), q.limitName: r.MaxTokens}
	if !q.noStreamOptions {
		fields["stream_options"] = object{"include_usage": true}
	}
	var tools []object
	for _, t := range r.Tools {
		tools = append(tools, object{"type": "function", "function": toolObject(t, "parameters")})
	}
	if len(tools) > 0 {
		fields["tools"] = tools
		if r.NoTools {
			fields["tool_choice"] = "none"
		}
	}
	return fields, func(refusal string) string { return o.adapt(q, refusal) }
}

// stripTools returns the request without tools and without tool messages, for a model that does
// not support them.
func stripTools(r *request) *request {
	bare := &request{System: r.System, MaxTokens: r.MaxTokens}
	for _, m := range r.Messages {
		if m.Text != "" {
			bare.Messages = append(bare.Messages, message{Role: m.Role, Text: m.Text})
		}
	}
	return bare
}

// toolsRefused matches what Ollama, vLLM, llama.cpp and OpenRouter say if a model or its
// configuration does not support tools.
var toolsRefused = text.Pattern(
	`(?i)not support (tools|tool use|function call)|support tool use|enable-auto-tool-choice|tools? param requires --jinja`,
)

// adapt adjusts the dialect to a refusal. It describes the adjustment, after which another
// request may succeed, or returns "". It makes each adjustment once.
func (o *openai) adapt(used quirks, refusal string) (lesson string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !used.noStreamOptions && strings.Contains(refusal, "stream_options"):
		o.quirks.noStreamOptions = true
		return "token usage is not requested"
	case used.limitName == "max_tokens" && strings.Contains(refusal, "max_completion_tokens"):
		o.quirks.limitName = "max_completion_tokens"
		return "the limit of an answer is sent as max_completion_tokens"
	case used.limitName == "max_completion_tokens" && !o.official && strings.Contains(refusal, "max_completion_tokens"):
		o.quirks.limitName = "max_tokens"
		return "the limit of an answer is sent as max_tokens"
	case !used.noTools && toolsRefused().MatchString(refusal):
		o.quirks.noTools = true
		return "its model does not support tools: it only answers, and can neither react nor look anything up"
	}
	return ""
}

// openaiMessages converts a conversation. It always sends content, since some endpoints require
// it.
func openaiMessages(r *request) (out []object) {
	if r.System != "" {
		out = append(out, object{"role": "system", "content": r.System})
	}
	for _, m := range r.Messages {
		switch m.Role {
		case roleUser:
			out = append(out, object{"role": "user", "content": openaiContent(m)})
		case roleAssistant:
			assistant := object{"role": "assistant", "content": nil}
			if m.Text != "" {
				assistant["content"] = m.Text
			}
			if len(m.Calls) > 0 {
				assistant["tool_calls"] = openaiCalls(m.Calls)
			}
			out = append(out, assistant)
		case roleTool:
			var images []harness.Image
			for _, result := range m.Results {
				text := result.Text
				if result.IsError {
					text = "error: " + text
				}
				out = append(out, object{"role": "tool", "tool_call_id": result.ID, "content": text})
				images = append(images, result.Images...)
			}
			if len(images) > 0 { // results of tools hold only text
				shown := message{Text: "The images in the results of these tools:", Images: images}
				out = append(out, object{"role": "user", "content": openaiContent(shown)})
			}
		}
	}
	return out
}

// openaiContent converts a user message. A text alone is sent as a string, since many endpoints
// do not accept parts.
func openaiContent(m message) any {
	if len(m.Images) == 0 {
		return m.Text
	}
	parts := []object{{"type": "text", "text": m.Text}}
	for _, i := range m.Images {
		parts = append(parts, object{"type": "image_url", "image_url": object{"url": imageURL(i)}})
	}
	return parts
}

func openaiCalls(calls []call) (out []object) {
	for _, c := range calls {
		o := object{
			"id":       c.ID,
			"type":     "function",
			"function": object{"name": c.Name, "arguments": string(c.validArguments())},
		}
		if len(c.Extra) > 0 {
			o["extra_content"] = c.Extra
		}
		out = append(out, o)
	}
	return out
}

func (*openai) decode(a *answer, data []byte) error {
	if string(data) == "[DONE]" {
		a.complete, a.ended = a.complete || a.text.Len() > 0 || len(a.parts) > 0, true
		return nil
	}
	var c openaiChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	var u openaiUsage
	if json.Unmarshal(c.Usage, &u) == nil { // invalid usage does not make the answer invalid
		a.InputTokens, a.CachedTokens, a.OutputTokens = tokens(u.PromptTokens), tokens(
			u.PromptDetails.CachedTokens,
		), tokens(u.CompletionTokens)
		a.USD = max(u.Cost, 0)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one choice was requested
		}
		delta := choice.Delta
		if choice.Message != nil {
			delta, a.complete = *choice.Message, true
		}
		a.addText(string(delta.Content) + delta.Refusal + choice.Text)
		if f := delta.FunctionCall; f != nil {
			delta.ToolCalls = append(delta.ToolCalls, openaiCall{Index: new(int), Function: *f})
		}
		for _, piece := range delta.ToolCalls {
			if err := mergeOpenAICall(a, piece); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.setStopReason(choice.FinishReason)
			a.complete = true
		}
	}
	return nil
}

// tokens converts a reported number of tokens.
func tokens(n float64) int64 { return int64(min(max(n, 0), 1e12)) }

// mergeOpenAICall adds a piece to its call. Without an index, a piece with an ID or a name begins
// a call, and any other piece continues the last one. Some endpoints give every call index 0, so
// a new ID also begins a call. Some repeat the name in each piece.
func mergeOpenAICall(a *answer, piece openaiCall) error {
	var p, last *part
	if n := len(a.parts); n > 0 {
		last = a.parts[n-1]
	}
	name := piece.Function.Name
	switch {
	case piece.Index != nil:
		p = a.byIndex[*piece.Index]
		if p != nil && piece.ID != "" && p.ID != "" && p.ID != string(piece.ID) {
			p = nil
		}
	case piece.ID == "" && name == "":
		if last == nil {
			return errNotBegun
		}
		p = last
	case piece.ID == "" && last != nil && last.Name == name && !json.Valid([]byte(last.pieces.String())):
		p = last
	}
	if p == nil {
		p = &part{isCall: true}
		if err := a.addPart(piece.Index, p); err != nil {
			return err
		}
	}
	p.ID = cmp.Or(string(piece.ID), p.ID)
	if len(piece.Extra) > 0 {
		p.Extra = piece.Extra
	}
	if name == p.Name {
		name = ""
	}
	return p.append(name, string(piece.Function.Arguments))
}
