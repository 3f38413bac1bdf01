package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hubbub/peers/agent/harness/turnloop"
)

// Bounds of what one answer may hold.
const (
	maxCalls     = 128
	maxArguments = 1 << 20
)

// A chunk is one event of a stream, or a whole answer.
type chunk struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

type choice struct {
	Index        int      `json:"index"`
	Delta        content  `json:"delta"`
	Message      *content `json:"message"` // of an answer in one piece
	FinishReason *string  `json:"finish_reason"`
}

type content struct {
	Content   string      `json:"content"` // null reads as ""
	Refusal   string      `json:"refusal"`
	ToolCalls []callPiece `json:"tool_calls"`
}

// A callPiece is a part of a tool call. Index is missing on some endpoints,
// which send whole calls.
type callPiece struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Function wireFunction    `json:"function"`
	Extra    json.RawMessage `json:"extra_content"`
}

type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// An answer gathers chunks.
type answer struct {
	text    strings.Builder
	calls   []turnloop.Call
	byIndex map[int]int // a piece's index -> its call
	finish  string
	usage   usage
}

// Add takes one chunk.
func (a *answer) Add(data []byte) (text string, last bool, err error) {
	if string(data) == "[DONE]" {
		return "", true, nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return "", false, err
	}
	if c.Usage != nil {
		a.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one was asked for
		}
		said := choice.Delta
		if choice.Message != nil {
			said, a.finish = *choice.Message, "stop"
		}
		text += said.Content + said.Refusal
		for _, piece := range said.ToolCalls {
			if err := a.addPiece(piece); err != nil {
				return "", false, err
			}
		}
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			a.finish = *choice.FinishReason
		}
	}
	a.text.WriteString(text)
	return text, false, nil
}

// addPiece joins a piece to its call. Without an index, a piece with an id (or
// a name) begins a call and any other continues the last one.
func (a *answer) addPiece(p callPiece) error {
	at := -1
	switch {
	case p.Index != nil:
		if found, ok := a.byIndex[*p.Index]; ok && (p.ID == "" || a.calls[found].ID == "" || a.calls[found].ID == p.ID) {
			at = found
		}
	case p.ID == "" && p.Function.Name == "":
		at = len(a.calls) - 1
		if at < 0 {
			return errors.New("a tool call's arguments came without the call")
		}
	}
	if at < 0 {
		if len(a.calls) >= maxCalls {
			return fmt.Errorf("more than %d tool calls in one answer", maxCalls)
		}
		at = len(a.calls)
		a.calls = append(a.calls, turnloop.Call{})
		if p.Index != nil {
			a.byIndex[*p.Index] = at
		}
	}
	call := &a.calls[at]
	if p.ID != "" {
		call.ID = p.ID
	}
	call.Name += p.Function.Name
	call.Arguments += p.Function.Arguments
	if len(p.Extra) > 0 {
		call.Extra = append(json.RawMessage(nil), p.Extra...)
	}
	if len(call.Arguments) > maxArguments {
		return fmt.Errorf("a tool call's arguments are longer than %d bytes", maxArguments)
	}
	return nil
}

// Reply makes the whole answer. Calls without an id get one; those of an
// answer that the token limit cut are dropped: their arguments may be half.
func (a *answer) Reply() *turnloop.Reply {
	if a.finish == "" {
		return nil
	}
	r := &turnloop.Reply{
		Text: a.text.String(), Truncated: a.finish == "length",
		InputTokens: a.usage.PromptTokens, OutputTokens: a.usage.CompletionTokens,
	}
	if r.Truncated {
		return r
	}
	r.Calls = a.calls
	for i := range r.Calls {
		if r.Calls[i].ID == "" {
			r.Calls[i].ID = fmt.Sprintf("call_%d", i+1)
		}
	}
	return r
}
