package bus

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	epoch   = time.Unix(1000, 0)
	east    = BusInstance{"east", "1"}
	mid     = BusInstance{"mid", "1"}
	westBus = BusInstance{"west", "1"}
)

// id is a First with no credential.
func id(text string) DedupKey { return DedupKey{From: "tg:1", MessageID: text} }

// deliver claims a message for a bus that is alone, and says that it is delivered.
func (t *dedupTable) deliver(at time.Time, who DedupKey) (*dedupEntry, error) {
	f, asked, _, err := t.lookup(at, who, dedupWaiter{})
	if err == nil {
		t.resolve(f, asked, at, at, dedupWaiter{}, dedupDecision{deliver: true})
	}
	return f, err
}

// TestDedup_IsBoundedAndExpires fills the table, and lets ten minutes pass.
func TestDedup_IsBoundedAndExpires(t *testing.T) {
	var table dedupTable
	f, err := table.deliver(epoch, id("m1"))
	if err != nil {
		t.Fatal(err)
	}
	full := dedupMaxBytes - f.size()
	table.store(f, make([]byte, full))
	if _, _, _, err := table.lookup(epoch, id("m2"), dedupWaiter{}); err != errDedupFull {
		t.Errorf("one too many: %v", err)
	}
	if _, asked, answer, err := table.lookup(epoch.Add(dedupTTL-1), id("m1"), dedupWaiter{}); asked > 0 || len(answer) != full || err != nil {
		t.Errorf("a repeat within ten minutes: %d, %v", asked, err)
	}
	if _, err := table.deliver(epoch.Add(dedupTTL), id("m1")); err != nil {
		t.Errorf("after ten minutes: %v", err)
	}
	if table.bytes > 1000 || len(table.order) != 1 {
		t.Errorf("%d bytes and %d messages are left", table.bytes, len(table.order))
	}
	for range dedupMaxWaiters {
		if _, asked, _, err := table.lookup(epoch.Add(dedupTTL), id("m1"), dedupWaiter{rpcID: []byte("1")}); asked > 0 || err != nil {
			t.Fatal(asked, err)
		}
	}
	if _, _, _, err := table.lookup(epoch.Add(dedupTTL), id("m1"), dedupWaiter{rpcID: []byte("1")}); err != errDedupWaiters {
		t.Errorf("a repeat too many: %v", err)
	}
	if _, _, _, err := table.lookup(epoch.Add(3*dedupTTL), id("m9"), dedupWaiter{}); err != nil || table.entries[id("m1").id()] == nil {
		t.Errorf("what is still being delivered is forgotten (%v)", err)
	}
}

// TestDedup_BoundsEachCredential checks that a credential that has used up its
// share is refused, and that others are not, until ten minutes have passed.
func TestDedup_BoundsEachCredential(t *testing.T) {
	var table dedupTable
	by := func(credential, id string) DedupKey {
		return DedupKey{From: "tg:1", MessageID: id, Credential: credential}
	}
	f, err := table.deliver(epoch, by("greedy", "m1"))
	if err != nil {
		t.Fatal(err)
	}
	table.store(f, make([]byte, dedupMaxCredentialBytes-f.size()))
	if _, err := table.deliver(epoch, by("greedy", "m2")); err != errDedupCredentialFull {
		t.Errorf("beyond its share: %v", err)
	}
	if f, err = table.deliver(epoch, by("other", "m3")); err != nil {
		t.Fatalf("another credential: %v", err)
	}
	table.store(f, []byte("{}"))
	if _, err := table.deliver(epoch.Add(dedupTTL), by("greedy", "m2")); err != nil || len(table.bytesByCredential) != 1 {
		t.Errorf("after ten minutes: %v; %d credentials have a share", err, len(table.bytesByCredential))
	}
}

// TestDedup_DoesNotDeliverAgainWhenOutcomeIsTooLarge also checks that the bound holds.
func TestDedup_DoesNotDeliverAgainWhenOutcomeIsTooLarge(t *testing.T) {
	var table dedupTable
	f, _ := table.deliver(epoch, id("m1"))
	table.store(f, make([]byte, dedupMaxBytes))
	if _, asked, _, err := table.lookup(epoch, id("m1"), dedupWaiter{}); asked != 0 || err != errDedupTooLarge || table.bytes > dedupMaxBytes {
		t.Errorf("a repeat: %d, %v; %d bytes", asked, err, table.bytes)
	}
	if v := table.check(epoch, "east", westBus, id("m1")); !v.Claimed {
		t.Errorf("another bus may deliver it: %+v", v)
	}
	if _, err := table.deliver(epoch.Add(dedupTTL), id("m1")); err != nil {
		t.Errorf("after ten minutes: %v", err)
	}
}

