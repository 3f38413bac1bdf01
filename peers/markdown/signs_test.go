package markdown_test

import (
	"testing"

	"hubbub/peers/markdown"
)

// TestRender_CountsLazyNumbersOnly has lists whose items all begin with "1.": because they are counted
// by the reader, or because the number means "first" or is a part of a date.
func TestRender_CountsLazyNumbersOnly(t *testing.T) {
	for _, text := range []string{
		"1. Klasse: 89 €\n1. Klasse mit BahnCard: 66 €", "1. FC Köln\n1. FC Union Berlin\n1. FSV Mainz 05",
		"1. Advent: 30.11.\n1. Weihnachtstag: 25.12.", "1. Bundesliga: Bayern\n1. Mannschaft: 3:1", "1. sal t.v.\n1. sal t.h.",
		"1. Vorsitzender: Ann\n1. Bürgermeister: Bob", "1. kerros: A\n1. kerros: B", "1. liga\n1. místo: Brno",
		"1. Gang: Suppe\n1. Gang: Salat", "1. Mai\n1. Weihnachtstag\n1. Termin",
		"1. januára: A\n1. májá: B\n1. října: C", "1. Okt. 2024\n1. Nov. 2024", "1. Korinther 13\n1. Johannes 4,8",
		"1. e4 – open\n1. d4 – closed\n1. Nf3 – Réti", "1. 5.: A\n1. 6.: B", "01. Intro\n01. Outro", "2. a\n2. b",
	} {
		if got := show(markdown.Render(text)); got != text {
			t.Errorf("%q\n got %q", text, got)
		}
	}
	for in, want := range map[string]string{
		"1. Die Tür\n1. Die Wand":                        "1. Die Tür\n2. Die Wand",
		"1. Open A\n1. Open B\n1. Tap C":                 "1. Open A\n2. Open B\n3. Tap C",
		"1. List the files\n1. Describe them":            "1. List the files\n2. Describe them",
		"1. Market\n1. Student\n1. Maybe\n1. Separate":   "1. Market\n2. Student\n3. Maybe\n4. Separate",
		"1) Jan Meier\n1) Octopus":                       "1) Jan Meier\n2) Octopus",
		"1. Tag anlegen\n1. Klasse schreiben\n1. Pushen": "1. Tag anlegen\n2. Klasse schreiben\n3. Pushen",
		"1. 10.50 € Ann\n1. 12.00 € Bob":                 "1. 10.50 € Ann\n2. 12.00 € Bob",
		"1. **Klasse**\n1. **Liga**":                     "1. Klasse\n1. Liga | bold(Klasse) | bold(Liga)",
		"1. `a`\n1. `b`":                                 "1. a\n2. b | code(a) | code(b)",
	} {
		if got := show(markdown.Render(in)); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

// TestRender_KeepsFormulas has formulas between \[ and \], and words with escaped brackets.
func TestRender_KeepsFormulas(t *testing.T) {
	for _, text := range []string{
		`\[x=\frac{1}{2}\]`, `So \[x=\frac{1}{2}\] holds.`, `\[E=mc^2\]`, `\[F=ma\]`, `then \[a=b\], or \[ x=1\]`, `\[x=1 \]`,
		`\[x_1 < x_2\]`, "\\[\nx = 1\n\\]", "\\[\\begin{matrix} a \\\\[4pt] b \\end{matrix}\\]", `a \\[4pt] b`, `\[\sum_{i} (a^*)*(b^*)\]`,
		`\( x \) and \[ y \]`, `\[\alpha\] and \[\beta\]`, `\[a \le b\]`,
	} {
		if got := show(markdown.Render(text)); got != text {
			t.Errorf("%q\n got %q", text, got)
		}
	}
	for in, want := range map[string]string{
		`\[INFO\] started`:                "[INFO] started",
		`\[1\] and \[^2\]`:                "[1] and [^2]",
		`- \[x\] done`:                    "• [x] done",
		`\[no link\](https://a.example)`:  "[no link](https://a.example)",
		`run \[--name=me\] \[--all\] now`: "run [--name=me] [--all] now",
		`a\[0\] of \[a_bc\]`:              "a[0] of [a_bc]",
		`\[see [b](http://c)\] **x**`:     "[see b] x | text_link(b)=http://c | bold(x)",
	} {
		if got := show(markdown.Render(in)); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}
