package bridge

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"hubbub/peers/attention"
	"hubbub/protocol"
	contract "hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// conversation returns the ID of the chat's conversation, which contains its place.
func (a *commandAttempt) conversation() string {
	if a.Thread == "" {
		return string(a.chat)
	}
	return string(a.chat) + "/" + a.Thread
}

// chatParams describe the chat, so that the broker can create its conversation.
func (a *commandAttempt) chatParams() *contract.ChatParams {
	return &contract.ChatParams{Identity: a.chat, Kind: a.Kind, Title: a.Title, AgentID: string(a.firstAgent)}
}

// newID returns the ID of a record that the command creates. It is the same at each
// attempt, and short enough to be typed.
func (a *commandAttempt) newID(prefix string) *string {
	sum := sha256.Sum256([]byte(string(a.chat) + " " + a.Key))
	return new(prefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])))
}

// The prefixes of IDs: those that chats create, and those that the broker creates.
var (
	workPrefixes     = []string{"wi-", "wi_"}
	questionPrefixes = []string{"q-", "q_", contract.EscalationQuestionID("")}
)

// cutID cuts an ID with one of the prefixes from the beginning of a text.
func cutID(s string, prefixes []string) (id, rest string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	for _, prefix := range prefixes {
		if len(word) > len(prefix) && strings.HasPrefix(strings.ToLower(word), prefix) {
			return word, strings.TrimSpace(rest)
		}
	}
	return "", strings.TrimSpace(s)
}

// cutWorkID cuts the ID of a work item from the beginning of a text that may also be the title of new work. A
// word such as Wi-Fi, with a hyphen, few letters and no digit, belongs to the title.
func cutWorkID(s string) (id, rest string) {
	id, rest = cutID(s, workPrefixes)
	if name, found := strings.CutPrefix(strings.ToLower(id), "wi-"); found && len(name) < 8 &&
		!strings.ContainsAny(name, "0123456789") {
		return "", strings.TrimSpace(s)
	}
	return id, rest
}

// cutName cuts the mention from the beginning of a text. It returns the identity of a
// person, and the label of anybody else. A name of several people names nobody, and the
// command ends with a.ambiguous.
func (a *commandAttempt) cutName(s string) (who, rest string) {
	labels := attention.Labels(s)
	if attention.CountLeading(s, labels) == 0 {
		return "", s
	}
	l := labels[0]
	people := a.router.opts.Commands.People(a.tx, a.chat, s[l.From+1:l.NameEnd])
	switch {
	case a.tx.Err() != nil: // nothing is asked for a name that may be a person's
	case l.NameEnd != l.To, len(people) == 0:
		return s[l.From:l.To], attention.TextAfterLabel(s, l)
	case len(people) == 1:
		return string(people[0]), attention.TextAfterLabel(s, l)
	default:
		var names []string
		for _, person := range people[:min(len(people), 5)] {
			name, _, _ := strings.Cut(person.Name(), ":")
			names = append(names, name)
		}
		a.ambiguous = fmt.Sprintf("More than one person is called %s. Name the one you mean: %s.", s[l.From:l.To],
			strings.Join(names, " or "))
	}
	return "", ""
}

const workUsage = "/work @NAME TITLE assigns work, /work lists it, /work ID shows it, " +
	"/work ID @NAME gives it to somebody else, /done ID closes it."

// usage returns a text about commands with the prefix of the chat's commands.
func (r commandRunner) usage(text string) string {
	return strings.ReplaceAll(text, "/", r.router.opts.Prefix)
}

