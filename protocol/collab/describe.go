package collab

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

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
	{string(CodeUnknownTarget), "a label names no agent; a message is stored anyway"},
	{string(CodeAmbiguous), "a label names several agents; details has unique labels"},
	{
		string(CodeUnavailable),
		"the agent to wake is away; the record is stored, and the agent is woken when it returns",
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

// collect adds the objects that a type contains.
func (d *description) collect(t reflect.Type) {
	t = onWire(t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		d.collect(t.Elem())
	case reflect.Struct:
		if name := nameOf(t); d.objects[name] == nil && t != reflect.TypeFor[Moment]() {
			d.objects[name] = t
			for _, m := range membersOf(t) {
				d.collect(m.of)
			}
		}
	}
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
		d.collect(e.params)
		d.collect(e.result)
		fmt.Fprintf(&b, "\n  %s%s\n", e.Name, star)
		wrap(&b, 6, strings.Fields(e.Does+"."))
		wrap(&b, 6, append([]string{"<-"}, e.paramTexts()...))
		wrap(&b, 6, append([]string{"->"}, memberTexts(membersOf(e.result), false)...))
	}
	b.WriteString("\nEVENTS. The payload of each is the record after the event.\n\n")
	for _, e := range events {
		d.collect(e.payload)
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
