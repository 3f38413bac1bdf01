package c2a

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLines: whatever the lengths, each line within the limit comes whole and
// in order, and each longer one is reported once.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{10, 4096, 70_000}).Draw(t, "limit")
		var input strings.Builder
		var want []string
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			n := rapid.SampledFrom([]int{0, 1, 8, 9, 10, 11, 4095, 4096, 32<<10 - 1, 32 << 10, 69_999, 70_000, 100_000}).Draw(t, "length")
			input.WriteString(strings.Repeat("x", n) + "\n")
			switch {
			case n+1 > limit:
				want = append(want, "long")
			case n > 0:
				want = append(want, strings.Repeat("x", n))
			}
		}
		rest := rapid.SampledFrom([]string{"", "tail"}).Draw(t, "rest")
		input.WriteString(rest)
		if rest != "" {
			want = append(want, rest)
		}
		lines := newLineReader(strings.NewReader(input.String()), limit)
		var got []string
		for {
			line, err := lines.next()
			if errors.Is(err, errLongLine) {
				got = append(got, "long")
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			got = append(got, string(line))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	})
}

func TestFramesOfAnyShape(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":"a","result":{}}`: true, `{"id":7,"error":{"code":1,"message":"m"}}`: true,
		`{"method":"x"}`: true, `{"id":null,"method":"x"}`: true,
		`{}`: false, `[]`: false, `null`: false, `"x"`: false, `{"id":1,"method":3}`: false, `{"error":"text","id":1}`: false, "": false,
	} {
		f, err := parseFrame([]byte(line))
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, f, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parseFrame(rapid.SliceOf(rapid.Byte()).Draw(t, "line")) //nolint:errcheck // it must only not panic
	})
}
