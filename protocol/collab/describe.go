package collab

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// An Entry describes one method to the authors of peers in other languages.
type Entry struct {
	Name   string
	Does   string
	Needs  []string // the required params; all others are optional
	Repeat bool     // it reads the current state: a repeated request runs again
	params reflect.Type
	result reflect.Type
}

func entry[P, R any](m Method[P, R], needs, does string) Entry {
	does, again := strings.CutPrefix(does, "*")
	return Entry{m.Name, does, strings.Fields(needs), again, reflect.TypeFor[P](), reflect.TypeFor[R]()}
}

// Entries are all methods of the broker. A "*" marks those that read the current state.
var Entries = []Entry{
	entry(IdentityAnnounce, "logicalAgentId endpointId",
		"*announces an endpoint of the caller, and sends it the wakes that waited"),
	entry(IdentityHeartbeat, "endpointId", "*keeps an endpoint online; not_found: announce it again"),
	entry(IdentityLeave, "endpointId", "*takes an endpoint offline that is stopping"),
	entry(IdentityList, "", "*lists endpoints"),
	entry(IdentityResolve, "label", "*finds the endpoint that a label means, and the reason"),
	entry(ConversationCreate, "kind", "creates a conversation"),
	entry(ConversationGet, "id", "*gets a conversation and a page of its messages, the oldest first"),
	entry(MessagePost, "conversationId text", "posts a message; it wakes at most one agent, and wake is null if none"),
	entry(QuestionAsk, "title askedOfId", "asks somebody a question, and wakes them"),
	entry(QuestionAnswer, "id answer", "answers a question, and wakes the asking party"),
	entry(QuestionClose, "id", "closes a question that is answered or no longer asked"),
	entry(QuestionDecline, "id", "declines to answer a question"),
	entry(QuestionReopen, "id", "withdraws an answer"),
	entry(QuestionSpawnWork, "id", "creates the work that a question needs, once; id is the question's"),
	entry(QuestionGet, "id", "*gets a question"),
	entry(QuestionList, "", "*lists questions"),
	entry(WorkCreate, "title ownerId nextMoveOwnerId",
		"creates work; with wake:true it wakes the owner of the next move"),
	entry(WorkUpdate, "id", "changes the given members; with wake:true it wakes the owner of the next move"),
	entry(WorkAssign, "id ownerId",
		"assigns work, created first if there is a title, and asks an agent to begin; decision is the wake"),
	entry(WorkGet, "id", "*gets a work item"),
	entry(WorkList, "", "*lists work items"),
	entry(WorkArrived, "name",
		"reports that an artifact or a condition has arrived: the work that waits for it continues, and the owner of "+
			"its next move is woken"),
	entry(WorkWake, "id", "wakes the responsible party of a work item"),
	entry(InvocationCreate, "targetAgentId text",
		"asks an agent to do something, and wakes it; the flight is its progress"),
	entry(FlightUpdate, "id state", "changes the state of a flight; a completed flight moves its work to review"),
	entry(FlightGet, "id", "*gets a flight and its invocation"),
	entry(DeliveryList, "targetAgentId", "*lists the deliveries to an agent"),
	entry(DeliveryClaim, "targetAgentId", "leases the oldest pending delivery; null if none waits"),
	entry(DeliveryAck, "id", "acknowledges a delivery"),
	entry(DeliveryNack, "id", "gives a delivery back"),
	entry(BindingSet, "surface externalId agentId", "links an external object, such as a chat, to an agent"),
	entry(BindingGet, "surface externalId", "*gets a binding"),
	entry(ClaimAcquire, "eventId", "acquires or prolongs the exclusive right to answer an event"),
	entry(ClaimRelease, "eventId token", "ends a claim; with answered:true no agent gets the event again"),
	entry(ClaimDecline, "eventId", "gives up a claim: the event is offered to the refused agents"),
	entry(ClaimGet, "eventId", "*gets a claim; not_found: the event was never claimed"),
	entry(DecisionAsk, "id tool digest mayDecide expiresAt", "*asks people whether a tool may run"),
	entry(DecisionDecide, "id verdict", "decides; the first verdict counts"),
	entry(DecisionCancel, "id", "withdraws a pending decision"),
	entry(DecisionRevoke, "id", "ends an approval that allows further calls"),
	entry(DecisionGet, "id", "*gets a decision"),
	entry(DecisionList, "", "*lists decisions"),
	entry(ObligationOpen, "eventId author recipient blocks",
		"*opens the obligation of an event's recipient to its author; either of them may open it"),
	entry(ObligationReact, "targetEventId",
		"*reports a signal about such an event, or its edit or deletion; stored until the event is known"),
	entry(ObligationDischarge, "eventId recipient", "*closes an obligation, for its author or the delegate"),
	entry(ObligationGet, "eventId recipient", "*gets an obligation with all acts about it"),
	entry(ObligationList, "", "*lists open obligations"),
	entry(EventsList, "", "*gets a page of the log; after and next are seqs"),
	entry(WakeExplain, "",
		"*explains the wake decision of a message, a work item or a question; give one of the three"),
	entry(WakeReminded, "", "*lists the last reminders about records that have not changed since, the oldest first"),
	entry(PromptContract, "agentId", "*gets the contract as a part of an agent's prompt"),
}

