package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// An observedEvent holds the params of chat/deliver in all drafts.
type observedEvent struct {
	EventID      string `json:"eventId"`
	Instructions string `json:"instructions"`
	Signal       string `json:"signal"`
	Conversation struct {
		ID   string `json:"id"`
		Kind string `json:"kind"`
	} `json:"conversation"`
	Target struct {
		Directedness string `json:"directedness"`
	} `json:"target"`
	Attention struct {
		Policy string `json:"policy"`
	} `json:"attention"`
	Injection struct {
		Mode string `json:"mode"`
	} `json:"injection"`
	Content       json.RawMessage `json:"content"`
	Knock         json.RawMessage `json:"knock"`
	Digest        bool            `json:"digest"`
	AddressedToMe *bool           `json:"addressedToMe"`
	Policy        string          `json:"policy"`
	CreatedAt     string          `json:"createdAt"`
	Reliability   struct {
		Attempt        int    `json:"attempt"`
		IdempotencyKey string `json:"idempotencyKey"`
	} `json:"reliability"`
}

func (e *observedEvent) policy() attention.Policy {
	if e.Policy != "" {
		return attention.Policy(e.Policy)
	}
	return attention.Policy(e.Attention.Policy)
}

// modes returns the modes that the event may have, because the later drafts do not name its mode.
func (e *observedEvent) modes() []string {
	switch {
	case e.Injection.Mode != "":
		return []string{e.Injection.Mode}
	case len(e.Knock) > 0:
		return []string{string(attention.ModeNotify)}
	case e.Digest:
		return []string{string(attention.ModeDigest)}
	}
	return []string{string(attention.ModeImmediate), string(attention.ModeBuffered)}
}

// visibility returns where an answer to the event is seen.
func (e *observedEvent) visibility() string {
	if slices.Contains([]string{"dm", "thread"}, e.Conversation.Kind) {
		return e.Conversation.Kind
	}
	return "channel"
}

// An observedHistory is the history of one event.
type observedHistory struct {
	keys    []string
	content json.RawMessage // the last one
	knock   string          // the key of the knock that the program claimed
}

// A deferral is the event that the program defers, once.
type deferral struct {
	event *observedEvent // nil before
	open  bool           // its answer is due
}

// deliver checks a delivery and acts on it.
func (o *observer) deliver(f *observedFrame) {
	var e observedEvent
	err := json.Unmarshal(f.Params, &e)
	if err == nil {
		err = o.envelopeProblems(&e)
	}
	o.check("envelope", err)
	if e.EventID == "" || e.Reliability.IdempotencyKey == "" {
		return
	}
	o.deliveries[string(f.ID)] = e.EventID
	o.checkMembers(&e)
	key, history := e.Reliability.IdempotencyKey, o.events[e.EventID]
	if history == nil {
		history = &observedHistory{}
		o.events[e.EventID] = history
	}
	last, again := o.attempts[key]
	o.attempts[key] = e.Reliability.Attempt
	isNew := !slices.Contains(history.keys, key)
	edited := len(history.content) > 0 && len(e.Content) > 0 && !bytes.Equal(history.content, e.Content)
	if edited {
		o.check("edited", keyProblem(isNew, "the new text came with the key of an earlier one"))
		if slices.Contains(history.keys, o.withheld) && o.verdicts["redelivery"] == nil {
			o.withheld = "" // the next event is not accepted instead
		}
	}
	if isNew {
		history.keys = append(history.keys, key)
	}
	if len(e.Content) > 0 {
		history.content = e.Content
	}
	obliged, may := e.policy() == attention.PolicyMustRespond, e.policy() == attention.PolicyMayRespond
	if o.withheld == "" && obliged && len(e.Knock) == 0 && !edited {
		o.withheld = key
		return
	}
	o.checkRedelivery(&e, again, last)
	o.write(map[string]any{"id": f.ID, "result": map[string]any{"accepted": true}})
	switch {
	case len(e.Knock) > 0 && may && history.knock == "" && o.has("chatTools.claim"):
		history.knock = key
		o.callTool("chat.claim", map[string]any{"eventId": e.EventID}, func(harness.Result) {})
		return
	case history.knock != "" && len(e.Knock) == 0:
		o.check("granted", keyProblem(key != history.knock, "the content came with the key of the knock"))
	case !obliged:
		return
	}
	o.respond(&e, history, isNew)
}

// keyProblem returns nil if a key is new, as it should be, and otherwise an error that begins
// with otherwise.
func keyProblem(isNew bool, otherwise string) error {
	if isNew {
		return nil
	}
	return errors.New(otherwise + ", which a program drops")
}

// checkMembers checks the members of a delivery that were negotiated or are required everywhere.
func (o *observer) checkMembers(e *observedEvent) {
	o.check("rules", o.rulesProblem(e))
	if o.opts.Contract {
		o.check("contract", contractProblem(e.Instructions))
	}
	var wrong error
	if modes := e.modes(); !slices.ContainsFunc(modes, func(m string) bool { return o.has("injection." + m) }) {
		wrong = fmt.Errorf("an event came in the mode %q", modes)
	}
	o.check("modes", wrong)
	if takes := o.has("chatTools.reactionSignals"); e.Signal != "" || !takes {
		wrong = nil
		if e.Signal != "" && !takes {
			wrong = fmt.Errorf("the signal %q came", e.Signal)
		}
		o.check("signals", wrong)
	}
}