// work lists, shows, creates or assigns work.
func (a *commandAttempt) work() (string, error) {
	id, rest := cutWorkID(a.Text)
	who, words := a.cutName(rest)
	switch {
	case a.Text == "", strings.EqualFold(a.Text, "list"):
		return a.listWork()
	case id != "" && rest == "":
		return a.showWork(id)
	case id != "" && who == "", id == "" && words == "":
		return a.usage(workUsage), nil
	}
	p := contract.AssignParams{
		ID:             &id,
		OwnerID:        who,
		Text:           words,
		InvocationID:   a.newID("inv-"),
		ConversationID: a.conversation(),
		Chat:           a.chatParams(),
	}
	if id == "" {
		p.ID = a.newID("wi-")
		p.Title = new(text.Clip(words, 300))
	}
	switch {
	case p.OwnerID != "":
	case a.firstAgent != "":
		p.OwnerID = string(a.firstAgent)
	default:
		p.OwnerID = string(a.By)
	}
	got, err := contract.WorkAssign.Ask(a.ctx, a.broker, p)
	if err != nil {
		return "", err
	}
	result := a.describeWork(a.tx, &got.WorkItem)
	if got.Decision != nil {
		result += "\n" + describeWake(got.Decision)
	}
	return result, nil
}

// maxListed bounds what a command lists.
const maxListed = 20

// listWork lists the open work of the chat.
func (a *commandAttempt) listWork() (string, error) {
	page, err := contract.WorkList.Ask(a.ctx, a.broker, contract.WorkListParams{})
	var lines []string
	for err == nil {
		for _, raw := range page.Items {
			w, unread := raw.Read()
			if unread != nil {
				return "", unread
			}
			if !w.Terminal() && w.ConversationID == a.conversation() {
				lines = append(lines, "• "+a.describeWork(a.tx, &w))
			}
		}
		if page.Next == nil || len(lines) >= maxListed {
			break
		}
		page, err = contract.WorkList.Ask(a.ctx, a.broker,
			contract.WorkListParams{PageParams: contract.PageParams{After: *page.Next}})
	}
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return "No work is open here. " + a.usage(workUsage), nil
	}
	return strings.Join(lines[:min(len(lines), maxListed)], "\n"), nil
}

// showWork describes a work item, and who was woken for it last.
func (a *commandAttempt) showWork(id string) (string, error) {
	got, err := contract.WorkGet.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
	if err != nil {
		return "", err
	}
	result := a.describeWork(a.tx, &got.WorkItem)
	if got.WorkItem.Summary != "" {
		result += "\n" + got.WorkItem.Summary
	}
	why, err := contract.WakeExplain.Ask(a.ctx, a.broker, contract.ExplainParams{WorkItemID: id})
	if contract.Refusal(err) == contract.CodeNotFound {
		return result, nil
	}
	return result + "\n" + describeWake(&why.Decision), err
}

// listAgents lists the agents that the broker knows, with their status.
func (a *commandAttempt) listAgents() (string, error) {
	page, err := contract.IdentityList.Ask(a.ctx, a.broker, contract.PageParams{})
	if err != nil {
		return "", err
	}
	status := map[string]string{}
	var names []string
	for _, raw := range page.Items {
		e, err := raw.Read()
		if err != nil {
			return "", err
		}
		if status[e.LogicalAgentID] == "" {
			names = append(names, e.LogicalAgentID)
		}
		if status[e.LogicalAgentID] != contract.StatusOnline {
			status[e.LogicalAgentID] = e.Status
		}
	}
	if len(names) == 0 {
		return "No agent has registered with the broker yet.", nil
	}
	result := "Agents you can give work to:"
	for _, name := range names[:min(len(names), maxListed)] {
		result += "\n• @" + name + ", " + status[name]
	}
	return result, nil
}

// maxQuestion is the most characters of a question.
const maxQuestion = 2000

// askQuestion asks an agent or a person. The answer is shown in the chat when it comes.
func (a *commandAttempt) askQuestion() (string, error) {
	who, words := a.cutName(a.Text)
	if who == "" || words == "" {
		return a.usage("/ask @NAME QUESTION asks an agent or a person."), nil
	}
	if n := utf8.RuneCountInString(words); n > maxQuestion { // what is asked is often at the end
		return fmt.Sprintf("Your question has %d characters, and at most %d can be asked. Please shorten it, or send "+
			"it as a message.", n, maxQuestion), nil
	}
	got, err := contract.QuestionAsk.Ask(a.ctx, a.broker, contract.QuestionParams{
		ID:             a.newID("q-"),
		AskedOfID:      who,
		Title:          words,
		ConversationID: a.conversation(),
		Chat:           a.chatParams(),
	})
	if err != nil {
		return "", err
	}
	q := &got.Question
	result := fmt.Sprintf("Asked %s (%s).", a.displayName(a.tx, q.AskedOfID, q.AskedOfIdentity), q.ID)
	if protocol.IsPerson(q.AskedOfIdentity) {
		result += " " + a.answerHint(q.ID)
	}
	if got.Decision != nil && got.Decision.Outcome != contract.OutcomeNobody {
		result += " " + describeWake(got.Decision)
	}
	return result, nil
}

