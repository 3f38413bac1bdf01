package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/collab"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	contract "hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A CommandAdapter is a host whose chats people use to give out work. Options.Desk has it.
type CommandAdapter interface {
	// Post shows a text of the surface's own in a chat, once per key.
	Post(tx *store.Tx, chat protocol.PeerID, place, key, text string)
	// Person returns the identity of the person that a name means in chats, or "".
	Person(tx *store.Tx, name string) protocol.PeerID
	// DisplayName returns what people call a person, or "".
	DisplayName(tx *store.Tx, person protocol.PeerID) string
}

// An Command is what a person wants of the broker, as they said it in a chat.
type Command struct {
	Verb   string          `json:"verb"` // VerbWork and so on
	Text   string          `json:"text,omitempty"`
	By     protocol.PeerID `json:"by"`              // the person
	Thread string          `json:"place,omitempty"` // the thread, as the host tells them apart
	Kind   string          `json:"kind"`            // of the conversation: dm, group or thread
	Title  string          `json:"title,omitempty"`
	Key    string          `json:"key"` // of the message: repeated attempts make nothing twice
}

// The orders.
const (
	VerbWork = "work" // list, show, make or assign work
	VerbWho  = "who"
	VerbAsk  = "ask"
	VerbDone = "done"
	VerbSay  = "say" // a message that begins with the name of an agent that is not in the chat
)

// ParseCommand returns which order a text is, and what it says behind the command; "" if it is none.
func ParseCommand(said string) (verb, rest string) {
	command, rest, _ := strings.Cut(strings.Replace(strings.TrimSpace(said), "\n", " ", 1), " ")
	verb, found := strings.CutPrefix(command, "/")
	if verb = strings.ToLower(verb); !found || commands[verb] == nil || verb == VerbSay {
		return "", ""
	}
	return verb, strings.TrimSpace(rest)
}

// maxCommandAge is how long a broker that does not answer is asked to carry out an order.
const maxCommandAge = 10 * time.Minute

// EnqueueCommand queues what a person wants, in the transaction that stores what they said.
func (r *Router) EnqueueCommand(tx *store.Tx, chat protocol.PeerID, c *Command) {
	body, err := json.Marshal(c)
	tx.Fail(err)
	_, err = r.commands.EnqueueTx(tx, string(chat), c.Key, body)
	tx.Fail(err)
}

// A commandRunner carries out a surface's orders, and tells chats what came of them.
type commandRunner struct{ *Router }

// An commandAttempt is one attempt at an order.
type commandAttempt struct {
	*Command
	runner     commandRunner
	ctx        context.Context
	chat       protocol.PeerID
	broker     *collab.Client // asks as the person
	firstAgent protocol.PeerID
}

// commands says how each order is carried out; what it returns is shown in the chat.
var commands = map[string]func(*commandAttempt) (string, error){
	VerbWork: (*commandAttempt).work, VerbWho: (*commandAttempt).listAgents, VerbAsk: (*commandAttempt).askQuestion, VerbDone: (*commandAttempt).finish, VerbSay: (*commandAttempt).forwardMessage,
}

// run makes one attempt at an order, and shows its result.
func (r commandRunner) run(ctx context.Context, it outbox.Item) error {
	c := new(Command)
	if err := json.Unmarshal(it.Body, c); err != nil {
		return outbox.Permanent(fmt.Errorf("reading a stored order: %w", err))
	}
	a := &commandAttempt{Command: c, runner: r, ctx: ctx, chat: protocol.PeerID(it.Destination), broker: r.broker.As(c.By)}
	tx := store.On(ctx, r.db)
	if agents := r.Agents(tx, a.chat); len(agents) > 0 {
		a.firstAgent = agents[0].Agent
	}
	execute := commands[c.Verb]
	if execute == nil || tx.Err() != nil {
		return errors.Join(outbox.Permanent(fmt.Errorf("there is no order %q", c.Verb)), tx.Err())
	}
	err := a.ensureConversation()
	reply := ""
	if err == nil {
		reply, err = execute(a)
	}
	var refused *contract.Error
	switch {
	case errors.Is(err, contract.ErrNoBroker) && c.Verb != VerbSay:
		reply = "Work is kept by the collaboration broker, and none is running here."
	case errors.Is(err, contract.ErrNoBroker): // the chat's own agents have the message
	case errors.As(err, &refused):
		reply = "That was refused: " + refused.Message + "."
	case err != nil:
		return outbox.Retry(0, err)
	}
	return store.InTx(ctx, r.db, func(tx *store.Tx) { r.post(tx, a.chat, c.Thread, "order:"+c.Key, reply) })
}

