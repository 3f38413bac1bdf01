// Command mutation changes the code of critical packages at random places and runs their tests on
// each changed version, a mutant. If the tests of a mutant still pass, the mutant has survived:
// the tests would not notice that fault. The places are drawn from a seed.
//
// The working tree does not change: a mutant is one file that replaces another with the flag
// -overlay of go build. Mutants that do not compile are not counted.
//
// Existing tools (gremlins 0.6) only change tokens. They do not remove or swap statements, hide
// errors or draw a sample of a given size, and they copy the whole module for each worker.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groups are the examined folders. A mutant is tested by all tests below its folder.
var groups = []string{"bus/grant", "peers/broker", "peers/agent", "peers/outbox", "peers/tg", "activitylog"}

func main() {
	seed := flag.Uint64(
		"seed",
		uint64(time.Now().UnixNano())%1_000_000,
		"draws the places; the same seed on the same code draws the same ones",
	)
	count := flag.Int("n", 100, "how many `mutants`")
	least := flag.Int("least", 85, "how many of a `hundred` must be caught")
	list := flag.Bool("list", false, "list the places and run nothing")
	flag.Usage = func() {
		fmt.Fprint(
			os.Stderr,
			"usage: scripts/mutate [flags] [folder | file.go | file.go:line]...\n\nWith arguments only what they "+
				"name is broken.\n\n",
		)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	places, err := findPlaces(ctx, flag.Args())
	if err != nil {
		fail(err)
	}
	if *list {
		for _, p := range places {
			fmt.Println(p)
		}
		fmt.Println(len(places), "places")
		return
	}
	fmt.Printf("seed %d: %d of %d places\n", *seed, min(*count, len(places)), len(places))
	tested, err := newTester(ctx)
	if err != nil {
		fail(err)
	}
	defer tested.close()
	sums := run(ctx, tested, draw(places, *seed, *count))
	if report(sums)*100 < *least*total(sums) || ctx.Err() != nil {
		tested.close()
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(2)
}

// A drawing has the places of one group in random order, and the number of wanted mutants.
type drawing struct {
	group  string
	places []place
	wanted int
}

// draw distributes the mutants among the groups by the square root of their places, so that small
// groups get some, too, and shuffles the places of each.
func draw(places []place, seed uint64, count int) []drawing {
	random := rand.New(rand.NewPCG(seed, 0))
	var drawings []drawing
	weights := 0.0
	for _, g := range groups {
		d := drawing{group: g}
		for _, p := range places {
			if p.group == g {
				d.places = append(d.places, p)
			}
		}
		random.Shuffle(len(d.places), func(i, k int) { d.places[i], d.places[k] = d.places[k], d.places[i] })
		drawings = append(drawings, d)
		weights += math.Sqrt(float64(len(d.places)))
	}
	for i := range drawings {
		share := math.Sqrt(float64(len(drawings[i].places))) / weights
		drawings[i].wanted = min(len(drawings[i].places), int(math.Round(share*float64(count))))
		count -= drawings[i].wanted
		weights -= math.Sqrt(float64(len(drawings[i].places)))
	}
	return drawings
}

// A sum counts the mutants of one group that were tried and caught.
type sum struct {
	group          string
	tried, caught  int
	hung, unusable int // part of caught; did not compile, and is not in tried
}

// run tries the mutants and prints the outcome of each.
func run(ctx context.Context, tested *tester, drawings []drawing) []sum {
	var sums []sum
	for _, d := range drawings {
		s := sum{group: d.group}
		for _, p := range d.places {
			if s.tried == d.wanted || ctx.Err() != nil {
				break
			}
			began := time.Now()
			v := tested.try(ctx, p)
			took := time.Since(began).Round(100 * time.Millisecond)
			switch v.outcome {
			case unusable:
				s.unusable++
				continue
			case survived:
				fmt.Printf("SURVIVED %s (%v)\n%s", p, took, p.diff())
			case hung:
				s.hung++
				s.caught++
				fmt.Printf("hung     %s (%s, %v)\n", p, v.by, took)
			case caught:
				s.caught++
				fmt.Printf("caught   %s (%s, %v)\n", p, v.by, took)
			case interrupted:
				continue
			}
			s.tried++
		}
		if s.tried > 0 {
			sums = append(sums, s)
		}
	}
	return sums
}

func total(sums []sum) (n int) {
	for _, s := range sums {
		n += s.tried
	}
	return n
}

// report prints the sums and returns the number of caught mutants.
func report(sums []sum) (all int) {
	fmt.Println()
	for _, s := range sums {
		fmt.Printf("%-14s caught %3d of %3d", s.group, s.caught, s.tried)
		if s.hung > 0 {
			fmt.Printf(", %d of them by their time limit", s.hung)
		}
		if s.unusable > 0 {
			fmt.Printf(" (%d more did not compile)", s.unusable)
		}
		fmt.Println()
		all += s.caught
	}
	fmt.Printf("%-14s caught %3d of %3d\n", "in sum", all, total(sums))
	return all
}

// asked reports whether the arguments name a place. Without arguments, every place is named.
func asked(args []string, file string, line int) bool {
	return len(args) == 0 || slices.ContainsFunc(args, func(arg string) bool {
		name, at, exact := strings.Cut(strings.TrimPrefix(arg, "./"), ":")
		name = strings.TrimSuffix(name, "/")
		if exact {
			return file == name && strconv.Itoa(line) == at
		}
		return file == name || strings.HasPrefix(file, name+"/")
	})
}
