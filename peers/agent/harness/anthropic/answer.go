package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hubbub/peers/agent/harness/turnloop"
)

// Bounds of what one answer may hold.
const (
	maxBlocks    = 256
	maxArguments = 1 << 20
)

// An event is one event of a stream, or an answer in one piece.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"` // message_start
	Index        int    `json:"index"`
	ContentBlock block  `json:"content_block"` // content_block_start
	Delta        delta  `json:"delta"`
	Usage        *usage `json:"usage"` // message_delta, one piece

	// Of an answer in one piece.
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
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
	whole  bool
}

type gathered struct {
	block
	arguments strings.Builder
}

// Add takes one event.
func (a *answer) Add(data []byte) (text string, last bool, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return "", false, err
	}
	switch {
	case e.Type == "message_stop":
		a.whole = true
	case e.StopReason != "":
		text, err = a.addWhole(&e)
	default:
		text, err = a.addEvent(&e)
	}
	return text, a.whole, err
}

func (a *answer) addWhole(e *event) (text string, err error) {
	for i, b := range e.Content {
		if i >= maxBlocks {
			return "", fmt.Errorf("more than %d blocks in one answer", maxBlocks)
		}
		a.blocks[i] = &gathered{block: b}
		text += b.Text
	}
	a.stop, a.whole = e.StopReason, true
	if e.Usage != nil {
		a.usage = *e.Usage
	}
	return text, nil
}

func (a *answer) addEvent(e *event) (text string, err error) {
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

// Reply makes the whole answer. Calls of an answer that the token limit cut
// are dropped: their arguments may be half.
func (a *answer) Reply() *turnloop.Reply {
	if !a.whole {
		return nil
	}
	r := &turnloop.Reply{
		Truncated: a.stop == "max_tokens", Paused: a.stop == "pause_turn",
		InputTokens: a.usage.input(), OutputTokens: a.usage.OutputTokens,
	}
	for _, i := range slices.Sorted(maps.Keys(a.blocks)) {
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