// post shows a text in a chat that may still be written to.
func (r commandRunner) post(tx *store.Tx, chat protocol.PeerID, place, key, said string) {
	if _, refusal := r.adapter.FindChat(tx, chat.Topic()); said != "" && refusal == "" {
		r.opts.Commands.Post(tx, chat, place, key, said)
	}
}

// onSettled tells a chat that its order was not carried out.
func (r commandRunner) onSettled(tx *store.Tx, it outbox.Item, outcome outbox.State, cause error) {
	var o Command
	if outcome == outbox.StateSent || json.Unmarshal(it.Body, &o) != nil || o.Verb == VerbSay {
		return
	}
	r.log.Warn().Err(cause).Str("topic", it.Destination).Str("order", o.Verb).Msg("order of a chat not carried out")
	r.post(tx, protocol.PeerID(it.Destination), o.Thread, "order:"+o.Key, "That could not be done: the collaboration broker did not answer in time.")
}

// conversation returns the id of the chat's conversation, which says where it is.
func (a *commandAttempt) conversation() string {
	if a.Thread == "" {
		return string(a.chat)
	}
	return string(a.chat) + "/" + a.Thread
}

// ensureConversation makes the chat's conversation, unless it is there, and binds the chat to its first agent,
// who answers for it.
func (a *commandAttempt) ensureConversation() error {
	id, chat := a.conversation(), a.runner.broker.As(a.chat) // by whom it was made, the broker knows where it is shown
	_, err := contract.ConversationGet.Ask(a.ctx, a.broker, contract.ConversationGetParams{IDParams: contract.IDParams{ID: id}, PageParams: contract.PageParams{Limit: 1}})
	if contract.Refusal(err) == contract.CodeNotFound {
		_, err = contract.ConversationCreate.Ask(a.ctx, chat, contract.ConversationParams{ID: &id, Kind: a.Kind, Title: a.Title, MasterID: string(a.firstAgent)})
	}
	if err != nil || a.firstAgent == "" {
		return err
	}
	p := contract.BindingParams{Surface: string(protocol.RoleOf(a.chat)), ExternalID: string(a.chat)}
	got, err := contract.BindingGet.Ask(a.ctx, chat, p)
	if contract.Refusal(err) != contract.CodeNotFound && (err != nil || got.Binding.Identity == a.firstAgent && got.Binding.SetByIdentity == a.chat) {
		return err
	}
	p.AgentID = string(a.firstAgent)
	_, err = contract.BindingSet.Ask(a.ctx, chat, p)
	return err
}

// newID makes the id of what an order makes, short enough to be typed.
func (a *commandAttempt) newID(prefix string) *string {
	sum := sha256.Sum256([]byte(string(a.chat) + " " + a.Key))
	return new(prefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5])))
}

// workPrefixes begin the ids of work: of what chats make, and of what the broker names.
var workPrefixes = []string{"wi-", "wi_"}

// questionPrefixes are the same of questions.
var questionPrefixes = []string{"q-", "q_", "rung_"}

// cutID takes an id from the beginning of a text: one of a work item, if its prefixes are those.
func cutID(s string, prefixes []string) (id, rest string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	for _, prefix := range prefixes {
		if len(word) > len(prefix) && strings.HasPrefix(strings.ToLower(word), prefix) {
			return word, strings.TrimSpace(rest)
		}
	}
	return "", strings.TrimSpace(s)
}

