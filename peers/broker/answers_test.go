package broker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

// A requester is a scripted requester: take returns the result of each attempt.
type requester struct {
	mu      sync.Mutex
	take    func(attempt int) (protocol.SendResult, error)
	tries   []string // texts, in order
	settled []int64
}

func (k *requester) send(ctx context.Context, _ protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
	k.mu.Lock()
	k.tries = append(k.tries, string(m.Content))
	attempt := len(k.tries)
	k.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return protocol.SendResult{}, err
	}
	return k.take(attempt)
}

// answererTo returns an answerer to the taker, on the clock of the test's bubble.
func answererTo(k *requester) *answerer {
	log := zerolog.Nop()
	return newAnswerer(k.send, func(item answer) { k.settled = append(k.settled, item.id) }, time.Now, &log)
}

func taken(int) (protocol.SendResult, error) { return protocol.SendResult{DeliveredTo: 1}, nil }

// absent is the bus's result for a requester that is not connected.
func absent(int) (protocol.SendResult, error) { return protocol.SendResult{}, nil }

func answersTo(to protocol.PeerID, ids ...int64) (list []answer) {
	for _, id := range ids {
		list = append(list, answer{id: id, to: to, content: []byte{byte('0' + id)}, at: time.Now().UnixMicro()})
	}
	return list
}

// TestAnswerer_LeavesUnsentAnswersToTheNextRun checks that an attempt that a stop interrupts is
// not settled.
func TestAnswerer_LeavesUnsentAnswersToTheNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, during := range map[string]func(a *answerer) func(int) (protocol.SendResult, error){
			"while it is sent": func(a *answerer) func(int) (protocol.SendResult, error) {
				return func(int) (protocol.SendResult, error) {
					<-a.ctx.Done()
					return protocol.SendResult{}, context.Cause(a.ctx)
				}
			},
			"while it waits for the next attempt": func(*answerer) func(int) (protocol.SendResult, error) { return absent },
		} {
			k := &requester{}
			a := answererTo(k)
			k.take = during(a)
			a.add(answersTo("cli:will", 1))
			synctest.Wait()
			a.close()
			if len(k.settled) != 0 {
				t.Errorf("%s: an answer that nobody got was forgotten", name)
			}
			a.add(answersTo("cli:will", 2))
			synctest.Wait()
			if len(k.tries) != 1 {
				t.Errorf("%s: %d were sent after the stop", name, len(k.tries)-1)
			}
		}
	})
}

// TestAnswerer_SendsInOrderAndGivesUp checks that each answer is tried until it is taken, and the
// next only then. It is given up after a minute if its requester stays away, and after five if it
// is not taken.
func TestAnswerer_SendsInOrderAndGivesUp(t *testing.T) {
	broken := func(int) (protocol.SendResult, error) { return protocol.SendResult{}, errors.New("the bus is away") }
	for name, c := range map[string]struct {
		take        func(int) (protocol.SendResult, error)
		from, until time.Duration // when the first answer is given up
	}{
		"taken":     {taken, 0, 0},
		"absent":    {absent, time.Minute, 80 * time.Second},
		"no answer": {broken, 5 * time.Minute, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				k := &requester{}
				a := answererTo(k)
				defer a.close()
				var gaveUp time.Duration
				k.take = func(attempt int) (protocol.SendResult, error) {
					if k.tries[attempt-1] == "2" {
						gaveUp = time.Since(began)
						return taken(attempt)
					}
					return c.take(attempt)
				}
				a.add(answersTo("cli:will", 1, 2))
				for !a.idle() {
					timetest.Advance(time.Second)
				}
				if len(k.settled) != 2 || k.settled[0] != 1 || k.settled[1] != 2 {
					t.Errorf("settled were %v", k.settled)
				}
				if gaveUp < c.from || gaveUp > c.until {
					t.Errorf("the second answer was sent after %v; want %v to %v", gaveUp, c.from, c.until)
				}
			})
		})
	}
}

// TestAnswerer_DelaysNoOtherRequester checks that each requester has a bounded queue of its own.
func TestAnswerer_DelaysNoOtherRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &requester{take: absent}
		a := answererTo(k)
		defer a.close()
		many := make([]answer, maxUnsent)
		for i := range many {
			many[i] = answer{id: int64(i), to: "cli:away", content: []byte("0"), at: time.Now().UnixMicro()}
		}
		a.add(many[1:])
		if a.full("cli:away") {
			t.Error("a lane is full before its bound")
		}
		a.add(many[:1])
		synctest.Wait()
		k.mu.Lock()
		k.take = taken
		k.mu.Unlock()
		a.add(answersTo("cli:will", 1))
		synctest.Wait()
		if !a.full("cli:away") || a.full("cli:will") || len(k.settled) != 1 {
			t.Errorf("full: %v and %v; settled: %v", a.full("cli:away"), a.full("cli:will"), k.settled)
		}
	})
}

// TestAnswerer_BoundsAttempts checks four attempts for a rejected answer and one for an answer
// that the bus refuses. Each attempt may take forty seconds.
func TestAnswerer_BoundsAttempts(t *testing.T) {
	rejected := protocol.SendResult{Failures: []protocol.Failure{{Peer: "agent:a", Status: protocol.OutcomeRejected}}}
	for name, c := range map[string]struct {
		result protocol.SendResult
		err    error
		want   int
	}{
		"rejected": {rejected, nil, 4},
		"refused":  {protocol.SendResult{}, &jsonrpc.Error{Code: protocol.CodeInvalidParams, Message: "no"}, 1},
		"taken":    {protocol.SendResult{DeliveredTo: 1}, nil, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries, settled, log := 0, 0, zerolog.Nop()
			a := newAnswerer(func(ctx context.Context, topic protocol.Topic, _ protocol.Message) (protocol.SendResult, error) {
				tries++
				if until, ok := ctx.Deadline(); !ok || time.Until(until) != 40*time.Second || topic != "agent:a" {
					t.Errorf("%s: sent to %s until %v", name, topic, until)
				}
				return c.result, c.err
			}, func(answer) { settled++ }, time.Now, &log)
			defer a.close()
			a.add(answersTo("agent:a", 1))
			for !a.idle() {
				timetest.Advance(time.Second)
			}
			if tries != c.want || settled != 1 {
				t.Errorf("%s: tried %d times, settled %d; want %d", name, tries, settled, c.want)
			}
		})
	}
	if full := newAnswerer(nil, nil, nil, nil); maxUnsent != 2000 || full.full("agent:a") {
		t.Errorf("%d answers may wait", maxUnsent)
	}
}

// TestAnswer_HasItsEnvelope checks that an answer is a message of its own with the time of the
// decision.
func TestAnswer_HasItsEnvelope(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 5000, time.UTC)
	a := answer{to: "agent:a", content: []byte("{}"), messageID: "msg_1", inReplyTo: "msg_0", traceParent: "tp", at: at.UnixMicro()}
	got := a.message()
	if got.MessageID != "msg_1" || got.InReplyTo != "msg_0" || got.TraceParent != "tp" || got.From != protocol.PeerBroker ||
		got.Type != protocol.TypeCollabResult || got.Timestamp != formatTime(at) || string(got.Content) != "{}" {
		t.Errorf("it is %+v", got)
	}
}