// respond answers an event. It defers the first one that it may defer, until another event comes.
func (o *observer) respond(e *observedEvent, history *observedHistory, isNew bool) {
	late, withheld := o.deferral.event, slices.Contains(history.keys, o.withheld)
	switch {
	case !o.has("chatTools.sendMessage"):
	case late != nil && o.deferral.open && late.EventID == e.EventID:
		o.check("deferred", keyProblem(isNew, "the deferred event came again with an earlier key"))
		o.deferral.open = false
		o.answer(e)
	case !isNew && e.Reliability.IdempotencyKey != o.withheld:
	case late == nil && history.knock == "" && !withheld && o.has("chatTools.defer"):
		o.deferEvent(e)
	default:
		if o.deferral.open {
			o.deferral.open = false
			o.send(late, "A late answer of the conformance kit for hosts.", func(result harness.Result) {
				var wrong error
				if result.IsError {
					wrong = errors.New("the answer to the deferred event is refused")
				}
				o.check("deferred", wrong)
			})
		}
		o.answer(e)
	}
}

// deferEvent defers an event. It is answered when it comes again, or with the next event.
func (o *observer) deferEvent(e *observedEvent) {
	o.deferral = deferral{event: e, open: true}
	arguments := map[string]any{"eventId": e.EventID, "reason": "a test of deferrals", "eta": "1h"}
	o.callTool("chat.defer", arguments, func(result harness.Result) {
		var made struct {
			Disposition string `json:"disposition"`
		}
		switch err := json.Unmarshal(result.StructuredContent, &made); {
		case result.IsError:
			o.check("deferred", errors.New("a deferral is refused"))
		case err != nil || made.Disposition != string(attention.DispositionDeferred):
			o.check("deferred", fmt.Errorf("a deferral gives the disposition %q", made.Disposition))
		}
	})
}

// checkRedelivery checks the second delivery of the event that was not accepted.
func (o *observer) checkRedelivery(e *observedEvent, again bool, last int) {
	key := e.Reliability.IdempotencyKey
	switch withheld := slices.Contains(o.events[e.EventID].keys, o.withheld); {
	case !withheld || o.verdicts["redelivery"] != nil:
	case key != o.withheld:
		o.check("redelivery", errors.New("it came again with another key"))
	case !o.has("delivery.redelivery"):
		o.check("redelivery", errors.New("it came again, although the program takes no event twice"))
	case again && e.Reliability.Attempt <= last:
		o.check("redelivery", fmt.Errorf("it came again with the attempt %d after %d", e.Reliability.Attempt, last))
	default:
		o.check("redelivery", nil)
	}
}

// cancelProblem returns what is wrong with a cancellation.
func (o *observer) cancelProblem(f *observedFrame) error {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	switch err := json.Unmarshal(f.Params, &p); {
	case err != nil:
		return err
	case !o.has("utilities.cancellation"):
		return errors.New("a cancellation came, although the program takes none")
	case o.deliveries[string(p.RequestID)] == "":
		return fmt.Errorf("%s is cancelled, which is no delivery", p.RequestID)
	case o.deferral.open && o.deferral.event.EventID == o.deliveries[string(p.RequestID)]:
		o.deferral = deferral{} // the next event is deferred instead
	}
	return nil
}

// send sends an answer to an event.
func (o *observer) send(e *observedEvent, text string, then func(result harness.Result)) {
	o.callTool("chat.send_message", o.answerTo(e, text), then)
}

func (*observer) answerTo(e *observedEvent, text string) map[string]any {
	return map[string]any{
		"inReplyTo": e.EventID, "text": text, "idempotencyKey": "answer:" + e.Reliability.IdempotencyKey,
		"visibility": e.visibility(), "directedness": string(attention.DirectedAmbient),
	}
}

// answer answers an event: first with a visibility that no draft has, then twice with the same key.
func (o *observer) answer(e *observedEvent) {
	const text = "This is the conformance kit for hosts."
	odd := o.answerTo(e, text)
	odd["visibility"] = "world"
	o.callTool("chat.send_message", odd, func(result harness.Result) {
		var wrong error
		if !result.IsError {
			wrong = errors.New("a message with the visibility \"world\" is sent")
		}
		o.check("audience", wrong)
	})
	idOf := func(result harness.Result) (id string) {
		var sent struct {
			MessageID string `json:"messageId"`
		}
		if json.Unmarshal(result.StructuredContent, &sent) == nil {
			id = sent.MessageID
		}
		return id
	}
	o.send(e, text, func(first harness.Result) {
		o.send(e, text, func(second harness.Result) {
			var wrong error
			switch {
			case first.IsError || second.IsError:
				wrong = fmt.Errorf("an answer is refused: first %t, again %t", first.IsError, second.IsError)
			case idOf(first) != idOf(second):
				wrong = fmt.Errorf("the messages %q and %q were sent", idOf(first), idOf(second))
			}
			o.check("idempotent", wrong)
		})
	})
}

// audienceProblem returns which members of a message's audience the tool does not take.
func audienceProblem(sends *harness.Tool) error {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(sends.InputSchema, &schema); err != nil {
		return fmt.Errorf("the schema of %s cannot be read: %w", sends.Name, err)
	}
	for _, name := range []string{"inReplyTo", "idempotencyKey", "visibility", "directedness"} {
		if len(schema.Properties[name]) == 0 {
			return fmt.Errorf("%s does not take %s", sends.Name, name)
		}
	}
	return nil
}
