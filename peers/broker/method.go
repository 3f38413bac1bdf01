package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A method is one method of the broker.
type method struct {
	name string
	run  func(t *tx, params json.RawMessage) any
	// fresh methods tell or refresh the state as it is now: a repetition of the
	// request runs again instead of getting the stored answer.
	fresh bool
}

// methods is every method by name.
var methods = byName(
	again(collab.IdentityAnnounce, announce),
	again(collab.IdentityHeartbeat, heartbeat),
	again(collab.IdentityLeave, leave),
	again(collab.IdentityList, listIdentities),
	again(collab.IdentityResolve, resolveIdentity),
	once(collab.ConversationCreate, createConversation),
	again(collab.ConversationGet, getConversation),
	once(collab.MessagePost, postMessage),
	once(collab.QuestionAsk, ask),
	once(collab.QuestionAnswer, answerQuestion),
	once(collab.QuestionClose, endQuestion(questionClosed)),
	once(collab.QuestionDecline, endQuestion(questionDeclined)),
	once(collab.QuestionReopen, reopenQuestion),
	once(collab.QuestionSpawnWork, spawnWork),
	again(collab.QuestionGet, getRecord(collab.KindQuestion)),
	again(collab.QuestionList, listQuestions),
	once(collab.WorkCreate, createWork),
	once(collab.WorkUpdate, updateWork),
	once(collab.WorkAssign, assignWork),
	again(collab.WorkGet, getRecord(collab.KindWorkItem)),
	again(collab.WorkList, listWork),
	once(collab.WorkArrived, arrive),
	once(collab.WorkWake, wakeWork),
	once(collab.InvocationCreate, invoke),
	once(collab.FlightUpdate, updateFlight),
	again(collab.FlightGet, getFlight),
	again(collab.DeliveryList, listDeliveries),
	once(collab.DeliveryClaim, claimDelivery),
	once(collab.DeliveryAck, ackDelivery),
	once(collab.DeliveryNack, nackDelivery),
	once(collab.BindingSet, setBinding),
	again(collab.BindingGet, getBinding),
	once(collab.ClaimAcquire, acquireClaim),
	once(collab.ClaimRelease, releaseClaim),
	once(collab.ClaimDecline, declineClaim),
	again(collab.ClaimGet, getClaim),
	again(collab.DecisionAsk, askDecision),
	once(collab.DecisionDecide, decide),
	once(collab.DecisionCancel, cancelDecision),
	once(collab.DecisionRevoke, revokeDecision),
	again(collab.DecisionGet, getDecision),
	again(collab.DecisionList, listDecisions),
	again(collab.ObligationOpen, openDuty),
	again(collab.ObligationReact, react),
	again(collab.ObligationDischarge, discharge),
	again(collab.ObligationGet, getDuty),
	again(collab.ObligationList, listObligations),
	again(collab.EventsList, listEvents),
	again(collab.WakeExplain, explainWake),
	again(collab.WakeReminded, listReminders),
	again(collab.PromptContract, promptContract),
)

func byName(list ...method) map[string]method {
	m := map[string]method{}
	for _, one := range list {
		m[one.name] = one
	}
	return m
}

// once makes a method whose answer is remembered for repetitions of the request.
func once[P, R any](m collab.Method[P, R], run func(*tx, P) R) method {
	return method{name: m.Name, run: func(t *tx, raw json.RawMessage) any { return run(t, decodeParams[P](raw)) }}
}

// again makes a fresh method.
func again[P, R any](m collab.Method[P, R], run func(*tx, P) R) method {
	made := once(m, run)
	made.fresh = true
	return made
}

// decodeParams reads a method's params. Absent params are an empty object;
// unknown members are passed over.
func decodeParams[P any](raw json.RawMessage) (p P) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return p
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		invalid("%s", misread(err))
	}
	return p
}

// misread says why params cannot be read, by the names that their sender gave.
func misread(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return "params cannot be read: " + err.Error()
	}
	name := "params"
	for part := range strings.SplitSeq(wrong.Field, ".") {
		if part != "" && strings.ToLower(part[:1]) == part[:1] { // others are how we group fields
			name += "." + part
		}
	}
	kind := wrong.Type.Kind()
	if kind == reflect.Pointer {
		kind = wrong.Type.Elem().Kind()
	}
	want := "an object"
	switch kind { //nolint:exhaustive // of the others params have none
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "an array"
	case reflect.Int, reflect.Int64, reflect.Float64:
		want = "a number"
	}
	given, _, _ := strings.Cut(wrong.Value, " ") // a number comes with its digits
	return fmt.Sprintf("%s must be %s, not %s", name, want, given)
}

// findMethod returns a method; the refusal of one that there is not names the known ones.
func findMethod(name string) method {
	m, ok := methods[name]
	if !ok {
		all := sortedKeys(methods)
		family, _, _ := strings.Cut(name, ".")
		if related := filter(all, func(m string) bool { return strings.HasPrefix(m, family+".") }); len(related) > 0 {
			all = related
		}
		invalid("there is no method %q; there are %s", text.Clip(name, 80), strings.Join(all, ", "))
	}
	return m
}

// What one page of a list holds at most, so that a result fits into a frame
// (1 MiB by default) with room to spare.
const (
	pageBytes    = 512 << 10
	defaultLimit = 200
	maxLimit     = 1000
)

// take returns how many items the next page takes from a list of n whose sizes are
// given by the function, in bytes; one at least.
func take(asked, n int, size func(i int) int) int {
	if asked < 0 {
		invalid("limit must not be negative")
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
			invalid("after %q is not in the list: use the next of the former page", text.Clip(p.After, 80))
		}
		list = list[i+1:]
	}
	page.Items = []collab.Listed[T]{}
	n := take(p.Limit, len(list), func(i int) int {
		page.Items = append(page.Items, collab.Listed[T]{RawMessage: encode(show(list[i]))})
		return len(page.Items[i].RawMessage)
	})
	if page.Items = page.Items[:n]; 0 < n && n < len(list) {
		page.Next = new(key(list[n-1]))
	}
	return page
}

// listEvents answers with a page of the log.
func listEvents(t *tx, p collab.EventsParams) (page collab.EventPage) {
	if p.After < 0 {
		invalid("after must not be negative")
	}
	page.Events = []collab.Event{}
	last := t.seq // what the caller has seen does not grow while it is read
	first := max(min(p.After, last)+1, t.first)
	n := take(p.Limit, int(last-first+1), func(i int) int {
		e := t.event(first + int64(i))
		page.Events = append(page.Events, e)
		return len(e.Payload) + len(e.Metadata)
	})
	if page.Events = page.Events[:n]; n > 0 && page.Events[n-1].Seq < last {
		page.Next = new(page.Events[n-1].Seq)
	}
	return page
}