// cutName takes the mention from the beginning of a text, as what the broker understands.
func (a *commandAttempt) cutName(s string) (who, rest string) {
	labels := attention.Labels(s)
	if attention.CountLeading(s, labels) == 0 {
		return "", s
	}
	l := labels[0]
	if person := a.runner.opts.Commands.Person(store.On(a.ctx, a.runner.db), s[l.From+1:l.NameEnd]); person != "" && l.NameEnd == l.To {
		return string(person), attention.TextAfterLabel(s, l)
	}
	return s[l.From:l.To], attention.TextAfterLabel(s, l)
}

const workUsage = "/work @NAME TITLE gives out work, /work lists it, /work ID shows it, /work ID @NAME gives it to somebody, /done ID closes it."

// work lists, shows, makes or assigns work.
func (a *commandAttempt) work() (string, error) {
	id, rest := cutID(a.Text, workPrefixes)
	who, words := a.cutName(rest)
	switch {
	case a.Text == "", strings.EqualFold(a.Text, "list"):
		return a.listWork()
	case id != "" && rest == "":
		return a.showWork(id)
	case id != "" && who == "", id == "" && words == "":
		return workUsage, nil
	case id != "":
		return a.assignWork(id, who, words)
	}
	if who == "" {
		who = string(a.firstAgent)
	}
	if who == "" {
		who = string(a.By)
	}
	made, err := contract.WorkCreate.Ask(a.ctx, a.broker, contract.WorkParams{
		ID: a.newID("wi-"), Title: new(text.Clip(words, 300)), OwnerID: &who, NextMoveOwnerID: &who,
		RequestedByID: new(string(a.By)), ConversationID: new(a.conversation()),
	})
	if err != nil {
		return "", err
	}
	return a.startWork(&made.WorkItem, words)
}

// assignWork gives a work item to somebody; what was in review goes back with what is said, and what
// had ended is taken up again.
func (a *commandAttempt) assignWork(id, who, words string) (string, error) {
	got, err := contract.WorkGet.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
	if err != nil {
		return "", err
	}
	p := contract.WorkParams{ID: &id, OwnerID: &who, NextMoveOwnerID: &who}
	if words != "" {
		p.Summary = &words
	}
	switch {
	case got.WorkItem.State == contract.WorkReview:
		p.State, p.AcceptanceState = contract.WorkWorking, contract.AcceptanceRejected
	case got.WorkItem.Terminal():
		p.State, p.AcceptanceState = contract.WorkOpen, contract.AcceptanceNone
	}
	got, err = contract.WorkUpdate.Ask(a.ctx, a.broker, p)
	if err != nil {
		return "", err
	}
	if words == "" {
		words = got.WorkItem.Title
	}
	return a.startWork(&got.WorkItem, words)
}

// startWork has the agent that owns a work item begin with it, and says what it is and who
// was woken.
func (a *commandAttempt) startWork(w *contract.WorkItem, words string) (string, error) {
	said := a.runner.describeWork(store.On(a.ctx, a.runner.db), w)
	if protocol.RoleOf(w.OwnerIdentity) != protocol.RoleAgent {
		return said, nil
	}
	_, err := contract.InvocationCreate.Ask(a.ctx, a.broker, contract.InvocationParams{
		ID: a.newID("inv-"), TargetAgentID: string(w.OwnerIdentity), ConversationID: a.conversation(), WorkItemID: w.ID, Text: words,
	})
	if contract.Refusal(err) == contract.CodeUnknownTarget { // it has not announced itself yet: it is woken when it does
		_, err = contract.WorkWake.Ask(a.ctx, a.broker, contract.IDParams{ID: w.ID})
	}
	if code := contract.Refusal(err); err != nil && code != contract.CodeUnavailable {
		return "", err
	}
	why, err := contract.WakeExplain.Ask(a.ctx, a.broker, contract.ExplainParams{WorkItemID: w.ID})
	if err != nil {
		return "", err
	}
	return said + "\n" + describeWake(&why.Decision), nil
}