type eventEntry struct {
	name    string
	payload reflect.Type
}

func event[P any](e EventType[P]) eventEntry { return eventEntry{e.Name, reflect.TypeFor[P]()} }

var events = []eventEntry{
	event(EventMessagePosted), event(EventQuestionCreated), event(EventQuestionAnswered), event(EventQuestionUpdated),
	event(EventWorkCreated), event(EventWorkUpdated), event(EventDelivery), event(EventDeliveryChanged),
	event(EventWoken),
	event(EventOnline), event(EventOffline), event(EventAgentRetired), event(EventConversation),
	event(EventWakeDecided), event(EventInvocation), event(EventFlight), event(EventBinding), event(EventClaimGranted),
	event(EventClaimContended),
	event(EventClaimOffered),
	event(EventClaimAnswered),
	event(EventDecisionAsked),
	event(EventDecisionChanged),
	event(EventObligationOpened), event(EventObligationChanged),
}

// codes explain the codes of refusals.
var codes = [][2]string{
	{string(CodeInvalid), "the request, or the record that it makes, is invalid"},
	{string(CodeUnknownTarget), "a label means nobody; a message is stored anyway"},
	{string(CodeAmbiguous), "a label means several agents; details has unique labels"},
	{
		string(CodeUnavailable),
		"the agent to wake is away; the record is stored, and the agent is woken when it comes back",
	},
	{string(CodeConflict), "the id, lease or claim belongs to somebody else, or the id has other content"},
	{string(CodeForbidden), "the caller may not do this"},
	{string(CodeNotFound), "there is no such record"},
	{
		string(CodeBadTransition),
		"the record's state does not allow this transition; details.allowed lists the allowed states",
	},
}

// enums lists the values of the enumerated types.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[WorkState]():     {WorkOpen, WorkWorking, WorkWaiting, WorkReview, WorkDone, WorkCancelled},
	reflect.TypeFor[QuestionState](): {QuestionOpen, QuestionAnswered, QuestionClosed, QuestionDeclined},
	reflect.TypeFor[Acceptance]():    {AcceptanceNone, AcceptancePending, AcceptanceAccepted, AcceptanceRejected},
	reflect.TypeFor[FlightState](): {
		FlightQueued,
		FlightWaking,
		FlightRunning,
		FlightWaiting,
		FlightCompleted,
		FlightFailed,
		FlightCancelled,
	},
	reflect.TypeFor[DeliveryStatus](): {
		DeliveryPending,
		DeliveryLeased,
		DeliveryAcknowledged,
		DeliveryFailed,
		DeliveryCancelled,
	},
	reflect.TypeFor[ClaimState]():    {ClaimHeld, ClaimOffered, ClaimAnswered},
	reflect.TypeFor[Verdict]():       {Allow, Deny},
	reflect.TypeFor[ApprovalScope](): {ScopeOnce, ScopeSession, ScopeAlways},
	reflect.TypeFor[ApprovalState](): {
		ApprovalPending,
		ApprovalAllowed,
		ApprovalDenied,
		ApprovalExpired,
		ApprovalCancelled,
		ApprovalRevoked,
	},
	reflect.TypeFor[Rule](): {
		RuleExplicit,
		RuleDependency,
		RuleNextMove,
		RuleOwner,
		RuleMaster,
		RuleRequester,
		RuleNone,
	},
	reflect.TypeFor[Outcome](): {
		OutcomeWoken,
		OutcomeMissed,
		OutcomeUnavailable,
		OutcomeUnknown,
		OutcomeAmbiguous,
		OutcomeNobody,
	},
}

