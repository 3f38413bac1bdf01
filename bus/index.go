package bus

import (
	"hash/maphash"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"hubbub/protocol"
)

// A subscriber is a peer that has patterns in the index: a session of this bus, or a
// peer of another bus of the cluster.
type subscriber struct {
	session *session        // nil if it is a peer of another bus
	remote  *remote         // nil if it is a session of this bus
	peer    protocol.PeerID // of a peer of another bus
}

// A target is a subscriber that receives a topic's messages.
type target struct {
	*subscriber
	observe bool // its answer is ignored
}

// An index finds the subscribers whose patterns match a topic.
//
// Patterns are stored by shape. Exact patterns are stored under their topic, and patterns with
// one star at the end under the text before it. All others are stored under a piece of their
// literal text of at most 8 bytes, which every matching topic contains: the piece that the fewest
// patterns have so far. A lookup visits one map entry for each distinct length of a prefix, and
// one for each position and length of a piece, and tries only the patterns there.
//
// Results are cached by topic. Every change of the subscriptions increases a generation number,
// which makes older results invalid. So a cached lookup costs the same for any number of
// subscriptions.
type index struct {
	generation atomic.Uint64

	mu        sync.RWMutex // guards the fields below
	entries   map[protocol.Pattern]*entry
	exact     map[string]*entry
	prefixes  bucketed // by the text before the star
	general   bucketed // by a piece of the pattern
	count     int      // subscriptions
	observing int      // subscriptions that only observe

	cache           [64]shard
	seed            maphash.Seed
	sweptGeneration uint64 // generation at the last call of dropStaleCache; used only by the sweeper
}

// An entry is one pattern and its subscribers.
type entry struct {
	pattern  protocol.Pattern
	matcher  *protocol.Matcher    // nil for exact and prefix patterns
	subs     map[*subscriber]bool // value: observe
	key      string               // its bucket, and its position there, if it is in one
	position int
}

// bucketed entries are found by a key, a text that every matching topic contains.
type bucketed struct {
	buckets map[string][]*entry
	lengths [protocol.MaxPattern + 1]int // how many entries have a key of that length
}

func (b *bucketed) add(e *entry, key string) {
	e.key, e.position = key, len(b.buckets[key])
	b.buckets[key] = append(b.buckets[key], e)
	b.lengths[len(key)]++
}

func (b *bucketed) drop(gone *entry) {
	b.lengths[len(gone.key)]--
	list := b.buckets[gone.key]
	last := len(list) - 1
	list[gone.position], list[last] = list[last], nil
	if last == 0 {
		delete(b.buckets, gone.key)
		return
	}
	if gone.position < last {
		list[gone.position].position = gone.position
	}
	b.buckets[gone.key] = list[:last]
}

// maxPiece is the longest key of a general pattern, in bytes. A lookup tries every piece of the
// topic up to that length.
const maxPiece = 8

// piece returns the key for a general pattern: the piece of its literal text that the fewest
// others have, and the longest of these. It is empty for a pattern with only wildcards.
func (b *bucketed) piece(p protocol.Pattern) (key string) {
	least := len(b.buckets[""])
	for text := range strings.FieldsFuncSeq(string(p), func(r rune) bool { return r == '*' || r == '?' }) {
		size := min(len(text), maxPiece)
		for at := range len(text) - size + 1 {
			piece := text[at : at+size]
			if n := len(b.buckets[piece]); key == "" || n < least || n == least && size > len(key) {
				key, least = piece, n
			}
		}
	}
	return key
}

// A shard is one part of the cache, with its own lock.
type shard struct {
	mu     sync.RWMutex // guards topics
	topics map[string]cachedTargets
}

type cachedTargets struct {
	generation uint64
	targets    []target
}

// maxCached bounds the topics of one shard, because peers choose the topics. A full shard is
// emptied.
const maxCached = 2048

func newIndex() *index {
	return &index{
		entries: map[protocol.Pattern]*entry{}, exact: map[string]*entry{}, seed: maphash.MakeSeed(),
		prefixes: bucketed{buckets: map[string][]*entry{}}, general: bucketed{buckets: map[string][]*entry{}},
	}
}

// A patternSet is a subscriber and its patterns.
type patternSet struct {
	*subscriber
	patterns map[protocol.Pattern]bool // value: observe
}

// replace removes the patterns of losers and adds those of winner, in one step.
func (x *index) replace(losers []patternSet, winner patternSet) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range losers {
		for p := range l.patterns {
			x.removeLocked(l.subscriber, p)
		}
	}
	for p, observe := range winner.patterns {
		x.addLocked(winner.subscriber, p, observe)
	}
	x.generation.Add(1)
}

// add subscribes s to a pattern, or changes whether s observes.
func (x *index) add(s *subscriber, p protocol.Pattern, observe bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.addLocked(s, p, observe)
	x.generation.Add(1)
}

func (x *index) addLocked(s *subscriber, p protocol.Pattern, observe bool) {
	e := x.entryLocked(p)
	x.uncountLocked(e, s)
	e.subs[s] = observe
	x.count++
	if observe {
		x.observing++
	}
}

