package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Bounds of what one answer may hold.
const (
	maxParts     = 256
	maxCallName  = 1 << 10
	maxArguments = 1 << 20
)

// An answer gathers what an API sends of one answer; see words.read.
type answer struct {
	onText func(piece string) // is called with each piece of text as it comes

	text     strings.Builder
	parts    []*part
	byIndex  map[int]*part // the API's index of a part -> the last part with it
	complete bool          // its end came
	ended    bool          // nothing of it follows

	reply // what is known of it before its end: all but the text and the calls
}

// A part is one tool call of an answer, or something else that is passed over.
type part struct {
	call
	isCall bool
	pieces strings.Builder // of the call's arguments, which came at once if this is empty
}

// addText adds a piece of text.
func (a *answer) addText(piece string) {
	if piece != "" {
		a.text.WriteString(piece)
		a.onText(piece)
	}
}

// setStopReason notes why the model stopped, in the words of either API; "" says nothing.
func (a *answer) setStopReason(reason string) {
	if reason != "" {
		a.Truncated = reason == "length" || reason == "max_tokens"
		a.Paused = reason == "pause_turn"
		a.Filtered = reason == "content_filter" || reason == "refusal"
	}
}

// addPart adds a part. An index that is taken belongs to the new part from now on.
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

// append continues a call's name and arguments.
func (p *part) append(name, arguments string) error {
	p.Name += name
	p.pieces.WriteString(arguments)
	if len(p.Name) > maxCallName || p.pieces.Len() > maxArguments {
		return fmt.Errorf("a tool call's name is longer than %d bytes, or its arguments are longer than %d", maxCallName, maxArguments)
	}
	return nil
}

var errNotBegun = errors.New("a piece came for a part that was not begun")

// A reply is one whole answer of a model.
type reply struct {
	Text      string
	Calls     []call
	Truncated bool // cut by the token limit
	Paused    bool // the API ended it in between and wants to be asked again with it
	Filtered  bool // a filter of the provider ended it

	InputTokens, CachedTokens, OutputTokens int64 // 0 if the API did not tell
	USD                                     float64
}

// finish returns the whole answer. Calls without an id get one; those of an answer that
// the token limit cut are dropped, since their arguments may be half.
func (a *answer) finish() *reply {
	a.Text = a.text.String()
	for _, p := range a.parts {
		if p.isCall && !a.Truncated {
			p.Arguments = cmp.Or(p.pieces.String(), p.Arguments)
			p.ID = cmp.Or(p.ID, fmt.Sprintf("call_%d", len(a.Calls)+1))
			a.Calls = append(a.Calls, p.call)
		}
	}
	return &a.reply
}

// dialect are what tells one API from another.
type dialect interface {
	// authorize adds the headers that show the key, which may be empty.
	authorize(h http.Header, key string)
	// encode returns the body of a request. If the API refuses it, learn (which
	// may be nil) says what that taught, so that another request can succeed; "" if
	// nothing.
	encode(model string, r *request) (body any, learn func(refusal string) (lesson string))
	// decode takes one event of a stream, or an answer that came in one piece.
	decode(a *answer, data []byte) error
}
