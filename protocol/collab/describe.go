package collab

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// An Entry describes one method for who writes a peer in another language.
type Entry struct {
	Name   string
	Does   string
	Needs  []string // the params that must be given; all others may be absent
	Repeat bool     // it tells the present state: a repeated request runs again
	params reflect.Type
	result reflect.Type
}

func entry[P, R any](m Method[P, R], needs, does string) Entry {
	does, again := strings.CutPrefix(does, "*")
	return Entry{m.Name, does, strings.Fields(needs), again, reflect.TypeFor[P](), reflect.TypeFor[R]()}
}

// Entries are all methods of the broker. A "*" marks those that tell the present state.
var Entries = []Entry{
	entry(IdentityAnnounce, "logicalAgentId endpointId", "*announces an endpoint of the caller; its waiting wakes are sent"),
	entry(IdentityHeartbeat, "endpointId", "*says that an endpoint is there; not_found: announce it again"),
	entry(IdentityLeave, "endpointId", "*says that an endpoint stops: it is offline from now on"),
	entry(IdentityList, "", "*lists endpoints"),
	entry(IdentityResolve, "label", "*tells whom a label means, and why"),
	entry(ConversationCreate, "kind", "makes a conversation"),
	entry(ConversationGet, "id", "*tells a conversation and a page of its messages, the oldest first"),
	entry(MessagePost, "conversationId text", "says something; one agent is woken at most, and wake is null if none is"),
	entry(QuestionAsk, "title askedOfId", "asks somebody, and wakes them"),
	entry(QuestionAnswer, "id answer", "answers, and wakes who asked"),
	entry(QuestionClose, "id", "ends a question that is answered or no longer asked"),
	entry(QuestionDecline, "id", "says that there will be no answer"),
	entry(QuestionReopen, "id", "takes an answer back"),
	entry(QuestionSpawnWork, "id", "makes the work that a question turned out to need, once; id is the question's"),
	entry(QuestionGet, "id", "*tells a question"),
	entry(QuestionList, "", "*lists questions"),
	entry(WorkCreate, "title ownerId nextMoveOwnerId", "makes work; with wake:true the one whose move it is is woken"),
	entry(WorkUpdate, "id", "changes what is given; with wake:true the one whose move it then is is woken"),
	entry(WorkAssign, "id ownerId", "gives work to somebody, made first if it has a title, and asks an agent to begin; the decision says who was woken"),
	entry(WorkGet, "id", "*tells a work item"),
	entry(WorkList, "", "*lists work items"),
	entry(WorkArrived, "name", "says that an artifact or a condition is there: what waits for it is worked on, and who has the next move is woken"),
	entry(WorkWake, "id", "wakes the one who is responsible now"),
	entry(InvocationCreate, "targetAgentId text", "has an agent do something, and wakes it; the flight is how far it is"),
	entry(FlightUpdate, "id state", "moves a flight; a completed one brings its work to review"),
	entry(FlightGet, "id", "*tells a flight and its invocation"),
	entry(DeliveryList, "targetAgentId", "*lists the deliveries to an agent"),
	entry(DeliveryClaim, "targetAgentId", "leases the oldest pending delivery; null if none waits"),
	entry(DeliveryAck, "id", "says that a delivery was taken"),
	entry(DeliveryNack, "id", "gives a delivery back"),
	entry(BindingSet, "surface externalId agentId", "links something outside, such as a chat, to an agent"),
	entry(BindingGet, "surface externalId", "*tells a link"),
	entry(ClaimAcquire, "eventId", "asks to be the only one to answer an event, or prolongs it"),
	entry(ClaimRelease, "eventId token", "ends a claim; with answered:true nobody gets the event again"),
	entry(ClaimDecline, "eventId", "gives a claim up: the event is offered to who was refused"),
	entry(ClaimGet, "eventId", "*tells a claim; not_found: nobody ever claimed the event"),
	entry(DecisionAsk, "id tool digest mayDecide expiresAt", "*asks people whether a tool may run"),
	entry(DecisionDecide, "id verdict", "decides; the first verdict counts"),
	entry(DecisionCancel, "id", "withdraws what was asked"),
	entry(DecisionRevoke, "id", "ends what was allowed for longer than once"),
	entry(DecisionGet, "id", "*tells a decision"),
	entry(DecisionList, "", "*lists decisions"),
	entry(ObligationOpen, "eventId author recipient blocks", "*tells that the author of an event waits for its recipient; one of both tells it"),
	entry(ObligationReact, "targetEventId", "*tells a signal about such an event, or that it was edited or deleted; held if the event is not known yet"),
	entry(ObligationDischarge, "eventId recipient", "*closes an obligation: its author, or the delegate"),
	entry(ObligationGet, "eventId recipient", "*tells an obligation with all that was done about it"),
	entry(ObligationList, "", "*lists who waits for whom"),
	entry(EventsList, "", "*tells a page of the log; after and next are seqs"),
	entry(WakeExplain, "", "*tells who was woken for a message, a work item or a question, and why; one of the three is given"),
	entry(WakeReminded, "", "*lists of what somebody was reminded last and nobody has touched since, the oldest first"),
	entry(PromptContract, "agentId", "*tells the contract as a part of an agent's prompt"),
}

type eventEntry struct {
	name    string
	payload reflect.Type
}

func event[P any](e EventType[P]) eventEntry { return eventEntry{e.Name, reflect.TypeFor[P]()} }

