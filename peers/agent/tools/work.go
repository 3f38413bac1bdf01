package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/protocol/collab"
)

type (
	workListArguments struct {
		State           collab.WorkState `json:"state,omitempty"`
		OwnerID         ownerName        `json:"ownerId,omitempty"`
		NextMoveOwnerID nextMoveName     `json:"nextMoveOwnerId,omitempty"`
	}
	workCreateArguments struct {
		ID              string           `json:"id,omitempty"`
		Title           string           `json:"title"`
		Summary         string           `json:"summary,omitempty"`
		OwnerID         ownerName        `json:"ownerId"`
		NextMoveOwnerID nextMoveName     `json:"nextMoveOwnerId"`
		State           collab.WorkState `json:"state,omitempty"`
		WaitingOn       *waitingOn       `json:"waitingOn,omitempty" jsonschema:"what a waiting item waits for"`
		RequestedByID   string           `json:"requestedById,omitempty"`
		ParentID        string           `json:"parentId,omitempty" jsonschema:"work or question from which it follows"`
		ConversationID  string           `json:"conversationId,omitempty"`
		Wake            wakeNow          `json:"wake,omitempty"`
	}
	workUpdateArguments struct {
		ID              string            `json:"id"`
		State           collab.WorkState  `json:"state,omitempty"`
		Title           string            `json:"title,omitempty"`
		Summary         string            `json:"summary,omitempty"`
		OwnerID         ownerName         `json:"ownerId,omitempty"`
		NextMoveOwnerID nextMoveName      `json:"nextMoveOwnerId,omitempty"`
		WaitingOn       *waitingOn        `json:"waitingOn,omitempty" jsonschema:"what a waiting item waits for"`
		AcceptanceState collab.Acceptance `json:"acceptanceState,omitempty"`
		RequestedByID   string            `json:"requestedById,omitempty"`
		Wake            wakeNow           `json:"wake,omitempty"`
	}
	waitingOn struct {
		Kind     string `json:"kind"`
		Label    string `json:"label"`
		TargetID string `json:"targetId,omitempty"`
	}
)

// workTools lists the tools of the collaboration broker.
var workTools = []entry{
	{harness.Tool{
		Name: "work.list", Title: "List work items", ReadOnly: true, Idempotent: true,
		Description: "List work items, by state, owner or next-move owner.",
	}, schemaOf[workListArguments](), forward(collab.WorkList.Name)},
	{harness.Tool{
		Name: "work.show", Title: "Show a work item", ReadOnly: true, Idempotent: true,
		Description: "Show one work item with its state and history.",
	}, schemaOf[collab.IDParams](), forward(collab.WorkGet.Name)},
	{harness.Tool{
		Name: "work.create", Title: "Create a work item",
		Description: "Create a work item: a task with an owner and somebody who has the next move. Give your own id " +
			"to make a repeated call safe. Nobody is woken unless wake is true.",
	}, schemaOf[workCreateArguments](), forwardWork(collab.WorkCreate.Name)},
	{harness.Tool{
		Name: "work.update", Title: "Update a work item", Idempotent: true,
		Description: "Change a work item: its state (waiting needs waitingOn), owner, next move, summary. Nobody is " +
			"woken unless wake is true.",
	}, schemaOf[workUpdateArguments](), forwardWork(collab.WorkUpdate.Name)},
	{harness.Tool{
		Name: "work.wake", Title: "Wake the next-move owner",
		Description: "Wake the person or agent who has the next move on a work item, if needed.",
	}, schemaOf[collab.IDParams](), forward(collab.WorkWake.Name)},
	entryFor(harness.Tool{
		Name: "ask", Title: "Ask a question",
		Description: "Ask one agent or person a question. It is kept until it is answered, declined or closed; the " +
			"answer comes to you as an event. " +
			"A person who writes in this chat, or to you directly, is asked there: name them as in the header of " +
			"their message (human:77) or by user name.",
	}, (*Toolset).ask, reflect.TypeFor[principal]()),
	entryFor(harness.Tool{
		Name: "owe", Title: "List own obligations", ReadOnly: true, Idempotent: true,
		Description: "List what you, or the named person or agent, owe others: who waits for an answer, a next move " +
			"or a decision, and since when.",
	}, (*Toolset).owe),
	entryFor(harness.Tool{
		Name: "blocking", Title: "List obligations of others", ReadOnly: true, Idempotent: true,
		Description: "List what others owe you, or the named person or agent, and since when.",
	}, (*Toolset).blocking),
}

// oweArguments name the person or agent whose obligations are listed.
type oweArguments struct {
	Who partyName `json:"who,omitempty"` // empty for the agent itself
}

func (b *Toolset) owe(ctx context.Context, args *oweArguments) harness.Result {
	return b.callBroker(ctx, collab.ObligationList.Name,
		collab.ObligationListParams{OwedByID: cmp.Or(string(args.Who), b.provider.Self.ID)})
}

func (b *Toolset) blocking(ctx context.Context, args *oweArguments) harness.Result {
	return b.callBroker(ctx, collab.ObligationList.Name,
		collab.ObligationListParams{OwedToID: cmp.Or(string(args.Who), b.provider.Self.ID)})
}

// forward returns a toolFunc that forwards calls to a method of the broker.
func forward(method string) toolFunc {
	return decoding(func(b *Toolset, ctx context.Context, params *map[string]json.RawMessage) harness.Result {
		return b.callBroker(ctx, method, *params)
	})
}