// EnumOf returns the values of an enumerated type, or nil.
func EnumOf(t reflect.Type) []any { return enums[t] }

// A member is one member of an object on the wire.
type member struct {
	name     string
	of       reflect.Type
	optional bool
}

// A shaped type defines its own format on the wire.
type shaped interface{ members() []member }

func (Page[T]) members() []member {
	return []member{{Page[T]{}.name(), reflect.TypeFor[[]T](), false}, {"next", reflect.TypeFor[*string](), false}}
}

func (Explanation) members() []member {
	return append(membersOf(reflect.TypeFor[Decision]()), member{"wake", reflect.TypeFor[*WakeSummary](), false})
}

// membersOf lists the members of an object as encoding/json writes them.
func membersOf(t reflect.Type) (list []member) {
	if s, ok := reflect.Zero(t).Interface().(shaped); ok {
		return s.members()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			list = append(list, membersOf(f.Type)...)
		case f.IsExported() && name != "-":
			list = append(list, member{name, f.Type, strings.Contains(options, "omit")})
		}
	}
	return list
}

// onWire returns the type that determines a type's format on the wire.
func onWire(t reflect.Type) reflect.Type {
	switch {
	case t == reflect.TypeFor[AskedWake]():
		return reflect.TypeFor[*WakeSummary]()
	case t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "Listed["):
		m, _ := t.MethodByName("Read")
		return m.Type.Out(0)
	}
	return t
}

// nameOf returns the name of a type in the description. Page[WorkItem] becomes WorkItemPage, and
// an Approval becomes a Decision.
func nameOf(t reflect.Type) string {
	name, of, generic := strings.Cut(t.Name(), "[")
	if generic {
		name = strings.TrimSuffix(of[strings.LastIndexByte(of, '.')+1:], "]") + name
	}
	switch t {
	case reflect.TypeFor[Decision]():
		return "WakeDecision"
	default:
		return strings.Replace(name, "Approval", "Decision", 1)
	}
}

// A description collects the objects that it mentions.
type description struct {
	objects map[string]reflect.Type
}

// schema returns the JSON schema of a type.
func (d *description) schema(t reflect.Type) map[string]any {
	t = onWire(t)
	if values := enums[t]; values != nil {
		return map[string]any{"type": "string", "enum": values}
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case t == reflect.TypeFor[Moment]():
		return map[string]any{"type": []string{"string", "integer"},
			"description": "RFC 3339, or milliseconds since 1970"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Struct:
		name := nameOf(t)
		if d.objects[name] == nil {
			d.objects[name] = t
			for _, m := range membersOf(t) {
				d.schema(m.of)
			}
		}
		return map[string]any{"$ref": "#/x-broker/schemas/" + name}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	default:
		return map[string]any{"type": "string"}
	}
}

// object returns the JSON schema of an object. All members of results are required unless they
// are optional. The required params are listed with each method.
func (d *description) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range membersOf(t) {
		s := d.schema(m.of)
		if onWire(m.of).Kind() == reflect.Pointer && !m.optional {
			s = map[string]any{"oneOf": []any{s, map[string]any{"type": "null"}}}
		}
		properties[m.name] = s
		if !m.optional {
			required = append(required, m.name)
		}
	}
	o := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 && !strings.HasSuffix(nameOf(t), "Params") {
		o["required"] = required
	}
	return o
}

