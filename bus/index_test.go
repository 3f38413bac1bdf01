package bus

import (
	"fmt"
	"strings"
	"testing"

	"hubbub/protocol"

	"pgregory.net/rapid"
)

func TestIndexAgreesWithTryingEveryPattern(t *testing.T) { rapid.Check(t, indexAgrees) }

func FuzzIndex(f *testing.F) { f.Fuzz(rapid.MakeFuzz(indexAgrees)) }

// indexAgrees drives the index with random changes and asks it for random topics,
// beside a list that is searched whole.
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
	if len(x.entries)+len(x.exact)+len(x.literal) != 0 {
		t.Fatalf("%d patterns are left behind", len(x.entries))
	}
}

func TestIndexCacheIsBounded(t *testing.T) {
	x := newIndex()
	x.add(&subscriber{peer: "a"}, "*", false)
	for i := range 64*maxCached + 50_000 {
		x.targets(fmt.Sprint("topic:", i))
	}
	for i := range x.cache {
		if n := len(x.cache[i].topics); n > maxCached {
			t.Fatalf("a shard holds %d topics; the bound is %d", n, maxCached)
		}
	}
}

// BenchmarkRoute shows that routing costs the same from 10 to 100,000
// subscriptions, of every shape.
func BenchmarkRoute(b *testing.B) {
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
