package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

// Bounds of what one answer may hold.
const (
	maxCalls     = 128
	maxArguments = 1 << 20
)

// A chunk is one event of a stream, or a whole answer.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        content `json:"delta"`
	Message      content `json:"message"` // of a whole answer
	FinishReason *string `json:"finish_reason"`
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
	text   strings.Builder
	calls  []turnloop.Call
	byItem map[int]int // a piece's index -> its call
	finish string
	usage  usage
}

// add takes one chunk and returns the text that it brought.
func (a *answer) add(c *chunk) (string, error) {
	if c.Usage != nil {
		a.usage = *c.Usage
	}
	text := ""
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue // only one was asked for
		}
		for _, part := range []content{choice.Delta, choice.Message} {
			text += part.Content + part.Refusal
			for _, piece := range part.ToolCalls {
				if err := a.addPiece(piece); err != nil {
					return "", err
				}
			}
		}
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			a.finish = *choice.FinishReason
		}
	}
	a.text.WriteString(text)
	return text, nil
}

// addPiece joins a piece to its call. Without an index, a piece with an id (or
// a name) begins a call and any other continues the last one.
func (a *answer) addPiece(p callPiece) error {
	at := -1
	switch {
	case p.Index != nil:
		if found, ok := a.byItem[*p.Index]; ok && (p.ID == "" || a.calls[found].ID == "" || a.calls[found].ID == p.ID) {
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
			a.byItem[*p.Index] = at
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

// reply makes the whole answer. Calls without an id get one.
func (a *answer) reply() *turnloop.Reply {
	for i := range a.calls {
		if a.calls[i].ID == "" {
			a.calls[i].ID = fmt.Sprintf("call_%d", i+1)
		}
	}
	return &turnloop.Reply{
		Text: a.text.String(), Calls: a.calls, Truncated: a.finish == "length",
		InputTokens: a.usage.PromptTokens, OutputTokens: a.usage.CompletionTokens,
	}
}

// readStream reads a streamed answer to its end. Calls of an answer that the
// token limit cut are dropped: their arguments may be half.
func readStream(s *modelapi.Stream, onText func(string)) (*turnloop.Reply, error) {
	a := &answer{byItem: map[int]int{}}
	for {
		_, data, err := s.Next()
		if errors.Is(err, io.EOF) || err == nil && string(data) == "[DONE]" {
			if a.finish == "" {
				return nil, s.Broken()
			}
			if a.finish == "length" {
				a.calls = nil
			}
			return a.reply(), nil
		}
		if err != nil {
			return nil, err
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, s.Unreadable(err)
		}
		if failure, ok := modelapi.ParseError(c.Error); ok {
			return nil, s.InStream(failure)
		}
		text, err := a.add(&c)
		if err != nil {
			return nil, s.Unreadable(err)
		}
		if text != "" {
			onText(text)
		}
	}
}

// readWhole reads an answer that came in one piece.
func readWhole(s *modelapi.Stream, onText func(string)) (*turnloop.Reply, error) {
	raw, err := s.All()
	if err != nil {
		return nil, err
	}
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, s.Unreadable(err)
	}
	if failure, ok := modelapi.ParseError(c.Error); ok {
		return nil, s.InStream(failure)
	}
	a := &answer{byItem: map[int]int{}}
	text, err := a.add(&c)
	if err != nil {
		return nil, s.Unreadable(err)
	}
	if len(c.Choices) == 0 {
		return nil, s.Broken()
	}
	if text != "" {
		onText(text)
	}
	return a.reply(), nil
}
