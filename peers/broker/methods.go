package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A method is one method of the broker.
type method struct {
	name  string
	run   func(t *tx, params json.RawMessage) any
	fresh bool // see collab.Method
}

// methods has every method by name.
var methods = byName(
	handle(collab.IdentityAnnounce, identityHandler.announce),
	handle(collab.IdentityHeartbeat, identityHandler.heartbeat),
	handle(collab.IdentityLeave, identityHandler.leave),
	handle(collab.IdentityList, identityHandler.list),
	handle(collab.IdentityResolve, identityHandler.resolveLabel),
	handle(collab.ConversationCreate, conversationHandler.create),
	handle(collab.ConversationGet, conversationHandler.get),
	handle(collab.MessagePost, conversationHandler.post),
	handle(collab.QuestionAsk, recordHandler.ask),
	handle(collab.QuestionAnswer, recordHandler.answer),
	handle(collab.QuestionClose, endQuestion(rules.QuestionClosed)),
	handle(collab.QuestionDecline, endQuestion(rules.QuestionDeclined)),
	handle(collab.QuestionReopen, recordHandler.reopen),
	handle(collab.QuestionSpawnWork, recordHandler.spawnWork),
	handle(collab.QuestionGet, getRecord(collab.KindQuestion)),
	handle(collab.QuestionList, recordHandler.listQuestions),
	handle(collab.WorkCreate, recordHandler.createWork),
	handle(collab.WorkUpdate, recordHandler.updateWork),
	handle(collab.WorkAssign, recordHandler.assign),
	handle(collab.WorkGet, getRecord(collab.KindWorkItem)),
	handle(collab.WorkList, recordHandler.listWork),
	handle(collab.WorkArrived, recordHandler.arrived),
	handle(collab.WorkWake, recordHandler.wakeWork),
	handle(collab.InvocationCreate, flightHandler.invoke),
	handle(collab.FlightUpdate, flightHandler.update),
	handle(collab.FlightGet, flightHandler.get),
	handle(collab.DeliveryList, deliveryHandler.list),
	handle(collab.DeliveryClaim, deliveryHandler.claim),
	handle(collab.DeliveryAck, deliveryHandler.ack),
	handle(collab.DeliveryNack, deliveryHandler.nack),
	handle(collab.BindingSet, conversationHandler.bind),
	handle(collab.BindingGet, conversationHandler.getBinding),
	handle(collab.ClaimAcquire, claimHandler.acquire),
	handle(collab.ClaimRelease, claimHandler.release),
	handle(collab.ClaimDecline, claimHandler.decline),
	handle(collab.ClaimGet, claimHandler.get),
	handle(collab.DecisionAsk, decisionHandler.ask),
	handle(collab.DecisionDecide, decisionHandler.decide),
	handle(collab.DecisionCancel, decisionHandler.cancel),
	handle(collab.DecisionRevoke, decisionHandler.revoke),
	handle(collab.DecisionGet, decisionHandler.get),
	handle(collab.DecisionList, decisionHandler.list),
	handle(collab.ObligationOpen, obligationHandler.open),
	handle(collab.ObligationReact, obligationHandler.react),
	handle(collab.ObligationDischarge, obligationHandler.discharge),
	handle(collab.ObligationGet, obligationHandler.get),
	handle(collab.ObligationList, obligationHandler.list),
	handle(collab.EventsList, queryHandler.listEvents),
	handle(collab.WakeExplain, wakeHandler.explain),
	handle(collab.WakeReminded, reminderHandler.list),
	handle(collab.PromptContract, queryHandler.promptContract),
)

func byName(list ...method) map[string]method {
	m := map[string]method{}
	for _, one := range list {
		m[one.name] = one
	}
	return m
}

// handle returns a method that decodes its params and calls run.
func handle[H handler, P, R any](m collab.Method[P, R], run func(H, P) R) method {
	return method{m.Name, func(t *tx, raw json.RawMessage) any { return run(H{t}, decodeParams[P](raw)) }, m.Fresh}
}

// decodeParams decodes a method's params. Absent params are an empty object. Unknown members are
// ignored.
func decodeParams[P any](raw json.RawMessage) (p P) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return p
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		rules.FailInvalid("%s", protocol.DescribeTypeError("params", err))
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
			rules.FailInvalid("%s must be %s", member, text.NameRule)
		}
	}
}

// mustFindMethod returns a method. The refusal of an unknown one lists the known ones.
func mustFindMethod(name string) method {
	m, ok := methods[name]
	if !ok {
		all := sortedKeys(methods)
		family, _, _ := strings.Cut(name, ".")
		related := rules.Filter(all, func(m string) bool { return strings.HasPrefix(m, family+".") })
		if len(related) > 0 {
			all = related
		}
		rules.FailInvalid("there is no method %q; the methods are %s", text.Clip(name, 80), strings.Join(all, ", "))
	}
	return m
}

// Bounds of one page of a list, so that a result fits into a frame (1 MiB by default).
const (
	pageBytes    = 512 << 10
	defaultLimit = 200
	maxLimit     = 1000
)

// pageSize returns how many of n items the next page takes, at least one. size returns
// the size of an item in bytes.
func pageSize(asked, n int, size func(i int) int) int {
	if asked < 0 {
		rules.FailInvalid("limit must not be negative")
	}
	most, total := min(cmp.Or(asked, defaultLimit), maxLimit, n), 0
	for i := range most {
		if total += size(i); i > 0 && total > pageBytes {
			return i
		}
	}
	return most
}

// listAfter lists the entities of a table after a cursor: those with the ref, or all if it is empty.
// The cursor is the id of an entity, which may have left a filtered list since.
func listAfter[T any](s *table[T], ref, after string) []T {
	if _, ok := s.find(after); !ok && after != "" {
		rules.FailInvalid("after %q is not a cursor of this list: use the value of next from the previous page", text.Clip(after, 80))
	}
	return s.list(ref, after, math.MaxInt)
}

// cutAfter returns the part of a list after a cursor. The list is sorted by its keys. The item with
// the key of the cursor may have left the list since.
func cutAfter[S any](list []S, key func(S) string, after string) []S {
	i, found := slices.BinarySearchFunc(list, after, func(item S, after string) int {
		return strings.Compare(key(item), after)
	})
	if found {
		i++
	}
	return list[i:]
}

// pageOf cuts one page from the beginning of a list. The cursor of the next page is the key of the
// page's last item.
func pageOf[S, T any](list []S, key func(S) string, show func(S) T, limit int) (page collab.Page[T]) {
	page.Items = []collab.Listed[T]{}
	n := pageSize(limit, len(list), func(i int) int {
		page.Items = append(page.Items, collab.Listed[T]{RawMessage: rules.MustEncode(show(list[i]))})
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
		rules.FailInvalid("after must not be negative")
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