func (x *index) entryLocked(p protocol.Pattern) *entry {
	if e, ok := x.entries[p]; ok {
		return e
	}
	e := &entry{pattern: p, subs: map[*subscriber]bool{}}
	x.entries[p] = e
	switch shape, text := p.Shape(); shape {
	case protocol.ShapeExact:
		x.exact[text] = e
	case protocol.ShapePrefix:
		x.prefixes.add(e, text)
	default:
		e.matcher = p.Matcher()
		x.general.add(e, x.general.piece(p))
	}
	return e
}

// remove ends a subscription.
func (x *index) remove(s *subscriber, p protocol.Pattern) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(s, p)
	x.generation.Add(1)
}

func (x *index) removeLocked(s *subscriber, p protocol.Pattern) {
	e := x.entryLocked(p)
	x.uncountLocked(e, s)
	delete(e.subs, s)
	if len(e.subs) == 0 {
		x.dropLocked(e)
	}
}

func (x *index) uncountLocked(e *entry, s *subscriber) {
	observe, ok := e.subs[s]
	if ok {
		x.count--
	}
	if observe {
		x.observing--
	}
}

func (x *index) dropLocked(gone *entry) {
	delete(x.entries, gone.pattern)
	switch shape, text := gone.pattern.Shape(); shape {
	case protocol.ShapeExact:
		delete(x.exact, text)
	case protocol.ShapePrefix:
		x.prefixes.drop(gone)
	default:
		x.general.drop(gone)
	}
}

// subscribers returns the number of subscribers to an exact pattern.
func (x *index) subscribers(topic string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e, ok := x.exact[topic]; ok {
		return len(e.subs)
	}
	return 0
}

// sessionsOf returns the sessions of this bus that are subscribed to an exact pattern.
func (x *index) sessionsOf(topic string) (list []*session) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e, ok := x.exact[topic]; ok {
		for s := range e.subs {
			if s.session != nil {
				list = append(list, s.session)
			}
		}
	}
	return list
}

// size returns the number of subscriptions, and how many of them only observe.
func (x *index) size() (all, observing int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count, x.observing
}

// targets returns the subscribers of a topic, each once. The slice is shared; the caller must not
// change it.
func (x *index) targets(topic string) []target {
	generation := x.generation.Load()
	sh := &x.cache[maphash.String(x.seed, topic)%uint64(len(x.cache))]
	sh.mu.RLock()
	hit, ok := sh.topics[topic]
	sh.mu.RUnlock()
	if ok && hit.generation == generation {
		return hit.targets
	}
	targets := x.find(topic)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if x.generation.Load() != generation {
		return targets // outdated already
	}
	if sh.topics == nil || len(sh.topics) >= maxCached {
		sh.topics = make(map[string]cachedTargets)
	}
	sh.topics[topic] = cachedTargets{generation, targets}
	return targets
}

// dropStaleCache empties the cache if the subscriptions have changed since the last call.
// Otherwise invalid results would keep ended sessions in memory until the same topic is looked up
// again.
func (x *index) dropStaleCache() {
	generation := x.generation.Load()
	if generation == x.sweptGeneration {
		return
	}
	x.sweptGeneration = generation
	for i := range x.cache {
		sh := &x.cache[i]
		sh.mu.Lock()
		sh.topics = nil
		sh.mu.Unlock()
	}
}

// find looks up a topic without the cache.
func (x *index) find(topic string) []target {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var matched []*entry
	if e, ok := x.exact[topic]; ok {
		matched = append(matched, e)
	}
	for length := 0; length <= min(len(topic), protocol.MaxPattern); length++ {
		if x.prefixes.lengths[length] > 0 {
			matched = append(matched, x.prefixes.buckets[topic[:length]]...)
		}
	}
	for e := range x.general.candidates(topic) {
		if e.matcher.Match(topic) {
			matched = append(matched, e)
		}
	}
	return merge(matched)
}

// candidates yields the entries whose key is in the topic, each once.
func (b *bucketed) candidates(topic string) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for length := 0; length <= min(len(topic), maxPiece); length++ {
			if b.lengths[length] == 0 {
				continue
			}
			for at := range len(topic) - length + 1 {
				piece := topic[at : at+length]
				list := b.buckets[piece]
				if len(list) == 0 || strings.Index(topic, piece) < at {
					continue
				}
				for _, e := range list {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// merge returns one target for each subscriber. A subscriber observes only if all of
// its matching subscriptions do.
func merge(entries []*entry) []target {
	if len(entries) == 0 {
		return nil
	}
	at := make(map[*subscriber]int)
	var targets []target
	for _, e := range entries {
		for s, observe := range e.subs {
			i, ok := at[s]
			if !ok {
				at[s] = len(targets)
				targets = append(targets, target{s, observe})
				continue
			}
			targets[i].observe = targets[i].observe && observe
		}
	}
	return targets
}
