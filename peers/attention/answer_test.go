package attention_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"hubbub/peers/attention"
)

// TestReadAnswer reads answers in nineteen languages: only a clear yes or no is one.
func TestReadAnswer(t *testing.T) {
	file, err := os.Open("testdata/answers.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	words := attention.DefaultWords()
	reader := attention.NewAnswerReader(&words)
	count := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) != 3 {
			t.Fatalf("%q has no three fields", lines.Text())
		}
		got := reader.Read(fields[2])
		if got == attention.AnswerOther {
			got = attention.AnswerUnclear
		}
		if string(got) != fields[1] {
			t.Errorf("%s: %q is %s; want %s", fields[0], fields[2], got, fields[1])
		}
		count[fields[0]]++
		count["all"]++
	}
	if len(count) < 13 || count["all"] < 200 {
		t.Errorf("the cases are %v", count)
	}
}

// TestReadAnswer_NegationIsNeverYes puts words of a no, and unclear ones, around each yes.
func TestReadAnswer_NegationIsNeverYes(t *testing.T) {
	w := attention.DefaultWords()
	reader := attention.NewAnswerReader(&w)
	others := append(w.No, w.Unclear...)
	phrases := map[string]bool{}
	for _, yes := range w.Yes {
		phrases[yes] = true
	}
	for i, yes := range w.Yes {
		for k := range 20 {
			other := others[(i*31+k*37)%len(others)]
			for _, text := range []string{other + " " + yes, yes + " " + other, yes + ", " + other + ", " + yes} {
				if reader.Read(text) == attention.AnswerYes && !phrases[text] {
					t.Errorf("%q is a yes", text)
				}
			}
		}
	}
	for _, no := range w.No {
		if got := reader.Read(no); got == attention.AnswerYes {
			t.Errorf("%q is %s", no, got)
		}
	}
	for _, unclear := range w.Unclear {
		if got := reader.Read(unclear); got != attention.AnswerUnclear {
			t.Errorf("%q is %s", unclear, got)
		}
	}
}
