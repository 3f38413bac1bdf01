package agent

import (
	"context"
	"encoding/json"
	"errors"

	"hubbub/peers/agent/harness"
)

// A workTool is a tool that passes its arguments to a method of the broker.
type workTool struct {
	tool   harness.Tool
	method string
}

const (
	ownerHelp = `{"type":"string","description":"name of the agent or person who is responsible"}`
	moveHelp  = `{"type":"string","description":"name of the agent or person who has the next move"}`
	stateHelp = `{"type":"string","enum":["open","working","waiting","review","done","cancelled"]}`
	waitHelp  = `{"type":"object","properties":{"kind":{"type":"string"},"label":{"type":"string"},"targetId":{"type":"string"}},"required":["kind","label"],
		"description":"what a waiting item waits for"}`
	wakeHelp = `{"type":"boolean","description":"whether the one who then has the next move is woken now"}`
)

// workTable lists the tools that the collaboration broker gives.
var workTable = workRows(
	workTool{harness.Tool{
		Name: "work.list", Title: "List work items", ReadOnly: true, Idempotent: true,
		Description: "List work items, by state, owner or next-move owner.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"state":` + stateHelp + `,"ownerId":` + ownerHelp + `,"nextMoveOwnerId":` + moveHelp + `}}`),
	}, "work_item.list"},
	workTool{harness.Tool{
		Name: "work.show", Title: "Show a work item", ReadOnly: true, Idempotent: true,
		Description: "Show one work item with its state and history.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
	}, "work_item.get"},
	workTool{harness.Tool{
		Name: "work.create", Title: "Create a work item",
		Description: "Create a work item: something durable that has to be done, with an owner and whose move is next. Give an id of your own to make a repeated call safe. Nobody is woken unless wake is true.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},"summary":{"type":"string"},
			"ownerId":` + ownerHelp + `,"nextMoveOwnerId":` + moveHelp + `,"state":` + stateHelp + `,"waitingOn":` + waitHelp + `,
			"requestedById":{"type":"string"},"parentId":{"type":"string"},"conversationId":{"type":"string"},"wake":` + wakeHelp + `},"required":["title","ownerId","nextMoveOwnerId"]}`),
	}, "work_item.create"},
	workTool{harness.Tool{
		Name: "work.update", Title: "Update a work item", Idempotent: true,
		Description: "Change a work item: its state (waiting needs waitingOn), owner, next move, summary. Nobody is woken unless wake is true.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"state":` + stateHelp + `,"title":{"type":"string"},"summary":{"type":"string"},
			"ownerId":` + ownerHelp + `,"nextMoveOwnerId":` + moveHelp + `,"waitingOn":` + waitHelp + `,
			"acceptanceState":{"type":"string","enum":["none","pending","accepted","rejected"]},"requestedById":{"type":"string"},"wake":` + wakeHelp + `},"required":["id"]}`),
	}, "work_item.update"},
	workTool{harness.Tool{
		Name: "work.wake", Title: "Wake who has the next move",
		Description: "Wake the one who has the next move on a work item, if that is needed.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
	}, "work_item.wake"},
	workTool{harness.Tool{
		Name: "ask", Title: "Ask a question",
		Description: "Ask one agent or person a question. It is kept until it is answered, declined or closed; the answer comes to you as an event.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"title":{"type":"string","description":"the question"},
			"askedOfId":{"type":"string","description":"name of the one who is asked"},"conversationId":{"type":"string"}},"required":["title","askedOfId"]}`),
	}, "question.ask"},
)

func workRows(list ...workTool) []toolRow {
	var rows []toolRow
	for _, w := range list {
		rows = append(rows, toolRow{tool: w.tool, call: func(b *toolbox, ctx context.Context, arguments json.RawMessage) harness.Result {
			return b.callBroker(ctx, w.method, arguments)
		}})
	}
	return rows
}

// callBroker passes a call on to the broker, whose refusals say what to do.
func (b *toolbox) callBroker(ctx context.Context, method string, arguments json.RawMessage) harness.Result {
	var params map[string]json.RawMessage
	if problem := decode(arguments, &params); problem != "" {
		return harness.Refused(problem, nil)
	}
	var result json.RawMessage
	err := b.a.askBroker(ctx, method, params, &result)
	var refused *brokerError
	switch {
	case errors.As(err, &refused):
		return harness.Refused(refused.Message, map[string]any{"error": map[string]any{
			"code": refused.Code, "message": refused.Message, "details": refused.Details,
		}})
	case err != nil:
		return harness.Refused("The collaboration broker could not be asked: "+err.Error()+". Try again later.", nil)
	case len(result) == 0:
		result = json.RawMessage("{}")
	}
	if method == "question.ask" {
		if err := b.noteQuestion(ctx, result); err != nil {
			b.a.opts.Log.Warn().Err(err).Msg("where a question was asked cannot be stored; its answer comes in no chat")
		}
	}
	return harness.Result{Content: []harness.Content{{Type: "text", Text: string(result)}}, StructuredContent: result}
}
