package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol/text"
)

// maxCuts is how often a model may shorten an answer that its token limit cut.
const maxCuts = 2

// handleCut handles an answer that the token limit cut. Text for people is the answer, which the
// agent marks as cut. After a thought or a tool call alone, the model is asked to shorten it; then
// both results are nil. If it cannot, the longest text that it meant for people is the answer.
func (r *execution) handleCut(reply *reply, last bool) (final *reply, err error) {
	defer func() { reply.Calls = nil }()
	visible := attention.VisibleText(reply.Text, r.tools.names()...)
	if visible != "" && len(reply.Calls) == 0 {
		r.messages = append(r.messages, message{Role: roleAssistant, Text: reply.Text})
		return reply, nil
	}
	for _, said := range []string{visible, r.cutMessage(reply.Calls)} {
		if len(said) > len(r.cutText) {
			r.cutText = said
		}
	}
	if r.cuts++; r.cuts <= maxCuts && !last {
		said := reply.Text
		if strings.TrimSpace(said) == "" {
			said = "[cut]"
		}
		note := fmt.Sprintf("Your output reached its limit of %d tokens and was cut; no tool was called. Think less, and "+
			"say the same again in fewer words: call the tool with shorter arguments, or write a shorter answer.",
			r.h.opts.MaxTokens)
		r.messages = append(r.messages, message{Role: roleAssistant, Text: said}, message{Role: roleUser, Text: note})
		r.report(harness.Progress{Kind: harness.ProgressText}) // voids the text so far
		return nil, nil                                        //nolint:nilnil // the turn goes on
	}
	if r.cutText == "" {
		return nil, fmt.Errorf("%w: its answer was cut at %d tokens before it contained any text", harness.ErrBudget,
			r.h.opts.MaxTokens)
	}
	r.messages = append(r.messages, message{Role: roleAssistant, Text: r.cutText})
	reply.Text = r.cutText
	return reply, nil
}

// messageTool is the tool whose text people read.
const messageTool = "chat.send_message"

// cutMessage returns the text of a message that was cut inside the arguments of its call, or "".
func (r *execution) cutMessage(cut []call) string {
	for _, c := range cut {
		if r.tools.SourceName(c.Name) == messageTool {
			return cutString(c.Arguments)
		}
	}
	return ""
}

var textMember = text.Pattern(`"text"\s*:\s*"((?:[^"\\]|\\.)*)`)

// cutString returns the member text of a JSON object that may be cut anywhere.
func cutString(object string) (text string) {
	at := textMember().FindStringSubmatch(object)
	if at == nil {
		return ""
	}
	for raw, tries := at[1], 0; tries < 8 && raw != ""; tries++ { // the end may be half of an escape
		if json.Unmarshal([]byte(`"`+raw+`"`), &text) == nil {
			return strings.TrimRight(text, "\ufffd")
		}
		raw = raw[:len(raw)-1]
	}
	return ""
}
