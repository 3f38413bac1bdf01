package cmd_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"
	"time"
)

// duration returns the duration in a variable. Without the variable it skips the test.
func duration(t *testing.T, variable string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(os.Getenv(variable))
	if err != nil {
		t.Skipf("%s does not say for how long; see make soak and make chaos", variable)
	}
	return d
}

// everyProgram adds the programs that conversations do not need.
func everyProgram(s *fixture) {
	for _, name := range []string{"broker", "chorus"} {
		s.start(name)
	}
}

// warmUp is how long the resources may grow. A shorter soak reports growth but does not fail.
const warmUp = time.Minute

// TestSoak_ResourcesStayFlat talks in ten chats for a long time. No program's resources may grow,
// and every question must be answered once, in order.
func TestSoak_ResourcesStayFlat(t *testing.T) {
	length := duration(t, "HUBBUB_SOAK_TIME")
	s := newFixture(t)
	everyProgram(s)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	done := s.tenChats(ctx, 200*time.Millisecond)
	var list []*conversation
	samples := map[string][]resources{}
	ticker := time.NewTicker(length / 40)
	defer ticker.Stop()
	for list == nil {
		select {
		case list = <-done:
		case <-ticker.C:
			now, err := s.resourceUsage()
			if err != nil {
				t.Fatal(err)
			}
			for name, f := range now {
				samples[name] = append(samples[name], f)
			}
		}
	}
	sum, err := checkAll(list)
	t.Logf("%s in %s; slowest round %s", sum.outcomeCounts, length, sum.slowest)
	if err != nil {
		t.Error(err)
	}
	grew := t.Errorf
	if length < warmUp {
		grew = t.Logf
	}
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		checkFlat(t, grew, name, samples[name])
	}
}

// checkFlat compares the second quarter of the samples, after warm-up, with the last.
func checkFlat(t *testing.T, grew func(string, ...any), name string, list []resources) {
	t.Helper()
	if len(list) < 8 {
		t.Errorf("%s: only %d samples", name, len(list))
		return
	}
	middle := func(part []resources, of func(resources) int) int {
		var values []int
		for _, f := range part {
			values = append(values, of(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	early, late := list[len(list)/4:len(list)/2], list[len(list)*3/4:]
	for _, c := range []struct {
		what  string
		of    func(resources) int
		slack int // allowed variation
	}{
		{"kB of memory", func(f resources) int { return f.memory }, max(middle(early, func(f resources) int { return f.memory })/5, 6<<10)},
		{"open files", func(f resources) int { return f.files }, 4},
		{"threads", func(f resources) int { return f.threads }, 6},
		{"goroutines", func(f resources) int { return f.goroutines }, 10},
	} {
		a, b := middle(early, c.of), middle(late, c.of)
		t.Logf("%-8s %-12s first %6d, second quarter %6d, last quarter %6d", name, c.what, c.of(list[0]), a, b)
		if b > a+c.slack {
			grew("%s: %s grew from %d to %d", name, c.what, a, b)
		}
	}
}