// answerQuestion answers a question, or closes it if the answer is empty.
func (a *commandAttempt) answerQuestion(id, answer string) (string, error) {
	if answer == "" {
		_, err := contract.QuestionClose.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
		return id + " is closed.", err
	}
	got, err := contract.QuestionAnswer.Ask(a.ctx, a.broker, contract.AnswerParams{ID: id, Answer: answer})
	if err != nil {
		return "", err
	}
	return a.describeAnswer(a.tx, &got.Question), nil
}

// finish closes a work item and accepts it if it is in review, or answers a question.
func (a *commandAttempt) finish() (string, error) {
	if id, rest := cutID(a.Text, questionPrefixes); id != "" {
		return a.answerQuestion(id, rest)
	}
	id, rest := cutID(a.Text, workPrefixes)
	if id == "" {
		return a.usage("/done ID closes work; /work lists what is open."), nil
	}
	got, err := contract.WorkGet.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
	if err != nil {
		return "", err
	}
	p := contract.WorkParams{ID: &id, State: contract.WorkDone}
	if got.WorkItem.State == contract.WorkReview {
		p.AcceptanceState = contract.AcceptanceAccepted
		p.RequestedByID = new(string(a.By))
		if requester := got.WorkItem.RequestedByIdentity; requester != "" {
			p.RequestedByID = new(string(requester))
		}
	}
	if rest != "" {
		p.Summary = &rest
	}
	if got.WorkItem.State != contract.WorkDone {
		if got, err = contract.WorkUpdate.Ask(a.ctx, a.broker, p); err != nil {
			return "", err
		}
	}
	return a.describeWork(a.tx, &got.WorkItem), nil
}

// forwardMessage sends a message to the agent that it names first, which is not in the
// chat.
func (a *commandAttempt) forwardMessage() (string, error) {
	local, err := a.namesLocalAgent()
	if local || err != nil {
		return "", err
	}
	got, err := contract.MessagePost.Ask(a.ctx, a.broker, contract.PostParams{
		ID:             a.newID("msg-"),
		ConversationID: a.conversation(),
		Text:           a.Text,
		Surface:        contract.SurfaceHuman,
		FollowUp:       true,
		Chat:           a.chatParams(),
	})
	switch code := contract.Refusal(err); {
	case code == contract.CodeUnknownTarget: // no agent has this name
		return "", nil
	case code == contract.CodeUnavailable:
		return "That agent is offline. It gets your message when it's back.", nil
	case err != nil || got.Wake == nil:
		return "", err
	}
	return "Passed on to @" + got.Wake.TargetAgentID + ", which is not in this chat.", nil
}

// namesLocalAgent reports whether the name that a message begins with means an agent of
// the chat, for example by its role. The chat's agents have received such a message.
func (a *commandAttempt) namesLocalAgent() (bool, error) {
	label, _ := a.cutName(a.Text)
	got, err := contract.IdentityResolve.Ask(a.ctx, a.broker, contract.LabelParams{Label: label})
	meant := []protocol.PeerID{got.Identity.Identity}
	if refused, ok := errors.AsType[*contract.Error](err); ok {
		var details struct {
			Candidates []contract.Option `json:"candidates"`
		}
		if raw, _ := refused.Details.(json.RawMessage); len(raw) > 0 {
			if err := json.Unmarshal(raw, &details); err != nil {
				return false, fmt.Errorf("reading the candidates for %s: %w", label, err)
			}
		}
		err, meant = nil, nil
		for _, c := range details.Candidates {
			meant = append(meant, c.Identity)
		}
	}
	agents := a.router.Agents(a.tx, a.chat)
	return slices.ContainsFunc(agents, func(x Assignment) bool { return slices.Contains(meant, x.Agent) }), err
}