var events = []eventEntry{
	event(EventMessagePosted), event(EventQuestionCreated), event(EventQuestionAnswered), event(EventQuestionUpdated),
	event(EventWorkCreated), event(EventWorkUpdated), event(EventDelivery), event(EventDeliveryChanged), event(EventWoken),
	event(EventHeartbeat), event(EventOnline), event(EventOffline), event(EventAgentRetired), event(EventConversation),
	event(EventWakeDecided), event(EventInvocation), event(EventFlight), event(EventBinding), event(EventClaimGranted),
	event(EventClaimContended), event(EventClaimOffered), event(EventClaimAnswered), event(EventDecisionAsked), event(EventDecisionChanged),
	event(EventObligationOpened), event(EventObligationChanged),
}

// codes say what each code of a refusal means.
var codes = [][2]string{
	{string(CodeInvalid), "the request, or the record that it makes, is not valid"},
	{string(CodeUnknownTarget), "a label names nobody; a message is kept all the same"},
	{string(CodeAmbiguous), "a label names several; details has labels that do not"},
	{string(CodeUnavailable), "the one to wake is not there; what was made is kept, and they are told when they come"},
	{string(CodeConflict), "the id, lease or claim is somebody else's, or the id has other content"},
	{string(CodeForbidden), "the caller may not do this"},
	{string(CodeNotFound), "there is no such record"},
	{string(CodeBadTransition), "the record cannot go from its state to that one; details.allowed has those it can go to"},
}

// enums are the values of the types that have few.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[WorkState]():      {WorkOpen, WorkWorking, WorkWaiting, WorkReview, WorkDone, WorkCancelled},
	reflect.TypeFor[QuestionState]():  {QuestionOpen, QuestionAnswered, QuestionClosed, QuestionDeclined},
	reflect.TypeFor[Acceptance]():     {AcceptanceNone, AcceptancePending, AcceptanceAccepted, AcceptanceRejected},
	reflect.TypeFor[FlightState]():    {FlightQueued, FlightWaking, FlightRunning, FlightWaiting, FlightCompleted, FlightFailed, FlightCancelled},
	reflect.TypeFor[DeliveryStatus](): {DeliveryPending, DeliveryLeased, DeliveryAcknowledged, DeliveryFailed, DeliveryCancelled},
	reflect.TypeFor[ClaimState]():     {ClaimHeld, ClaimOffered, ClaimAnswered},
	reflect.TypeFor[Verdict]():        {Allow, Deny},
	reflect.TypeFor[ApprovalScope]():  {ScopeOnce, ScopeSession, ScopeAlways},
	reflect.TypeFor[ApprovalState]():  {ApprovalPending, ApprovalAllowed, ApprovalDenied, ApprovalExpired, ApprovalCancelled, ApprovalRevoked},
	reflect.TypeFor[Rule]():           {RuleExplicit, RuleDependency, RuleNextMove, RuleOwner, RuleMaster, RuleRequester, RuleNone},
	reflect.TypeFor[Outcome]():        {OutcomeWoken, OutcomeMissed, OutcomeUnavailable, OutcomeUnknown, OutcomeAmbiguous, OutcomeNobody},
}

// A member is one member of an object on the wire.
type member struct {
	name     string
	of       reflect.Type
	optional bool
}

// A shaped type is not written as its fields say.
type shaped interface{ members() []member }

func (Page[T]) members() []member {
	return []member{{Page[T]{}.name(), reflect.TypeFor[[]T](), false}, {"next", reflect.TypeFor[*string](), false}}
}

func (Explanation) members() []member {
	return append(membersOf(reflect.TypeFor[Decision]()), member{"wake", reflect.TypeFor[*WakeSummary](), false})
}

// membersOf lists what an object has, as encoding/json writes it.
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

// onWire returns what a type stands for on the wire.
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

// nameOf returns the name of a type in the description: of Page[WorkItem] it is
// WorkItemPage, and what is called an approval in the code is a decision on the wire.
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

// A description collects the objects that it comes by.
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
		return map[string]any{"type": []string{"string", "integer"}, "description": "RFC 3339, or milliseconds since 1970"}
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

// object returns the JSON schema of an object. Results have all members that are not
// optional; which params must be given says each method.
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

// Describe returns the methods, events, errors and records of the broker for asyncapi.json,
// made from the types that the broker and its clients use.
func Describe() map[string]any {
	d := &description{map[string]reflect.Type{}}
	methods, facts, refusals := map[string]any{}, map[string]any{}, map[string]any{}
	for _, e := range Entries {
		methods[e.Name] = map[string]any{
			"summary": e.Does, "required": append([]string{}, e.Needs...), "repeatable": e.Repeat, "params": d.schema(e.params), "result": d.schema(e.result),
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

// Manual returns the same for people, in lines of at most 80 characters.
func Manual() string {
	var b strings.Builder
	d := &description{map[string]reflect.Type{}}
	b.WriteString("METHODS. Params with ? may be absent. A * marks those that tell the present\nstate, and run again when the request is repeated.\n")
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
	b.WriteString("\nEVENTS. The payload of each is a record, as it is afterwards.\n\n")
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

// memberTexts lists members by name and type; of params, none that is required may be null.
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

// typeText says what a type is, in a word or two.
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

// wrap writes words in lines of at most 80 characters, each behind a margin.
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
