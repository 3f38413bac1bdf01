package model

import (
	"encoding/json"
	"net/http"

	"hubbub/peers/agent/harness"
)

// The API's responses: one event of a stream, or an answer in one piece.
type (
	anthropicEvent struct {
		Type    string `json:"type"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"` // message_start
		Index        int           `json:"index"`
		ContentBlock anthropicPart `json:"content_block"` // content_block_start
		Delta        struct {
			Type        string `json:"type"`
			Text        string `json:"text"`
			PartialJSON string `json:"partial_json"`
			StopReason  string `json:"stop_reason"`
		} `json:"delta"`
		Usage *anthropicUsage `json:"usage"` // message_delta, or an answer in one piece

		// Only in an answer in one piece.
		Content    []anthropicPart `json:"content"`
		StopReason string          `json:"stop_reason"`
	}
	anthropicPart struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	anthropicUsage struct {
		InputTokens         int64 `json:"input_tokens"`
		CacheCreationTokens int64 `json:"cache_creation_input_tokens"`
		CacheReadTokens     int64 `json:"cache_read_input_tokens"`
		OutputTokens        int64 `json:"output_tokens"`
	}
)

// anthropicVersion is the supported version of the API.
const anthropicVersion = "2023-06-01"

// cached marks the end of what the API should cache for the next request.
var cached = object{"type": "ephemeral"}

// anthropic is the dialect of the Messages API.
type anthropic struct{}

func (anthropic) authorize(h http.Header, key string) {
	h.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

func (anthropic) encode(model string, r *request) (body any, learn func(refusal string) (lesson string)) {
	fields := object{
		"model":      model,
		"max_tokens": r.MaxTokens,
		"stream":     true,
		"messages":   anthropicMessages(r.Messages),
	}
	if r.System != "" {
		fields["system"] = []object{{"type": "text", "text": r.System, "cache_control": cached}}
	}
	var tools []object
	for _, t := range r.Tools {
		tools = append(tools, toolObject(t, "input_schema"))
	}
	if n := len(tools); n > 0 {
		tools[n-1]["cache_control"] = cached
		fields["tools"] = tools
		if r.NoTools {
			fields["tool_choice"] = object{"type": "none"}
		}
	}
	return fields, nil
}

type anthropicMessage struct {
	Role    string   `json:"role"`
	Content []object `json:"content"`
}

// anthropicMessages merges consecutive messages of one role, as the API requires. The results of
// tools belong to the user.
func anthropicMessages(messages []message) (out []anthropicMessage) {
	for _, m := range messages {
		role, blocks := "user", anthropicBlocks(m)
		if m.Role == roleAssistant {
			role = "assistant"
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			out = append(out, anthropicMessage{Role: role, Content: blocks})
		}
	}
	return out
}

func anthropicBlocks(m message) (blocks []object) {
	for _, r := range m.Results {
		var content any = r.Text
		if len(r.Images) > 0 {
			content = append([]object{{"type": "text", "text": r.Text}}, anthropicImages(r.Images)...)
		}
		blocks = append(blocks,
			object{"type": "tool_result", "tool_use_id": r.ID, "content": content, "is_error": r.IsError})
	}
	blocks = append(blocks, anthropicImages(m.Images)...)
	if m.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": m.Text})
	}
	for _, c := range m.Calls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.validArguments()})
	}
	return blocks
}

func anthropicImages(images []harness.Image) (blocks []object) {
	for _, i := range images {
		blocks = append(blocks,
			object{"type": "image", "source": object{"type": "base64", "media_type": i.MimeType, "data": i.Data}})
	}
	return blocks
}

func (anthropic) decode(a *answer, data []byte) error {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	switch {
	case e.StopReason != "": // an answer in one piece
		for i, p := range e.Content {
			if err := p.addTo(a, i); err != nil {
				return err
			}
		}
		a.setStopReason(e.StopReason)
		a.complete, a.ended = true, true
		if e.Usage != nil {
			e.Usage.addTo(a)
		}
	case e.Type == "message_start":
		e.Message.Usage.addTo(a)
	case e.Type == "content_block_start":
		return e.ContentBlock.addTo(a, e.Index)
	case e.Type == "content_block_delta":
		p := a.byIndex[e.Index]
		if p == nil {
			return errNotBegun
		}
		if e.Delta.Type == "text_delta" {
			a.addText(e.Delta.Text)
		}
		return p.append("", e.Delta.PartialJSON)
	case e.Type == "message_delta":
		a.setStopReason(e.Delta.StopReason)
		if e.Usage != nil {
			a.OutputTokens = e.Usage.OutputTokens
		}
	case e.Type == "message_stop":
		a.complete, a.ended = true, true
	}
	return nil
}

// addTo adds a block to an answer. Unknown types are ignored.
func (b *anthropicPart) addTo(a *answer, index int) error {
	if b.Type == "text" {
		a.addText(b.Text)
	}
	return a.addPart(&index,
		&part{isCall: b.Type == "tool_use", call: call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)}})
}

func (u anthropicUsage) addTo(a *answer) {
	a.InputTokens = u.InputTokens + u.CacheCreationTokens + u.CacheReadTokens
	a.CachedTokens, a.OutputTokens = u.CacheReadTokens, u.OutputTokens
}
