package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A method is one method of the broker.
type method struct {
	name string
	run  func(t *tx, params json.RawMessage) any
	// fresh methods read or refresh the current state. A repeated request runs again instead of
	// getting the stored answer.
	fresh bool
}

// methods has every method by name.
var methods = byName(
	repeatable(collab.IdentityAnnounce, identityHandler.announce),
	repeatable(collab.IdentityHeartbeat, identityHandler.heartbeat),
	repeatable(collab.IdentityLeave, identityHandler.leave),
	repeatable(collab.IdentityList, identityHandler.list),
	repeatable(collab.IdentityResolve, identityHandler.resolveLabel),
	remembered(collab.ConversationCreate, conversationHandler.create),
	repeatable(collab.ConversationGet, conversationHandler.get),
	remembered(collab.MessagePost, conversationHandler.post),
	remembered(collab.QuestionAsk, recordHandler.ask),
	remembered(collab.QuestionAnswer, recordHandler.answer),
	remembered(collab.QuestionClose, endQuestion(questionClosed)),
	remembered(collab.QuestionDecline, endQuestion(questionDeclined)),
	remembered(collab.QuestionReopen, recordHandler.reopen),
	remembered(collab.QuestionSpawnWork, recordHandler.spawnWork),
	repeatable(collab.QuestionGet, getRecord(collab.KindQuestion)),
	repeatable(collab.QuestionList, recordHandler.listQuestions),
	remembered(collab.WorkCreate, recordHandler.createWork),
	remembered(collab.WorkUpdate, recordHandler.updateWork),
	remembered(collab.WorkAssign, recordHandler.assign),
	repeatable(collab.WorkGet, getRecord(collab.KindWorkItem)),
	repeatable(collab.WorkList, recordHandler.listWork),
	remembered(collab.WorkArrived, recordHandler.arrived),
	remembered(collab.WorkWake, recordHandler.wakeWork),
	remembered(collab.InvocationCreate, flightHandler.invoke),
	remembered(collab.FlightUpdate, flightHandler.update),
	repeatable(collab.FlightGet, flightHandler.get),
	repeatable(collab.DeliveryList, deliveryHandler.list),
	remembered(collab.DeliveryClaim, deliveryHandler.claim),
	remembered(collab.DeliveryAck, deliveryHandler.ack),
	remembered(collab.DeliveryNack, deliveryHandler.nack),
	remembered(collab.BindingSet, conversationHandler.bind),
	repeatable(collab.BindingGet, conversationHandler.getBinding),
	remembered(collab.ClaimAcquire, claimHandler.acquire),
	remembered(collab.ClaimRelease, claimHandler.release),
	remembered(collab.ClaimDecline, claimHandler.decline),
	repeatable(collab.ClaimGet, claimHandler.get),
	repeatable(collab.DecisionAsk, decisionHandler.ask),
	remembered(collab.DecisionDecide, decisionHandler.decide),
	remembered(collab.DecisionCancel, decisionHandler.cancel),
	remembered(collab.DecisionRevoke, decisionHandler.revoke),
	repeatable(collab.DecisionGet, decisionHandler.get),
	repeatable(collab.DecisionList, decisionHandler.list),
	repeatable(collab.ObligationOpen, obligationHandler.open),
	repeatable(collab.ObligationReact, obligationHandler.react),
	repeatable(collab.ObligationDischarge, obligationHandler.discharge),
	repeatable(collab.ObligationGet, obligationHandler.get),
	repeatable(collab.ObligationList, obligationHandler.list),
	repeatable(collab.EventsList, queryHandler.listEvents),
	repeatable(collab.WakeExplain, wakeHandler.explain),
	repeatable(collab.WakeReminded, reminderHandler.list),
	repeatable(collab.PromptContract, queryHandler.promptContract),
)

func byName(list ...method) map[string]method {
	m := map[string]method{}
	for _, one := range list {
		m[one.name] = one
	}
	return m
}

// remembered makes a method whose answer is stored for repeated requests.
func remembered[H handler, P, R any](m collab.Method[P, R], run func(H, P) R) method {
	return method{name: m.Name, run: func(t *tx, raw json.RawMessage) any { return run(H{t}, decodeParams[P](raw)) }}
}

