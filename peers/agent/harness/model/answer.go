package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Limits of one answer.
const (
	maxParts     = 256
	maxCallName  = 1 << 10
	maxArguments = 1 << 20
)

// An answer accumulates what an API sends for one answer; see dialect.decode.
type answer struct {
	onText func(piece string) // called with each piece of text

	text     strings.Builder
	parts    []*part
	byIndex  map[int]*part // the last part with the API's index
	complete bool          // the answer arrived completely
	ended    bool          // no further events follow

	reply // everything known so far except the text and the calls
}

// A part is one tool call of an answer, or something else that is ignored.
type part struct {
	call
	isCall bool
	pieces strings.Builder // of the call's arguments; empty if they came all at once
}

// addText adds a piece of text.
func (a *answer) addText(piece string) {
	if piece != "" {
		a.text.WriteString(piece)
		a.onText(piece)
	}
}

// setStopReason records why the model stopped, in the terms of either API or of the models behind an
// endpoint that passes theirs on. An empty reason changes nothing.
func (a *answer) setStopReason(reason string) {
	if reason == "" {
		return
	}
	a.Truncated, a.Paused, a.Filtered = false, false, false
	switch strings.ToLower(reason) {
	case "length", "max_tokens", "model_length", "max_output_tokens", "max_completion_tokens",
		"model_context_window_exceeded":
		a.Truncated = true
	case "pause_turn":
		a.Paused = true
	case "content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist", "spii":
		a.Filtered = true
	}
}

// addPart adds a part. From now on, the index refers to this part.
func (a *answer) addPart(index *int, p *part) error {
	if len(a.parts) >= maxParts {
		return fmt.Errorf("more than %d parts in one answer", maxParts)
	}
	a.parts = append(a.parts, p)
	if index != nil {
		a.byIndex[*index] = p
	}
	return nil
}

// append extends a call's name and arguments.
func (p *part) append(name, arguments string) error {
	p.Name += name
	p.pieces.WriteString(arguments)
	if len(p.Name) > maxCallName || p.pieces.Len() > maxArguments {
		return fmt.Errorf("the name of a tool call is longer than %d bytes, or its arguments are longer than %d",
			maxCallName, maxArguments)
	}
	return nil
}

var errNotBegun = errors.New("a piece arrived for a part that has not begun")

// A reply is one complete answer of a model.
type reply struct {
	Text      string
	Calls     []call
	Truncated bool // cut by the token limit
	Paused    bool // the API interrupted the answer and wants it sent back to continue
	Filtered  bool // a content filter of the provider ended it

	InputTokens, CachedTokens, OutputTokens int64 // 0 if the API did not report it
	USD                                     float64
}

// finish returns the complete answer. Calls without an ID get one. If the token limit cut the
// answer, its calls must not be run, since their arguments may be incomplete.
func (a *answer) finish() *reply {
	a.Text = a.text.String()
	for _, p := range a.parts {
		if p.isCall {
			p.Arguments = cmp.Or(p.pieces.String(), p.Arguments)
			p.ID = cmp.Or(p.ID, fmt.Sprintf("call_%d", len(a.Calls)+1))
			a.Calls = append(a.Calls, p.call)
		}
	}
	return &a.reply
}

// A dialect is what distinguishes one API from another.
type dialect interface {
	// authorize adds the headers with the key, which may be empty.
	authorize(h http.Header, key string)
	// encode returns the body of a request. If the API refuses the request, learn (which may be
	// nil) adjusts the dialect to the refusal. It returns a description of the adjustment, after
	// which another request may succeed, or "".
	encode(model string, r *request) (body any, learn func(refusal string) (lesson string))
	// decode handles one event of a stream, or an answer in one piece.
	decode(a *answer, data []byte) error
}
