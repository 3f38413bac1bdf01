package broker

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A method is one method of the broker.
type method struct {
	run func(t *turn, params json.RawMessage) (any, error)
	// fresh methods tell or refresh the state as it is now: a repetition of the
	// request runs again instead of getting the stored answer.
	fresh bool
}

// methods is every method by name.
var methods = map[string]method{
	"identity.announce":   again((*turn).announce),
	"identity.heartbeat":  again((*turn).heartbeat),
	"identity.list":       again((*turn).listIdentities),
	"identity.resolve":    again((*turn).resolveIdentity),
	"conversation.create": once((*turn).createConversation),
	"conversation.get":    again((*turn).getConversation),
	"message.post":        once((*turn).postMessage),
	"question.ask":        once((*turn).ask),
	"question.answer":     once((*turn).answer),
	"question.close":      once((*turn).closeQuestion),
	"question.decline":    once((*turn).declineQuestion),
	"question.reopen":     once((*turn).reopenQuestion),
	"question.spawn_work": once((*turn).spawnWork),
	"question.get":        again((*turn).getQuestion),
	"question.list":       again((*turn).listQuestions),
	"work_item.create":    once((*turn).createWork),
	"work_item.update":    once((*turn).updateWork),
	"work_item.get":       again((*turn).getWork),
	"work_item.list":      again((*turn).listWork),
	"work_item.wake":      once((*turn).wakeWork),
	"invocation.create":   once((*turn).invoke),
	"flight.update":       once((*turn).updateFlight),
	"flight.get":          again((*turn).getFlight),
	"delivery.list":       again((*turn).listDeliveries),
	"delivery.claim":      once((*turn).claimDelivery),
	"delivery.ack":        once((*turn).ackDelivery),
	"delivery.nack":       once((*turn).nackDelivery),
	"binding.set":         once((*turn).setBinding),
	"binding.get":         again((*turn).getBinding),
	"claim.acquire":       once((*turn).acquireClaim),
	"claim.release":       once((*turn).releaseClaim),
	"claim.decline":       once((*turn).declineClaim),
	"claim.get":           again((*turn).getClaim),
	"events.list":         again((*turn).listEvents),
	"wake.explain":        again((*turn).explainWake),
	"prompt.contract":     again((*turn).promptContract),
}

func once[P any](run func(*turn, P) (any, error)) method  { return method{decoded(run), false} }
func again[P any](run func(*turn, P) (any, error)) method { return method{decoded(run), true} }

func decoded[P any](run func(*turn, P) (any, error)) func(*turn, json.RawMessage) (any, error) {
	return func(t *turn, raw json.RawMessage) (any, error) {
		p, err := decodeParams[P](raw)
		if err != nil {
			return nil, err
		}
		return run(t, p)
	}
}

// findMethod returns a method, or the error that names the known ones.
func findMethod(name string) (method, error) {
	if m, ok := methods[name]; ok {
		return m, nil
	}
	family, _, _ := strings.Cut(name, ".")
	var known []string
	for _, m := range sortedKeys(methods) {
		if strings.HasPrefix(m, family+".") {
			known = append(known, m)
		}
	}
	if known == nil {
		known = sortedKeys(methods)
	}
	return method{}, invalid("there is no method %q; there are %s", clip(name, 80), strings.Join(known, ", "))
}

type eventsParams struct {
	After int64 `json:"after"`
	Limit int   `json:"limit"`
}

// listEvents answers with a page of the log. Next is the seq of its last event
// when there are more, else null.
func (t *turn) listEvents(p eventsParams) (any, error) {
	limit, err := pageLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	if p.After < 0 {
		return nil, invalid("after must not be negative")
	}
	list := []Event{}
	size := 0
	last := t.seq // what the caller has seen does not grow while it is read
	for seq := min(p.After, last) + 1; seq <= last && len(list) < limit; seq++ {
		e, err := t.event(seq)
		if err != nil {
			return nil, fmt.Errorf("reading event %d: %w", seq, err)
		}
		if size += len(e.Payload) + len(e.Metadata); len(list) > 0 && size > pageBytes {
			break
		}
		list = append(list, e)
	}
	var next any
	if n := len(list); n > 0 && list[n-1].Seq < last {
		next = list[n-1].Seq
	}
	return map[string]any{"events": list, "next": next}, nil
}
