package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

// Bounds of what one answer may hold.
const (
	maxBlocks    = 256
	maxArguments = 1 << 20
)

// An event is one event of a stream.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"` // message_start
	Index        int             `json:"index"`
	ContentBlock block           `json:"content_block"` // content_block_start
	Delta        delta           `json:"delta"`
	Usage        *usage          `json:"usage"` // message_delta
	Error        json.RawMessage `json:"error"`
}

type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

type usage struct {
	InputTokens         int64 `json:"input_tokens"`
	CacheCreationTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadTokens     int64 `json:"cache_read_input_tokens"`
	OutputTokens        int64 `json:"output_tokens"`
}

func (u usage) input() int64 { return u.InputTokens + u.CacheCreationTokens + u.CacheReadTokens }

// An answer gathers events. Block types that it does not know are passed over.
type answer struct {
	blocks map[int]*gathered
	stop   string
	usage  usage
}

type gathered struct {
	block
	arguments strings.Builder
}

// add takes one event and returns the text that it brought.
func (a *answer) add(e *event) (string, error) {
	switch e.Type {
	case "message_start":
		a.usage = e.Message.Usage
	case "content_block_start":
		if len(a.blocks) >= maxBlocks {
			return "", fmt.Errorf("more than %d blocks in one answer", maxBlocks)
		}
		a.blocks[e.Index] = &gathered{block: e.ContentBlock}
		return e.ContentBlock.Text, nil
	case "content_block_delta":
		b, ok := a.blocks[e.Index]
		if !ok {
			return "", errors.New("a piece came for a block that was not begun")
		}
		b.Text += e.Delta.Text
		b.arguments.WriteString(e.Delta.PartialJSON)
		if b.arguments.Len() > maxArguments {
			return "", fmt.Errorf("a tool call's arguments are longer than %d bytes", maxArguments)
		}
		return e.Delta.Text, nil
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		if e.Usage != nil {
			a.usage.OutputTokens = e.Usage.OutputTokens
		}
	}
	return "", nil
}

// reply makes the whole answer. Calls of an answer that the token limit cut
// are dropped: their arguments may be half.
func (a *answer) reply() *turnloop.Reply {
	r := &turnloop.Reply{
		Truncated: a.stop == "max_tokens", Paused: a.stop == "pause_turn",
		InputTokens: a.usage.input(), OutputTokens: a.usage.OutputTokens,
	}
	var order []int
	for i := range a.blocks {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		switch b := a.blocks[i]; {
		case b.Type == "text":
			r.Text += b.Text
		case b.Type == "tool_use" && !r.Truncated:
			arguments := b.arguments.String()
			if arguments == "" {
				arguments = string(b.Input)
			}
			r.Calls = append(r.Calls, turnloop.Call{ID: b.ID, Name: b.Name, Arguments: arguments})
		}
	}
	return r
}

// readStream reads a streamed answer to its message_stop.
func readStream(s *modelapi.Stream, onText func(string)) (*turnloop.Reply, error) {
	a := &answer{blocks: map[int]*gathered{}}
	for {
		_, data, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil, s.Broken()
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, s.Unreadable(err)
		}
		if failure, ok := modelapi.ParseError(e.Error); ok {
			return nil, s.InStream(failure)
		}
		if e.Type == "message_stop" {
			return a.reply(), nil
		}
		text, err := a.add(&e)
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
	var whole struct {
		Content    []block         `json:"content"`
		StopReason string          `json:"stop_reason"`
		Usage      usage           `json:"usage"`
		Error      json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, s.Unreadable(err)
	}
	if failure, ok := modelapi.ParseError(whole.Error); ok {
		return nil, s.InStream(failure)
	}
	if whole.StopReason == "" {
		return nil, s.Broken()
	}
	a := &answer{blocks: map[int]*gathered{}, stop: whole.StopReason, usage: whole.Usage}
	for i, b := range whole.Content {
		a.blocks[i] = &gathered{block: b}
	}
	reply := a.reply()
	if reply.Text != "" {
		onText(reply.Text)
	}
	return reply, nil
}