// Describe returns the methods, events, errors and records of the broker for asyncapi.json. It
// derives them from the types that the broker and its clients use.
func Describe() map[string]any {
	d := &description{map[string]reflect.Type{}}
	methods, facts, refusals := map[string]any{}, map[string]any{}, map[string]any{}
	for _, e := range Entries {
		methods[e.Name] = map[string]any{
			"summary":    e.Does,
			"required":   append([]string{}, e.Needs...),
			"repeatable": e.Repeat,
			"params":     d.schema(e.params),
			"result":     d.schema(e.result),
		}
	}
	for _, e := range events {
		facts[e.name] = map[string]any{"payload": d.schema(e.payload)}
	}
	for _, c := range codes {
		refusals[c[0]] = c[1]
	}
	schemas := map[string]any{}
	for name, t := range d.objects {
		schemas[name] = d.object(t)
	}
	return map[string]any{"methods": methods, "events": facts, "errors": refusals, "schemas": schemas}
}

// Manual returns the description as text, in lines of at most 80 characters.
func Manual() string {
	var b strings.Builder
	d := &description{map[string]reflect.Type{}}
	b.WriteString("METHODS. Params with ? are optional. A * marks methods that read the\ncurrent state and run again " +
		"when the request is repeated.\n")
	for _, e := range Entries {
		star := ""
		if e.Repeat {
			star = "*"
		}
		d.schema(e.params)
		d.schema(e.result)
		fmt.Fprintf(&b, "\n  %s%s\n", e.Name, star)
		wrap(&b, 6, strings.Fields(e.Does+"."))
		wrap(&b, 6, append([]string{"<-"}, e.paramTexts()...))
		wrap(&b, 6, append([]string{"->"}, memberTexts(membersOf(e.result), false)...))
	}
	b.WriteString("\nEVENTS. The payload of each is the record after the event.\n\n")
	for _, e := range events {
		d.schema(e.payload)
		fmt.Fprintf(&b, "  %-30s %s\n", e.name, nameOf(e.payload))
	}
	b.WriteString("\nERRORS\n\n")
	for _, c := range codes {
		wrap(&b, 2, append([]string{c[0] + ":"}, strings.Fields(c[1]+".")...))
	}
	b.WriteString("\nRECORDS\n")
	for _, name := range slices.Sorted(maps.Keys(d.objects)) {
		if strings.HasSuffix(name, "Params") || strings.HasSuffix(name, "Result") || strings.HasSuffix(name, "Page") {
			continue
		}
		fmt.Fprintf(&b, "\n  %s\n", name)
		wrap(&b, 6, memberTexts(membersOf(d.objects[name]), false))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// paramTexts lists the params of a method.
func (e *Entry) paramTexts() (list []string) {
	members := membersOf(e.params)
	for i := range members {
		members[i].optional = !slices.Contains(e.Needs, members[i].name)
	}
	return memberTexts(members, true)
}

// memberTexts lists members with names and types. A required param must not be null.
func memberTexts(members []member, params bool) (list []string) {
	for _, m := range members {
		said := m.name
		if m.optional {
			said += "?"
		}
		said += ": " + typeText(m.of)
		if onWire(m.of).Kind() == reflect.Pointer && !m.optional && !params {
			said += " | null"
		}
		list = append(list, said)
	}
	for i := range len(list) - 1 {
		list[i] += ","
	}
	return list
}

// typeText returns a short name of a type.
func typeText(t reflect.Type) string {
	t = onWire(t)
	if values := enums[t]; values != nil {
		var words []string
		for _, v := range values {
			words = append(words, fmt.Sprint(v))
		}
		return strings.Join(words, " | ")
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return "any"
	case t == reflect.TypeFor[Moment]():
		return "time"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem())
	case reflect.Slice:
		return typeText(t.Elem()) + "[]"
	case reflect.Struct:
		return nameOf(t)
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	default:
		return "string"
	}
}

// wrap writes words in lines of at most 80 characters, indented by margin.
func wrap(b *strings.Builder, margin int, words []string) {
	column := 0
	for _, word := range strings.Fields(strings.Join(words, " ")) {
		switch {
		case column == 0:
			column = margin + len(word)
			b.WriteString(strings.Repeat(" ", margin) + word)
		case column+1+len(word) > 80:
			column = margin + 3 + len(word)
			b.WriteString("\n" + strings.Repeat(" ", margin+3) + word)
		default:
			column += 1 + len(word)
			b.WriteString(" " + word)
		}
	}
	b.WriteString("\n")
}
