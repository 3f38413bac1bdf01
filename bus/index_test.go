package bus

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"hubbub/protocol"

	"pgregory.net/rapid"
)

func TestIndex_AgreesWithEveryPattern(t *testing.T) { rapid.Check(t, indexAgrees) }

func FuzzIndex_AgreesWithEveryPattern(f *testing.F) { f.Fuzz(rapid.MakeFuzz(indexAgrees)) }

// indexAgrees drives the index with random changes and asks it for random topics,
// and compares it with a linear search of a list.
func indexAgrees(t *rapid.T) {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab:*?")), 1, 6, -1)
	topic := rapid.StringOfN(rapid.RuneFrom([]rune("ab:")), 1, 6, -1)
	x := newIndex()
	sessions := []*subscriber{{peer: "a"}, {peer: "b"}, {peer: "c"}}
	type key struct {
		s *subscriber
		p protocol.Pattern
	}
	model := map[key]bool{}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		k := key{rapid.SampledFrom(sessions).Draw(t, "session"), protocol.Pattern(text.Draw(t, "pattern"))}
		if _, ok := model[k]; ok && rapid.Bool().Draw(t, "remove") {
			x.remove(k.s, k.p)
			delete(model, k)
		} else {
			observe := rapid.Bool().Draw(t, "observe")
			x.add(k.s, k.p, observe)
			model[k] = observe
		}
		want := map[*subscriber]bool{}
		name := topic.Draw(t, "topic")
		for k, observe := range model {
			if k.p.Matches(protocol.Topic(name)) {
				before, ok := want[k.s]
				want[k.s] = observe && (!ok || before)
			}
		}
		got := x.targets(name)
		if len(got) != len(want) {
			t.Fatalf("%q goes to %d sessions; want %d (%v)", name, len(got), len(want), model)
		}
		for _, target := range got {
			if observe, ok := want[target.subscriber]; !ok || observe != target.observe {
				t.Fatalf("%q goes to %s (observe %t); want %v", name, target.peer, target.observe, want)
			}
		}
		observing := 0
		for _, observe := range model {
			if observe {
				observing++
			}
		}
		if all, o := x.size(); all != len(model) || o != observing {
			t.Fatalf("size %d, %d; want %d, %d", all, o, len(model), observing)
		}
	}
	for k := range model {
		x.remove(k.s, k.p)
	}
	if len(x.entries)+len(x.exact)+len(x.prefixes.buckets)+len(x.general.buckets) != 0 {
		t.Fatalf("%d patterns are left behind", len(x.entries))
	}
}

func TestIndex_CacheIsBounded(t *testing.T) {
	x := newIndex()
	x.add(&subscriber{peer: "a"}, "*", false)
	one := &x.cache[7]
	for i, asked := 0, 0; asked < maxCached+maxCached/2; i++ {
		topic := fmt.Sprint("topic:", i)
		if maphash.String(x.seed, topic)%uint64(len(x.cache)) != 7 {
			continue
		}
		x.targets(topic)
		if asked++; len(one.topics) != (asked-1)%maxCached+1 {
			t.Fatalf("after %d topics a shard holds %d; the bound is %d", asked, len(one.topics), maxCached)
		}
	}
}

// BenchmarkIndex_Targets shows that routing costs the same from 10 to 100,000
// subscriptions, of every shape.
func BenchmarkIndex_Targets(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		for shape, pattern := range map[string]string{"exact": "tg:%d", "prefix": "tg:%d:*", "general": "tg:*:%d:?"} {
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				x := newIndex()
				for i := range n {
					x.add(&subscriber{}, protocol.Pattern(fmt.Sprintf(pattern, i)), false)
				}
				topic := strings.NewReplacer("*", "x", "?", "y").Replace(fmt.Sprintf(pattern, n/2))
				b.ReportAllocs()
				for b.Loop() {
					if len(x.targets(topic)) != 1 {
						b.Fatal("not found")
					}
				}
			})
		}
	}
}

// manyStars are families of 50,000 patterns under one prefix, and topics that are as long
// as can be.
var manyStars = map[string]struct {
	pattern func(i int) string
	topic   string
}{
	"a number at the end":       {func(i int) string { return fmt.Sprintf("load:*a*b*c*d*e*f*%05d", i) }, "load:" + strings.Repeat("abcdef", 40) + "00007"},
	"a number between stars":    {func(i int) string { return fmt.Sprintf("load:*a*b*c*%05d*d*e*f*", i) }, "load:" + strings.Repeat("fedcba", 41)},
	"a number after the prefix": {func(i int) string { return fmt.Sprintf("load:%05d*a*a*a*a*a*a*b", i) }, "load:00042" + strings.Repeat("a", 240)},
	"a number cut in pieces": {func(i int) string {
		return fmt.Sprintf("load:*%02d*%c*%c*%c*a*a*", i%100, 'a'+i/100%8, 'a'+i/800%8, 'a'+i/6400)
	}, "load:" + strings.Repeat("a0b1", 60)},
	"words that all have":  {func(i int) string { return fmt.Sprintf("load:*common*words*%05d*common*words", i) }, "load:" + strings.Repeat("commonwords", 22)},
	"with a question mark": {func(i int) string { return fmt.Sprintf("load:*?*a?b*%05d*?", i) }, "load:" + strings.Repeat("aabb", 60)},
}

// TestIndex_ComparesTopicWithFewPatterns counts the patterns that a new topic is compared with,
// if there are also 10,000 with many stars under one prefix.
func TestIndex_ComparesTopicWithFewPatterns(t *testing.T) {
	for name, family := range manyStars {
		x := newIndex()
		for i := range 10_000 {
			x.add(&subscriber{peer: protocol.PeerID(fmt.Sprint(i))}, protocol.Pattern(family.pattern(i)), false)
		}
		tried := 0
		for range x.general.candidates(family.topic) {
			tried++
		}
		if tried > 600 {
			t.Errorf("%s: a new topic is compared with %d patterns", name, tried)
		}
	}
}

// BenchmarkIndex_NewTopicWithManyPatterns measures the same.
func BenchmarkIndex_NewTopicWithManyPatterns(b *testing.B) {
	for name, family := range manyStars {
		b.Run(name, func(b *testing.B) {
			x := newIndex()
			for i := range 50_000 {
				x.add(&subscriber{}, protocol.Pattern(family.pattern(i)), false)
			}
			for b.Loop() {
				x.find(family.topic)
			}
		})
	}
}