// describeWake says who was woken, and why.
func describeWake(d *contract.Decision) string {
	switch d.Outcome {
	case contract.OutcomeWoken:
		return "@" + d.TargetAgentID + " was woken (" + d.Reason + ")."
	case contract.OutcomeUnavailable, contract.OutcomeMissed:
		return "@" + d.TargetAgentID + " is not there, and is told when it comes (" + d.Reason + ")."
	}
	return "Nobody was woken: " + d.Reason + "."
}

// describeWork says what a work item is and how it stands, in one line.
func (r commandRunner) describeWork(tx *store.Tx, w *contract.WorkItem) string {
	said := fmt.Sprintf("%s: %s. %s, owner %s", w.ID, strings.TrimRight(w.Title, "."), w.State, r.displayName(tx, w.OwnerID, w.OwnerIdentity))
	if on := w.WaitingOn; on != nil {
		said += ", waits for " + on.Label
	}
	if !w.Terminal() && w.NextMoveOwnerIdentity != w.OwnerIdentity {
		said += ", next move " + r.displayName(tx, w.NextMoveOwnerID, w.NextMoveOwnerIdentity)
	}
	return said + "."
}

// displayName returns what people in chats call somebody in a record.
func (r commandRunner) displayName(tx *store.Tx, name string, id protocol.PeerID) string {
	if protocol.IsPerson(id) {
		if said := r.opts.Commands.DisplayName(tx, id); said != "" {
			return said
		}
		return string(id)
	}
	return "@" + name
}

// maxListed bounds what an order lists.
const maxListed = 20

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
				lines = append(lines, "• "+a.runner.describeWork(store.On(a.ctx, a.runner.db), &w))
			}
		}
		if page.Next == nil || len(lines) >= maxListed {
			break
		}
		page, err = contract.WorkList.Ask(a.ctx, a.broker, contract.WorkListParams{PageParams: contract.PageParams{After: *page.Next}})
	}
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return "No work is open here. " + workUsage, nil
	}
	return strings.Join(lines[:min(len(lines), maxListed)], "\n"), nil
}

func (a *commandAttempt) showWork(id string) (string, error) {
	got, err := contract.WorkGet.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
	if err != nil {
		return "", err
	}
	said := a.runner.describeWork(store.On(a.ctx, a.runner.db), &got.WorkItem)
	if got.WorkItem.Summary != "" {
		said += "\n" + got.WorkItem.Summary
	}
	why, err := contract.WakeExplain.Ask(a.ctx, a.broker, contract.ExplainParams{WorkItemID: id})
	if contract.Refusal(err) == contract.CodeNotFound {
		return said, nil
	}
	return said + "\n" + describeWake(&why.Decision), err
}

// listAgents lists the agents that the broker knows, and who can be woken.
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
		return "No agent has announced itself to the broker.", nil
	}
	said := "Agents that can be given work:"
	for _, name := range names[:min(len(names), maxListed)] {
		said += "\n• @" + name + ", " + status[name]
	}
	return said, nil
}

// askQuestion asks an agent or a person; the answer is shown in the chat.
func (a *commandAttempt) askQuestion() (string, error) {
	who, words := a.cutName(a.Text)
	if who == "" || words == "" {
		return "/ask @NAME QUESTION asks an agent or a person.", nil
	}
	got, err := contract.QuestionAsk.Ask(a.ctx, a.broker, contract.QuestionParams{
		ID: a.newID("q-"), AskedOfID: who, Title: text.Clip(words, 2000), ConversationID: a.conversation(),
	})
	if err != nil {
		return "", err
	}
	said := "Asked " + a.runner.displayName(store.On(a.ctx, a.runner.db), got.Question.AskedOfID, got.Question.AskedOfIdentity) + " (" + got.Question.ID + ")."
	if protocol.IsPerson(got.Question.AskedOfIdentity) {
		said += " " + answerHint(got.Question.ID)
	}
	if got.Decision != nil && got.Decision.Outcome != contract.OutcomeNobody {
		said += " " + describeWake(got.Decision)
	}
	return said, nil
}