// TestDecide_AllReplies covers every reply of another bus.
func TestDecide_AllReplies(t *testing.T) {
	older := BusInstance{"mid", "0"}
	answer := []byte("{}")
	for name, c := range map[string]struct {
		known   BusInstance
		replies []DedupReply
		want    dedupDecision
	}{
		"nobody else":               {BusInstance{}, nil, dedupDecision{deliver: true}},
		"all free":                  {BusInstance{}, []DedupReply{{From: mid}, {From: westBus}}, dedupDecision{deliver: true}},
		"one has it":                {BusInstance{}, []DedupReply{{From: mid}, {Claimed: true, From: westBus}}, dedupDecision{owner: westBus}},
		"one knows the outcome":     {westBus, []DedupReply{{From: mid, Answer: answer}, {Claimed: true, From: westBus}}, dedupDecision{answer: answer, owner: mid}},
		"one was said to, has not":  {BusInstance{}, []DedupReply{{Owner: westBus, From: mid}, {From: westBus}}, dedupDecision{deliver: true}},
		"one was said to, is away":  {BusInstance{}, []DedupReply{{Owner: westBus, From: mid}}, dedupDecision{owner: westBus, err: errOwnerUnreachable(westBus)}},
		"one was known to, is away": {westBus, []DedupReply{{From: mid}}, dedupDecision{owner: westBus, err: errOwnerUnreachable(westBus)}},
		"one was known to, has not": {westBus, []DedupReply{{From: westBus}}, dedupDecision{deliver: true}},
		"one had it before a start": {older, []DedupReply{{From: mid}}, dedupDecision{owner: older, err: errOwnerUnreachable(older)}},
	} {
		if got := decide(c.known, c.replies); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
	if err := errOwnerUnreachable(westBus); !strings.Contains(err.Error(), "the bus west took this message first") {
		t.Error(err)
	}
}

// TestDedup_AllowsOneOfTwoAskers checks that the one with the lower name wins, whichever
// learns of the other first, and that a bus that delivers does not yield.
func TestDedup_AllowsOneOfTwoAskers(t *testing.T) {
	var table dedupTable // of mid
	f, asked, _, _ := table.lookup(epoch, id("m"), dedupWaiter{})
	if v := table.check(epoch, "mid", westBus, id("m")); !v.Claimed {
		t.Errorf("to west: %+v", v)
	}
	if v := table.check(epoch, "mid", east, id("m")); v.Claimed || v.Owner != (BusInstance{}) {
		t.Errorf("to east: %+v", v)
	}
	if v := table.check(epoch, "mid", westBus, id("m")); v.Claimed || v.Owner != east {
		t.Errorf("then to west: %+v", v)
	}
	if v := table.check(epoch, "mid", east, id("m")); v.Claimed || v.Owner != (BusInstance{}) {
		t.Errorf("to east again: %+v", v)
	}
	second, again, _, _ := table.lookup(epoch, id("m"), dedupWaiter{}) // by another session of mid
	if second != f || again != asked+1 {
		t.Fatal("another session does not ask anew")
	}
	wait := dedupWaiter{rpcID: []byte("1")}
	if r, _ := table.resolve(f, asked, epoch, epoch, wait, dedupDecision{deliver: true}); r.deliver || r.err != nil || len(f.waiting) != 1 {
		t.Errorf("what was given to east is delivered by mid: %+v", r)
	}
	if r, _ := table.resolve(f, again, epoch, epoch, wait, dedupDecision{deliver: true}); !r.deliver {
		t.Errorf("after east gave it back: %+v", r)
	}
	if v := table.check(epoch, "mid", east, id("m")); !v.Claimed {
		t.Errorf("what is delivered: %+v", v)
	}
	if waiting := table.store(f, []byte("{}")); len(waiting) != 1 {
		t.Errorf("%d got the outcome", len(waiting))
	}
	if v := table.check(epoch, "mid", east, id("m")); string(v.Answer) != "{}" {
		t.Errorf("what was delivered: %+v", v)
	}
}

// TestDedup_KeepsOutcomeOfAnotherBus also checks that it remembers which bus has a message whose
// outcome is unknown.
func TestDedup_KeepsOutcomeOfAnotherBus(t *testing.T) {
	var table dedupTable
	if v := table.check(epoch, "mid", westBus, id("m")); !reflect.DeepEqual(v, DedupReply{}) {
		t.Fatalf("%+v", v)
	}
	f, asked, _, _ := table.lookup(epoch, id("m"), dedupWaiter{})
	wait := dedupWaiter{rpcID: []byte("1")}
	if table.owner(f) != westBus {
		t.Fatal("it is forgotten who has it")
	}
	if r, _ := table.resolve(f, asked, epoch, epoch.Add(time.Second), wait, dedupDecision{owner: westBus}); r.err != nil {
		t.Fatal(r.err)
	}
	if waiting, _ := table.overdue(epoch.Add(time.Second), []string{"east"}); len(waiting) != 0 {
		t.Error("who waits is refused too early")
	}
	if waiting := table.storeRemote(epoch, id("m"), []byte("{}")); len(waiting) != 1 || len(table.remoteWaits) != 0 {
		t.Errorf("%d got the outcome, %d wait", len(waiting), len(table.remoteWaits))
	}
	if _, _, answer, _ := table.lookup(epoch, id("m"), dedupWaiter{}); string(answer) != "{}" {
		t.Errorf("a repeat gets %s", answer)
	}
	if table.storeRemote(epoch, id("m"), []byte("[]")); string(f.answer) != "{}" {
		t.Error("a second outcome took the place of the first")
	}
	if table.storeRemote(epoch, id("n"), []byte("{}")); table.entries[id("n").id()] == nil {
		t.Error("an outcome that nobody asked for is not kept")
	}
	mine, _ := table.deliver(epoch, id("o"))
	if table.storeRemote(epoch, id("o"), []byte("{}")); mine.answer != nil {
		t.Error("the outcome of another side of a partition became that of this one")
	}
}

// TestDedup_NoRoomForOutcomeOfAnotherBus answers a repeat with an outcome that the table has no
// room for: the next repeat asks again, and the entry expires.
func TestDedup_NoRoomForOutcomeOfAnotherBus(t *testing.T) {
	var table dedupTable
	filler, err := table.deliver(epoch, id("filler"))
	if err != nil {
		t.Fatal(err)
	}
	e, attempt, _, err := table.lookup(epoch, id("m"), dedupWaiter{})
	if err != nil {
		t.Fatal(err)
	}
	waiter := dedupWaiter{rpcID: []byte("2")}
	if _, again, _, err := table.lookup(epoch, id("m"), waiter); again != 0 || err != nil {
		t.Fatal(again, err)
	}
	table.store(filler, make([]byte, dedupMaxBytes-table.bytes-1))
	decision := dedupDecision{answer: []byte("{}"), owner: westBus}
	got, waiting := table.resolve(e, attempt, epoch, epoch, dedupWaiter{rpcID: []byte("1")}, decision)
	if string(got.answer) != "{}" || len(waiting) != 1 || e.answer != nil {
		t.Errorf("%+v, %d waiters; want the outcome for the repeat and the one that waits, and nothing kept", got, len(waiting))
	}
	if reply := table.check(epoch, "east", mid, id("m")); reply.Claimed || reply.Owner != westBus {
		t.Errorf("to another bus: %+v; want west as the owner", reply)
	}
	if again, attempt, _, err := table.lookup(epoch, id("m"), waiter); attempt == 0 || err != nil {
		t.Errorf("the next repeat: attempt %d, %v; want it to ask again", attempt, err)
	} else {
		table.resolve(again, attempt, epoch, epoch, waiter, decision)
	}
	if _, err := table.deliver(epoch.Add(dedupTTL), id("n")); err != nil || len(table.order) != 1 {
		t.Errorf("after ten minutes: %v; %d messages are left, want the new one alone", err, len(table.order))
	}
}

// TestDedup_AnswersWaitersForAnotherBus covers a bus that is missing, and one that does not
// answer.
func TestDedup_AnswersWaitersForAnotherBus(t *testing.T) {
	var table dedupTable
	follow := func(text string) *dedupEntry {
		f, asked, _, _ := table.lookup(epoch, id(text), dedupWaiter{})
		table.resolve(f, asked, epoch, epoch.Add(time.Second), dedupWaiter{rpcID: []byte("1")}, dedupDecision{owner: westBus})
		return f
	}
	f := follow("m")
	waiting, why := table.overdue(epoch, []string{"west"})
	if len(waiting) != 1 || why[0].Error() != errOwnerUnreachable(westBus).Error() || f.waiting != nil || len(table.remoteWaits) != 0 {
		t.Errorf("a bus that is missing: %d, %v", len(waiting), why)
	}
	follow("n")
	waiting, why = table.overdue(epoch.Add(time.Second+1), nil)
	if len(waiting) != 1 || why[0] != errDedupLate {
		t.Errorf("a bus that says nothing: %d, %v", len(waiting), why)
	}
	f, asked, _, _ := table.lookup(epoch, id("o"), dedupWaiter{})
	table.lookup(epoch, id("o"), dedupWaiter{rpcID: []byte("2")})
	failed := errors.New("cut off")
	if r, waiting := table.resolve(f, asked, epoch, epoch, dedupWaiter{rpcID: []byte("1")}, dedupDecision{err: failed}); r.err != failed || len(waiting) != 1 {
		t.Errorf("nobody could be asked: %+v, %d", r, len(waiting))
	}
	if v := table.check(epoch, "a", westBus, id("o")); v.Claimed {
		t.Error("what this bus does not deliver is not given")
	}
}

// TestDelivery_TimeoutCountsFromAcceptance: a message that another bus had noted, and did
// not deliver, is remembered for ten minutes from its delivery.
func TestDelivery_TimeoutCountsFromAcceptance(t *testing.T) {
	var table dedupTable
	table.check(epoch, "mid", westBus, id("m"))
	table.deliver(epoch.Add(time.Minute), id("n"))
	f, asked, _, _ := table.lookup(epoch.Add(9*time.Minute), id("m"), dedupWaiter{})
	table.resolve(f, asked, epoch.Add(9*time.Minute), epoch, dedupWaiter{}, dedupDecision{deliver: true})
	table.store(f, []byte("{}"))
	if _, _, answer, _ := table.lookup(epoch.Add(18*time.Minute), id("m"), dedupWaiter{}); answer == nil {
		t.Error("it is forgotten early")
	}
}

// A question is on its way from one bus to another, or answered.
type question struct {
	of      int
	asked   int
	entry   *dedupEntry
	known   BusInstance
	to      []int // buses that have not replied
	replies []DedupReply
}

// TestDedup_OneBusDeliversInEveryOrder plays three buses whose sessions want to deliver
// one message, six times in all, with replies and their counts in any order.
func TestDedup_OneBusDeliversInEveryOrder(t *testing.T) {
	names := []BusInstance{east, mid, westBus}
	again := dedupWaiter{rpcID: []byte("1")}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 24))
		var tables [3]dedupTable
		var open []*question
		delivered := 0
		for sends := 6; sends > 0 || len(open) > 0; {
			if sends > 0 && random.IntN(3) == 0 {
				sends--
				i := random.IntN(3)
				if f, asked, _, _ := tables[i].lookup(epoch, id("m"), again); asked > 0 {
					open = append(open, &question{i, asked, f, tables[i].owner(f), []int{(i + 1) % 3, (i + 2) % 3}, nil})
				}
			}
			if len(open) == 0 {
				continue
			}
			at := random.IntN(len(open))
			q := open[at]
			if len(q.to) > 0 {
				next := random.IntN(len(q.to))
				voter := q.to[next]
				q.to = slices.Delete(q.to, next, next+1)
				v := tables[voter].check(epoch, names[voter].Bus, names[q.of], id("m"))
				if v.From = names[voter]; v.Owner == names[q.of] {
					v.Owner = BusInstance{} // as the cluster does
				}
				q.replies = append(q.replies, v)
				continue
			}
			open = slices.Delete(open, at, at+1)
			r, _ := tables[q.of].resolve(q.entry, q.asked, epoch, epoch, again, decide(q.known, q.replies))
			if r.deliver {
				delivered++
			}
			if r.err != nil {
				t.Errorf("seed %d: %v", seed, r.err)
			}
		}
		if delivered != 1 {
			t.Fatalf("seed %d: it was delivered %d times", seed, delivered)
		}
	}
}
