package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// maxDefaultAction bounds the default action of an obligation, in bytes.
const maxDefaultAction = 500

var dischargeTool = harness.Tool{
	Name:  "chat.discharge",
	Title: "Close an obligation",
	Description: "Close an obligation whose author or delegate you are: it no longer returns to the recipient. " +
		"You cannot close what others wait for from you: answer it instead. owe and blocking list open obligations.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"status":{"type":"string","enum":["discharged","refused"]},"reason":{"type":"string"}},"required":["status"]}`),
	Idempotent:   true,
}

// obligationTools are the chat tools for drafts with obligations: messages can create
// obligations, and the agent can close its own.
var obligationTools = func() (list []entry) {
	for _, r := range chatTools {
		if r.tool.Name == sendMessageTool.Name {
			r.schema = schemaOf[sendArguments]()
		}
		list = append(list, r)
		if r.tool.Name == claimTool.Name {
			list = append(list, entryFor(dischargeTool, (*Toolset).discharge))
		}
	}
	return list
}()

type dischargeArguments struct {
	EventID   string `json:"eventId" jsonschema:"of the message that obliges"`
	Recipient string `json:"recipient" jsonschema:"identity of the one whose obligation it is, such as agent:worker"`
}

// discharge closes an obligation that the agent waits for, here and at the broker, whose log is
// authoritative.
func (b *Toolset) discharge(ctx context.Context, args *dischargeArguments) harness.Result {
	refused := func(advice, reason string) harness.Result {
		return harness.ErrorResult(advice, result{Status: "refused", Reason: reason})
	}
	switch {
	case args.EventID == "" || args.Recipient == "" || len(args.EventID)+len(args.Recipient) > 2*maxID:
		return refused("Name the eventId and the recipient of the obligation. blocking lists them.", "invalid")
	}
	known, problem := false, ""
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		t := &attempt{Tx: tx}
		if b.bindTurn(t); t.refusal.Refused() {
			known, problem = true, t.refusal.Advice
			return
		}
		if known, problem = obligations.Discharge(tx, args.EventID, args.Recipient); problem != "" && known {
			tx.RecordRefusal(t.event, args.EventID, dischargeTool.Name, "not_discharged")
		}
	})
	if err != nil {
		return storageError(err)
	}
	b.provider.Failpoint("acted")
	if !known && b.provider.Broker.Known() { // this agent may be the delegate
		got := b.callBroker(ctx, collab.ObligationDischarge.Name,
			collab.DischargeParams{EventID: args.EventID, Recipient: protocol.IdentityOf(args.Recipient)})
		if got.IsError {
			return got
		}
		problem = ""
	}
	if problem != "" {
		return refused(problem, "not_discharged")
	}
	return harness.StructuredResult(result{Status: "discharged"})
}

// obligationArguments are the arguments that make a message obligating.
type obligationArguments struct {
	Recipients []string `json:"recipients,omitempty" jsonschema:"with obligation: whom you wait for, one identity such as agent:worker or tg:77; default: whose event you answer"`
	Obligation *struct {
		Blocks            attention.Blocks `json:"blocks" jsonschema:"how you fare meanwhile"`
		DefaultAction     string           `json:"defaultAction,omitempty" jsonschema:"what you do without an answer"`
		DischargeDelegate string           `json:"dischargeDelegate,omitempty" jsonschema:"who may close it in your place; default: your lead"`
	} `json:"obligation,omitempty" jsonschema:"only if you wait for an answer: it comes back to the recipient until you close it with chat.discharge"`
}

// check returns a problem with the arguments, or "".
func (o *obligationArguments) check(interim bool) string {
	switch {
	case o.Obligation == nil:
		return ""
	case interim:
		return "an interim message cannot have an obligation."
	case !slices.Contains(attention.AllBlocks, o.Obligation.Blocks):
		return "obligation.blocks must be one of halted, degraded, none."
	case len(o.Obligation.DefaultAction) > maxDefaultAction:
		return fmt.Sprintf("obligation.defaultAction has %d bytes; at most %d are taken.",
			len(o.Obligation.DefaultAction), maxDefaultAction)
	case len(o.Recipients) > 1:
		return "a message can oblige one recipient only. Send a separate message to each."
	case len(o.Recipients) == 1 && (o.Recipients[0] == "" || len(o.Recipients[0]) > maxID ||
		!text.IsCleanName(o.Recipients[0])), len(o.Obligation.DischargeDelegate) > maxID:
		return "a recipient or delegate has an id that is empty or too long."
	}
	return ""
}

// apply adds the obligation to a message and returns its recipient, or "" if there is none.
func (o *obligationArguments) apply(t *attempt, reply *protocol.ChatReply) (recipient string) {
	given := o.Obligation
	if given == nil {
		return ""
	}
	if !obligations.Enabled(&t.View) {
		t.refuse(noObligations)
		return ""
	}
	if recipient = t.event.AuthorIdentity(); len(o.Recipients) == 1 {
		recipient = o.Recipients[0]
	}
	recipient = identity(recipient, t.event)
	if protocol.RoleOf(protocol.PeerID(recipient)) == protocol.RoleUnknown || recipient == string(t.Self()) {
		t.refuse(noRecipient)
		return ""
	}
	kind := attention.AuthorHuman
	if strings.HasPrefix(recipient, "agent:") {
		if kind = attention.AuthorAgent; t.event.FromAgent() &&
			t.Exchange(t.event).Next(time.Now()) != attention.ExchangeAllow {
			t.refuse(exchangeHeld)
			return ""
		}
	}
	reply.Recipients = []protocol.Party{{ID: recipient, Kind: string(kind)}}
	reply.Directedness = string(attention.DirectedToMe)
	reply.Obligation = &protocol.Obligation{Blocks: string(given.Blocks), DefaultAction: given.DefaultAction}
	delegate := given.DischargeDelegate
	if delegate == "" {
		delegate = obligations.Coordinator(&t.View)
	}
	if delegate = identity(delegate, t.event); delegate != "" && delegate != recipient {
		reply.Obligation.DischargeDelegate = &protocol.Party{ID: delegate}
	}
	return recipient
}

// identity returns the identity that a model means. A bare name is an agent's, and "human:77" is
// a person of the chat.
func identity(name string, e *mailbox.Entry) string {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	family, id, typed := strings.Cut(name, ":")
	switch {
	case name == "":
		return ""
	case !typed:
		return "agent:" + name
	case family == string(attention.AuthorHuman):
		return protocol.PeerID(e.Chat).Family() + ":" + id
	}
	return name
}

var (
	noObligations = attention.Refusal{
		Reason: "no_obligations",
		Advice: "Obligations need C2A 2026-08-11, but this agent runs an earlier draft. Leave obligation out.",
	}
	exchangeHeld = attention.Refusal{
		Reason: "exchange_held",
		Advice: "Agents have exchanged many messages here without a person, so they cannot oblige each other until a " +
			"person writes. Send your answer without an obligation.",
	}
	noRecipient = attention.Refusal{
		Reason: "no_recipient",
		Advice: "Name one recipient by identity, such as agent:worker or tg:77. You cannot oblige yourself.",
	}
)
