package markdown_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"hubbub/peers/markdown"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false,
	"write the golden files of testdata/answers; read the difference before you commit it")

// TestCorpus_RendersAsReviewed compares answers as models write them with what people read.
// Each file has answers of one kind with lines of === between them.
func TestCorpus_RendersAsReviewed(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, answer := range strings.Split(strings.TrimSuffix(string(source), "\n"), "\n===\n") {
			count++
			rendered := markdown.Render(answer)
			// numbers that are counted
			lazy := strings.Count(answer, "1. ") > 1 && strings.Contains(rendered.Text, "2. ")
			if lost := difference(answer, rendered.Text); lost != "" && !lazy {
				t.Errorf("%s: %q loses %q: %q", file, answer, lost, rendered.Text)
			}
			shown = append(shown, show(rendered))
		}
		golden := strings.TrimSuffix(file, ".md") + ".txt"
		got := strings.Join(shown, "\n===\n") + "\n"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil || string(want) != got {
			t.Errorf("%s differs from %s (%v); run go test -update and read the difference", file, golden, err)
		}
	}
	if count < 300 {
		t.Errorf("the corpus has %d answers; at least 300", count)
	}
}

var (
	address  = regexp.MustCompile("(\\]\\()(?:https?|tg|mailto):[^\\s\")]*")
	language = regexp.MustCompile("(?m)^([ >]*(?:`{3,}|~{3,}))[ \\t]*[^\\s`]*[ \\t]*$")
	hidden   = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&#39;", "'", "&nbsp;", "\u00a0", "[x] ", "",
		"[X] ", "")
)

// marks are the characters that rendering may take away.
const marks = "*_~`#>|\\[]()!<-+:= "

// difference returns the rest of a text from the first character that its rendering lost or
// changed although it is not a mark, or "". It ignores addresses of links, languages of code and
// references.
func difference(source, rendered string) string {
	if firstLost(hidden.Replace(source), rendered) == "" {
		return ""
	}
	source = hidden.Replace(address.ReplaceAllString(source, "$1"))
	if firstLost(source, rendered) == "" {
		return ""
	}
	return firstLost(language.ReplaceAllString(source, "$1"), rendered)
}

func firstLost(source, rendered string) string {
	keep := func(s string) []rune {
		return []rune(strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || strings.ContainsRune("•☐☑—", r) {
				return -1
			}
			return r
		}, s))
	}
	from, to := keep(source), keep(rendered)
	i := 0
	for _, r := range to {
		if strings.ContainsRune("|-+", r) { // perhaps of the lines of a table
			if i < len(from) && from[i] == r {
				i++
			}
			continue
		}
		for i < len(from) && from[i] != r && strings.ContainsRune(marks, from[i]) {
			i++
		}
		if i == len(from) || from[i] != r {
			return string(from[min(i, len(from)):]) + "…"
		}
		i++
	}
	for ; i < len(from); i++ {
		if !strings.ContainsRune(marks, from[i]) {
			return string(from[i:])
		}
	}
	return ""
}

// TestRender_LosesOnlyMarks checks this law with random text of all scripts.
func TestRender_LosesOnlyMarks(t *testing.T) {
	words := rapid.StringOfN(rapid.RuneFrom(nil, unicode.Latin, unicode.Han, unicode.Cyrillic, unicode.Arabic,
		unicode.Thai, unicode.Nd, unicode.So, unicode.Sc, unicode.Hangul), 1, 4, -1)
	pieces := rapid.OneOf(words, words, rapid.SampledFrom([]string{
		"*", "**", "***", "_", "__", "~", "~~", "`", "```", "\n", "\n\n", "\n- ", "\n8) ", "\n7. ", "\n+ ", "\n> ",
		"\n# ", " ", " ", "\\", "(", ")", "[", "]", "/", ".", ",", ":", "：", "。",
		"「", "」", "-", "—", "=", "<", ">", "&", "|", "\n|-|-|\n", "~5", "3*4", "x_y", "https://a.example/x_y*z",
		"a_b@c.example", "C:\\x_y", "¯\\_(ツ)_/¯", "°C", "#", "@",
	}))
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(pieces, 1, 30).Draw(t, "in"), "")
		in = strings.NewReplacer("—", "", "•", "", "☐", "", "☑", "").Replace(in)
		if rendered := markdown.Render(in).Text; difference(in, rendered) != "" {
			t.Fatalf("%q became %q: %q", in, rendered, difference(in, rendered))
		}
	})
}

// TestRender_LeavesPlainTextAlone covers texts without marks.
func TestRender_LeavesPlainTextAlone(t *testing.T) {
	plain := rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.S, unicode.P, unicode.M), 1, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Map(func(r rune) rune {
			if strings.ContainsRune(marks+"&", r) {
				return ','
			}
			return r
		}, plain.Draw(t, "in"))
		if got := show(markdown.Render(in)); got != strings.Trim(in, " ") {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