// repeatable makes a fresh method.
func repeatable[H handler, P, R any](m collab.Method[P, R], run func(H, P) R) method {
	made := remembered(m, run)
	made.fresh = true
	return made
}

// decodeParams decodes a method's params. Absent params are an empty object. Unknown members are
// ignored.
func decodeParams[P any](raw json.RawMessage) (p P) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return p
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		failInvalid("%s", protocol.DescribeTypeError("params", err))
	}
	mustBeClean("", reflect.ValueOf(p))
	return p
}

// freeTexts are the members of params that people write. All others are names, ids or words.
var freeTexts = []string{"text", "title", "summary", "answer", "output", "error", "reason", "label", "name",
	"arguments", "defaultAction"}

// mustBeClean refuses names and ids that are not clean, in params of every kind.
func mustBeClean(member string, v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.Pointer:
		if !v.IsNil() {
			mustBeClean(member, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			mustBeClean(member, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case !field.IsExported(), slices.Contains(freeTexts, name):
			case member == "" || name == "":
				mustBeClean(member+name, v.Field(i))
			default:
				mustBeClean(member+"."+name, v.Field(i))
			}
		}
	case reflect.String:
		if !text.IsCleanName(v.String()) {
			failInvalid("%s must not contain control or invisible characters", member)
		}
	}
}

// mustFindMethod returns a method. The refusal of an unknown one lists the known ones.
func mustFindMethod(name string) method {
	m, ok := methods[name]
	if !ok {
		all := sortedKeys(methods)
		family, _, _ := strings.Cut(name, ".")
		if related := filter(all, func(m string) bool { return strings.HasPrefix(m, family+".") }); len(related) > 0 {
			all = related
		}
		failInvalid("there is no method %q; there are %s", text.Clip(name, 80), strings.Join(all, ", "))
	}
	return m
}

// Bounds of one page of a list, so that a result fits into a frame (1 MiB by default).
const (
	pageBytes    = 512 << 10
	defaultLimit = 200
	maxLimit     = 1000
)

// pageSize returns how many of n items the next page takes, at least one. The function returns
// the size of an item in bytes.
func pageSize(asked, n int, size func(i int) int) int {
	if asked < 0 {
		failInvalid("limit must not be negative")
	}
	most, total := min(cmp.Or(asked, defaultLimit), maxLimit, n), 0
	for i := range most {
		if total += size(i); i > 0 && total > pageBytes {
			return i
		}
	}
	return most
}

// pageOf cuts one page from a list. The cursor is the key of the page's last item.
func pageOf[S, T any](list []S, key func(S) string, show func(S) T, p collab.PageParams) (page collab.Page[T]) {
	if p.After != "" {
		i := slices.IndexFunc(list, func(item S) bool { return key(item) == p.After })
		if i < 0 {
			failInvalid("after %q is not in the list: use the next of the previous page", text.Clip(p.After, 80))
		}
		list = list[i+1:]
	}
	page.Items = []collab.Listed[T]{}
	n := pageSize(p.Limit, len(list), func(i int) int {
		page.Items = append(page.Items, collab.Listed[T]{RawMessage: mustEncode(show(list[i]))})
		return len(page.Items[i].RawMessage)
	})
	if page.Items = page.Items[:n]; 0 < n && n < len(list) {
		page.Next = new(key(list[n-1]))
	}
	return page
}

// listEvents returns a page of the log.
func (t queryHandler) listEvents(p collab.EventsParams) (page collab.EventPage) {
	if p.After < 0 {
		failInvalid("after must not be negative")
	}
	page.Events = []collab.Event{}
	last := t.seq // the log must not grow while it is read
	first := max(min(p.After, last)+1, t.first)
	n := pageSize(p.Limit, int(last-first+1), func(i int) int {
		e := t.event(first + int64(i))
		page.Events = append(page.Events, e)
		return len(e.Payload) + len(e.Metadata)
	})
	if page.Events = page.Events[:n]; n > 0 && page.Events[n-1].Seq < last {
		page.Next = new(page.Events[n-1].Seq)
	}
	return page
}