// answerHint says how people answer a question in a chat.
func answerHint(id string) string { return "/done " + id + " ANSWER answers it." }

// answerQuestion answers a question, or closes it if nothing is said.
func (a *commandAttempt) answerQuestion(id, said string) (string, error) {
	if said == "" {
		_, err := contract.QuestionClose.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
		return id + " is closed.", err
	}
	got, err := contract.QuestionAnswer.Ask(a.ctx, a.broker, contract.AnswerParams{ID: id, Answer: said})
	if err != nil {
		return "", err
	}
	return a.runner.describeAnswer(store.On(a.ctx, a.runner.db), &got.Question), nil
}

// finish closes a work item, and accepts it if it is in review; or it answers a question.
func (a *commandAttempt) finish() (string, error) {
	if id, rest := cutID(a.Text, questionPrefixes); id != "" {
		return a.answerQuestion(id, rest)
	}
	id, rest := cutID(a.Text, workPrefixes)
	if id == "" {
		return "/done ID closes work; /work lists what is open.", nil
	}
	got, err := contract.WorkGet.Ask(a.ctx, a.broker, contract.IDParams{ID: id})
	if err != nil {
		return "", err
	}
	p := contract.WorkParams{ID: &id, State: contract.WorkDone}
	if got.WorkItem.State == contract.WorkReview {
		p.AcceptanceState, p.RequestedByID = contract.AcceptanceAccepted, new(string(a.By))
		if asked := got.WorkItem.RequestedByIdentity; asked != "" {
			p.RequestedByID = new(string(asked))
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
	return a.runner.describeWork(store.On(a.ctx, a.runner.db), &got.WorkItem), nil
}

// forwardMessage brings a message to the agent that it names first, which is not in the chat.
func (a *commandAttempt) forwardMessage() (string, error) {
	here, err := a.namesLocalAgent()
	if here || err != nil {
		return "", err
	}
	got, err := contract.MessagePost.Ask(a.ctx, a.broker, contract.PostParams{
		ID: a.newID("msg-"), ConversationID: a.conversation(), Text: a.Text, Surface: contract.SurfaceHuman, FollowUp: true,
	})
	switch code := contract.Refusal(err); {
	case code == contract.CodeUnknownTarget: // the name of somebody elsewhere
		return "", nil
	case code == contract.CodeUnavailable:
		return "That agent is not there; it is told when it comes.", nil
	case err != nil || got.Wake == nil:
		return "", err
	}
	return "Passed on to @" + got.Wake.TargetAgentID + ", which is not in this chat.", nil
}

// namesLocalAgent reports whether the name that a message begins with is that of an agent of the
// chat, as a role of it may be: then the chat's agents have the message, and decide.
func (a *commandAttempt) namesLocalAgent() (bool, error) {
	label, _ := a.cutName(a.Text)
	got, err := contract.IdentityResolve.Ask(a.ctx, a.broker, contract.LabelParams{Label: label})
	meant := []protocol.PeerID{got.Identity.Identity}
	if refused, ok := errors.AsType[*contract.Error](err); ok {
		var may struct {
			Candidates []contract.Option `json:"candidates"`
		}
		raw, _ := refused.Details.(json.RawMessage)
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &may); err != nil {
				return false, fmt.Errorf("reading whom the broker took %s for: %w", label, err)
			}
		}
		err, meant = nil, nil
		for _, c := range may.Candidates {
			meant = append(meant, c.Identity)
		}
	}
	agents := a.runner.Agents(store.On(a.ctx, a.runner.db), a.chat)
	return slices.ContainsFunc(agents, func(a Assignment) bool { return slices.Contains(meant, a.Agent) }), err
}