// callBroker calls a method of the broker. The broker's refusals explain what to do.
func (b *Toolset) callBroker(ctx context.Context, method string, params any) harness.Result {
	result, err := b.provider.Broker.Call(ctx, method, params)
	var refused *collab.Error
	switch {
	case errors.As(err, &refused):
		return harness.ErrorResult(refused.Message, map[string]any{"error": map[string]any{
			"code": refused.Code, "message": refused.Message, "details": refused.Details,
		}})
	case err != nil:
		return harness.ErrorResult("The collaboration broker could not be reached: "+err.Error()+". Try again later.",
			nil)
	case len(result) == 0:
		result = json.RawMessage("{}")
	}
	return harness.Result{Content: []harness.Content{{Type: "text", Text: string(result)}}, StructuredContent: result}
}

// startExchange returns the person whose event made the turn contact others through the broker,
// or "". With a person, the agents' messages form a new exchange.
func (b *Toolset) startExchange(ctx context.Context) (who string) {
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		if e := b.turnEvent(&tx.View); e != nil {
			if who = e.OnBehalfOf(); who != "" {
				mailbox.StartExchange(tx)
			}
		}
	})
	if err != nil {
		b.provider.Log.Warn().Err(err).Msg("the person for whom a turn asks could not be stored")
	}
	return who
}

// forwardWork is like forward, and adds the person for whom the work is done.
func forwardWork(method string) toolFunc {
	return decoding(func(b *Toolset, ctx context.Context, params *map[string]json.RawMessage) harness.Result {
		if who, err := json.Marshal(b.startExchange(ctx)); *params != nil && err == nil {
			(*params)["onBehalfOf"] = who
		}
		return b.callBroker(ctx, method, *params)
	})
}

type askArguments struct {
	ID             string `json:"id,omitempty"`
	Title          string `json:"title" jsonschema:"the question"`
	AskedOfID      string `json:"askedOfId" jsonschema:"name of the one who is asked"`
	ConversationID string `json:"conversationId,omitempty"`
	principal
}

// A principal is the person for whom the agent acts. The agent sets it, not the model.
type principal struct {
	OnBehalfOf string `json:"onBehalfOf,omitempty"`
}

// ask asks an agent or a person a question through the broker. A person is shown the question in
// their chat.
func (b *Toolset) ask(ctx context.Context, args *askArguments) harness.Result {
	v := b.provider.Mailbox.View(ctx)
	event := ""
	if t := b.callingTurn(v); t != nil {
		event = t.EventID
	}
	there := v.FindPerson(args.AskedOfID, b.chat)
	many := there != nil && v.Questions(event) >= mailbox.MaxQuestions
	if v.Err() != nil {
		return storageError(v.Err())
	}
	if there != nil && b.isAgent(ctx, args.AskedOfID) {
		there = nil
	}
	if there != nil {
		args.Title = strings.TrimSpace(VisibleText(args.Title))
		switch {
		case args.Title == "":
			return harness.ErrorResult("title is empty, or nothing in it is for people.", nil)
		case len(args.Title) > maxQuestion:
			return harness.ErrorResult(fmt.Sprintf("title has %d bytes; at most %d are shown to a person. Shorten it.",
				len(args.Title), maxQuestion), nil)
		case many:
			return harness.ErrorResult(fmt.Sprintf("%d questions were asked for this event. Wait for their answers.",
				mailbox.MaxQuestions), nil)
		}
		args.AskedOfID = there.PersonIdentity()
		if args.ID == "" && event != "" { // a repeated turn asks the same question again
			sum := sha256.Sum256([]byte(strings.Join([]string{string(b.chat), event, args.AskedOfID, args.Title},
				"\x00")))
			args.ID = "q_" + hex.EncodeToString(sum[:10])
		}
	}
	args.OnBehalfOf = b.startExchange(ctx)
	result := b.callBroker(ctx, collab.QuestionAsk.Name, args)
	if !result.IsError {
		b.recordQuestion(ctx, result.StructuredContent, event, there)
	}
	return result
}

// isAgent reports whether the broker knows an agent by this name.
func (b *Toolset) isAgent(ctx context.Context, name string) bool {
	if strings.Contains(name, ":") {
		return false
	}
	got, err := collab.IdentityResolve.Ask(ctx, b.provider.Broker,
		collab.LabelParams{Label: "@" + strings.TrimPrefix(name, "@")})
	return err == nil && got.Identity.AgentIdentity != ""
}

// recordQuestion stores where a question was asked, and shows it to the person who is asked. If
// that fails, the answer will reach no chat.
func (b *Toolset) recordQuestion(ctx context.Context, result json.RawMessage, event string, there *mailbox.Entry) {
	var asked collab.Result
	if json.Unmarshal(result, &asked) != nil || asked.Question.ID == "" {
		return
	}
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		tx.RecordQuestion(asked.Question.ID, b.chat, event)
		if there != nil && asked.Question.State == collab.QuestionOpen {
			tx.ShowQuestion(asked.Question.ID, there, asked.Question.Title)
		}
	})
	if err != nil {
		b.provider.Log.Warn().Err(err).Str("question",
			asked.Question.ID).Msg("question not stored; its answer will reach no chat")
	}
}
