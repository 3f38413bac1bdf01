package broker

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"hubbub/peers/broker/rules"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

//go:embed prompt.tmpl
var promptText string

var promptTemplate = template.Must(template.New("contract").Funcs(template.FuncMap{
	"line":     oneLine,
	"describe": func(w *rules.Record) string { return w.Describe(collab.NameOf) },
}).Parse(promptText))

// A contract has the data for the template.
type contract struct {
	Agent        string
	Harness      string
	Endpoint     *rules.Endpoint
	Conversation *collab.Conversation
	Work         *rules.Record
	Open         []*rules.Record // with the agent's next move
}

const maxOpenInPrompt = 10

// promptContract returns the collaboration contract for an agent's prompt. Its meaning is the
// same for every harness.
func (t queryHandler) promptContract(p collab.PromptParams) collab.PromptResult {
	rules.MustBeText("agentId", p.AgentID, rules.MaxName)
	agent := t.agentParty(p.AgentID)
	t.mustFindPlace(p.ConversationID, p.WorkItemID)
	c := contract{
		Agent:        agent.Name,
		Harness:      p.HarnessType,
		Endpoint:     t.ResolveParty(agent, rules.Locality{}).Endpoint,
		Conversation: t.conversations.get(p.ConversationID),
		Work:         t.records.get(p.WorkItemID),
	}
	for _, w := range t.openRecords(collab.KindWorkItem) {
		if w.NextMoveOwnerIdentity == agent.ID && w.ID != p.WorkItemID && len(c.Open) < maxOpenInPrompt {
			c.Open = append(c.Open, w)
		}
	}
	var b strings.Builder
	if err := promptTemplate.Execute(&b, c); err != nil {
		rules.Must(fmt.Errorf("writing the prompt contract: %w", err))
	}
	return collab.PromptResult{Contract: b.String(), AgentID: agent.Name, Sections: promptSections(b.String())}
}

// promptSections lists the headings of a contract.
func promptSections(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			list = append(list, strings.ToLower(strings.TrimSpace(heading)))
		}
	}
	return list
}

// oneLine makes a value safe for one line of the prompt. It removes line breaks, control and
// direction-changing characters, heading marks, and the quotation marks that would end a quoted
// title.
func oneLine(v any) string {
	s := strings.Map(func(r rune) rune {
		if r == '"' {
			return '\''
		}
		if text.IsControl(r) {
			return ' '
		}
		return r
	}, fmt.Sprint(v))
	words := strings.Fields(s)
	words = slices.DeleteFunc(words, func(w string) bool { return strings.Trim(w, "#") == "" })
	return text.Clip(strings.Join(words, " "), 300)
}
