package markdown_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"hubbub/peers/markdown"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// show writes a text with its entities as type(words) for comparison.
func show(t markdown.Text) string {
	u := utf16.Encode([]rune(t.Text))
	var b strings.Builder
	b.WriteString(t.Text)
	for _, e := range t.Entities {
		fmt.Fprintf(&b, " | %s(%s)", e.Type, string(utf16.Decode(u[e.Offset:e.Offset+e.Length])))
		if e.URL+e.Language != "" {
			b.WriteString("=" + e.URL + e.Language)
		}
	}
	return b.String()
}

// renders checks the texts with their entities, as show writes them, for sources.
func renders(t *testing.T, cases map[string]string) {
	t.Helper()
	for source, want := range cases {
		if got := show(markdown.Render(source)); got != want {
			t.Errorf("%q\n got %q\nwant %q", source, got, want)
		}
	}
}

// keeps checks that texts stay as they are.
func keeps(t *testing.T, texts []string) {
	t.Helper()
	for _, text := range texts {
		renders(t, map[string]string{text: text})
	}
}

func TestRender(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                             "hello",
		"**bold** and *it*":                 "bold and it | bold(bold) | italic(it)",
		"***both***":                        "both | bold(both) | italic(both)",
		"~~gone~~ `code *x*`":               "gone code *x* | strikethrough(gone) | code(code *x*)",
		"**a `b` c**":                       "a b c | bold(a ) | code(b) | bold( c)",
		"😀 **x**":                           "😀 x | bold(x)",
		"# Title\ntext":                     "Title\n\ntext | bold(Title)",
		"one\ntwo\n\nthree":                 "one\ntwo\n\nthree",
		"[site](https://a.example/x)":       "site | text_link(site)=https://a.example/x",
		"[site](javascript:x)":              "site (javascript:x)",
		"<b>raw</b>":                        "<b>raw</b>",
		"<div>\nraw\n</div>\n\n**x**":       "<div>\nraw\n</div>\n\nx | bold(x)",
		"<!-- one line -->\ntext":           "<!-- one line -->\ntext",
		"<!-- two\nlines -->\ntext":         "<!-- two\nlines -->\ntext",
		"<script>a</script>":                "<script>a</script>",
		"<pre>\nnever closed":               "<pre>\nnever closed",
		"a_b_c and 2*3*4":                   "a_b_c and 2*3*4",
		"1 < 2 & 3 \\* 4 &amp; 5":           "1 < 2 & 3 * 4 & 5",
		"- a\n- b\n  - c":                   "• a\n• b\n  • c",
		"3. a\n4. b":                        "3. a\n4. b",
		"- [x] done\n- [ ] open":            "• ☑ done\n• ☐ open",
		"> said\n> so\n\nyes":               "said\nso\n\nyes | blockquote(said\nso)",
		"```go\nfunc x() {\n}\n```\nafter":  "func x() {\n}\n\nafter | pre(func x() {\n})=go",
		"    indented":                      "indented",
		"a\n\n---\n\nb":                     "a\n\n———\n\nb",
		"|a|b|\n|-|-|\n|1|22|":              "a | b\n--+---\n1 | 22 | pre(a | b\n--+---\n1 | 22)",
		"":                                  "",
		"  \n ":                             "",
		"\\_x\\_":                           "_x_",
		"![a cat](https://a.example/c)":     "a cat | text_link(a cat)=https://a.example/c",
		"<https://a.example> <b@a.example>": "https://a.example b@a.example",
		"[](https://a.example/x)":           "https://a.example/x | text_link(https://a.example/x)=https://a.example/x",
		"[x](tg://user?id=7) [y](mailto:a)": "x y | text_link(x)=tg://user?id=7 | text_link(y)=mailto:a",
		"[x](http:///y) [z]()":              "x (http:///y) [z]()",
		strings.Repeat("> ", 17) + "deep":   strings.Repeat("> ", 17) + "deep",
		strings.Repeat("-", 40):             "———",
		strings.Repeat("* ", 20):            "———",
		strings.Repeat("- ", 17) + "x":      strings.Repeat("- ", 17) + "x",
	} {
		if got := show(markdown.Render(in)); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

// TestRender_TableIsRich checks that a text with a table also has a form with blocks, without
// unintended pictures or tags, and that other texts and cut texts have none.
func TestRender_TableIsRich(t *testing.T) {
	source := "# So\nAll **bold *both*** and `x` [y](https://a.example) " +
		"![p](https://a.example/p)\n\n|a|b|c|\n|-|:-:|-:|\n|1 <img src=q>|~~2~~|\n\n" +
		"3. one\n   - [x] two\n\n> said\n\n---\n\n```go\nf()\n```\n\n    plain\n\n<div>\nraw\n</div>\n"
	var got []string
	rich := markdown.Render(source)
	for _, b := range rich.Rich {
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw)))
	}
	want := []string{
		`{"size":1,"text":"So","type":"heading"}`,
		`{"text":["All ",{"text":"bold ","type":"bold"},{"text":{"text":"both","type":"bold"},"type":"italic"}," and ",{"text":"x","type":"code"}," ",` +
			`{"text":"y","type":"url","url":"https://a.example"}," ",{"text":"p","type":"url","url":"https://a.example/p"}],"type":"paragraph"}`,
		`{"cells":[[{"align":"left","is_header":true,"text":"a","valign":"middle"},{"align":"center","is_header":true,"text":"b","valign":"middle"},` +
			`{"align":"right","is_header":true,"text":"c","valign":"middle"}],[{"align":"left","text":"1 <img src=q>","valign":"middle"},` +
			`{"align":"center","text":{"text":"2","type":"strikethrough"},"valign":"middle"},{"align":"right","text":"","valign":"middle"}]],"is_bordered":true,"type":"table"}`,
		`{"items":[{"blocks":[{"text":"one","type":"paragraph"},{"items":[{"blocks":[{"text":["☑ ","two"],"type":"paragraph"}]}],"type":"list"}],"type":"1","value":3}],"type":"list"}`,
		`{"blocks":[{"text":"said","type":"paragraph"}],"type":"blockquote"}`,
		`{"type":"divider"}`,
		`{"language":"go","text":"f()","type":"pre"}`,
		`{"text":"    plain","type":"paragraph"}`,
		`{"text":"<div>\nraw\n</div>","type":"paragraph"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if whole := markdown.Split(rich, 4096); len(whole) != 1 || len(whole[0].Rich) != len(want) {
		t.Errorf("a text in one part is %v", whole)
	}
	for i, p := range markdown.Split(rich, 40) {
		if p.Rich != nil {
			t.Errorf("part %d of several is rich", i)
		}
	}
	if plain := markdown.Render("# So\n- a\n\n```\n|a|b|\n|-|-|\n```"); plain.Rich != nil {
		t.Errorf("without a table there is %v", plain.Rich)
	}
}

// TestRender_RichFormObeysLimits checks the limits of the Bot API.
func TestRender_RichFormObeysLimits(t *testing.T) {
	table := func(columns, rows int) string {
		return strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" +
			strings.Repeat("|x|\n", rows-1)
	}
	quoted := func(deep int) string { return strings.Repeat(">", deep) + " x\n\n" + table(1, 1) }
	for _, c := range []struct {
		what, source string
		rich         bool
	}{
		{"20 columns", table(20, 2), true},
		{"21 columns", table(21, 2), false},
		{"500 blocks", table(1, 499), true},
		{"501 blocks", table(1, 500), false},
		{"list items are blocks, too", strings.Repeat("- x\n", 249) + "\n" + table(1, 1), false},
		{"16 levels", quoted(15), true},
		{"17 levels", quoted(16), false},
		{"formats are levels, too", quoted(14) + "\n" + strings.Repeat(">", 15) + " **x**\n", false},
	} {
		if got := markdown.Render(c.source).Rich != nil; got != c.rich {
			t.Errorf("%s: a rich form is there: %v", c.what, got)
		}
	}
}

// TestRender_DeepNestingIsText also checks that nesting as deep as people write it is
// rendered.
func TestRender_DeepNestingIsText(t *testing.T) {
	if got := show(markdown.Render(strings.Repeat(">", 16) + "a **x**")); !strings.HasPrefix(got, "a x | ") {
		t.Errorf("sixteen quotes are %q", got)
	}
	if got := show(markdown.Render(strings.Repeat(">", 17) + "a **x**")); got != strings.Repeat(">", 17)+"a **x**" {
		t.Errorf("seventeen quotes are %q", got)
	}
	for n, want := range map[int]string{2000: "x", 2001: "**x**"} {
		if got := markdown.Render(strings.Repeat("[", n) + "**x**").Text; got != strings.Repeat("[", n)+want {
			t.Errorf("after %d brackets: %q", n, got[n:])
		}
	}
	for address, linked := range map[string]bool{"https://a.example/" + strings.Repeat("x", 2048-18): true,
		"https://a.example/" + strings.Repeat("x", 2049-18): false} {
		if got := markdown.Render("[x](" + address + ")"); (len(got.Entities) == 1) != linked ||
			!strings.HasPrefix(got.Text, "x") {
			t.Errorf("an address of %d bytes gives %d links", len(address), len(got.Entities))
		}
	}
}

func TestSplit_PrefersParagraphsLinesWords(t *testing.T) {
	p := strings.Repeat("word ", 300) // 1,500 units
	for _, test := range []struct {
		name string
		in   string
		want []int // units of the parts
	}{
		{"fits", strings.Repeat("x", 4096), []int{4096}},
		{"paragraphs", p + "\n\n" + p + "\n\n" + p, []int{2*1499 + 3, 1499}},
		{"lines", strings.Repeat(strings.Repeat("x", 999)+"\n", 5), []int{3999, 999}},
		{"words", strings.Repeat("abcdefg ", 600), []int{4095, 703}},
		{"nothing", strings.Repeat("x", 5000), []int{4096, 904}},
		{"a line that ends at the limit", strings.Repeat("x", 2000) + "\n" + strings.Repeat("x", 2095) + "\nx",
			[]int{4096, 1}},
		{"a word that ends at the limit", strings.Repeat("x", 2000) + " " + strings.Repeat("x", 2095) + " x",
			[]int{4096, 1}},
		{"a line too near to the front", strings.Repeat("x", 1023) + "\n" + strings.Repeat("x", 4000),
			[]int{4096, 928}},
		{"a line not quite far enough", strings.Repeat("x", 1024) + "\n" + strings.Repeat("x", 4000), []int{4096, 929}},
		{"a line just far enough", strings.Repeat("x", 1025) + "\n" + strings.Repeat("x", 4000), []int{1025, 4000}},
		{"a word just far enough", strings.Repeat("x", 1025) + " " + strings.Repeat("x", 4000), []int{1025, 4000}},
		{"a paragraph just far enough", strings.Repeat("x", 1025) + "\n\n" + strings.Repeat("x", 2000) + "\n" +
			strings.Repeat("x", 2000), []int{1025, 4001}},
		{"surrogates", "x" + strings.Repeat("😀", 2048), []int{4095, 2}},
	} {
		var got []int
		for _, part := range markdown.Split(markdown.Plain(test.in), markdown.MaxUnits) {
			got = append(got, markdown.Units(part.Text))
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestSplit_KeepsEntitiesAndCharacters(t *testing.T) {
	code := "```py\n" + strings.Repeat("  indented line\n", 400) + "```"
	parts := markdown.Split(markdown.Render(code), 4096)
	for _, p := range parts {
		if len(p.Entities) != 1 || p.Entities[0].Language != "py" || p.Entities[0].Length != markdown.Units(p.Text) {
			t.Errorf("a part of the code has %+v", p.Entities)
		}
		if !strings.HasPrefix(p.Text, "  indented") {
			t.Errorf("the indent was lost: %.20q", p.Text)
		}
	}
	for _, one := range []string{"👨‍👩‍👧‍👦", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👍🏽", "1️⃣"} {
		for _, before := range []string{"", "x"} {
			for _, p := range markdown.Split(markdown.Plain(before+strings.Repeat(one, 20)), 30) {
				if strings.TrimPrefix(strings.ReplaceAll(p.Text, one, ""), before) != "" {
					t.Errorf("a character was cut: %q", p.Text)
				}
			}
		}
	}
}

func TestRender_AcceptsAnything(t *testing.T) {
	pieces := []string{"**", "*", "_", "`", "```", "\n", "\n\n", "> ", "- ", "1. ", "[", "](", ")", "https://a.example",
		"😀", "é", "e\u0301", "|", "<", "<!--", "-->", "\n<div>", "<pre>", "</pre>", "&amp;", "~~", "word", "  ", "\t",
		"#", "\xff", "\\", "-", "|-|-|\n"}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "in"), "")
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		whole := markdown.Render(in)
		check(t, whole, 1<<20)
		var all strings.Builder
		for _, p := range markdown.Split(whole, limit) {
			check(t, p, limit)
			if strings.TrimSpace(p.Text) == "" {
				t.Fatalf("an empty part")
			}
			all.WriteString(p.Text)
		}
		if squeeze(all.String()) != squeeze(whole.Text) {
			t.Fatalf("%q became %q", whole.Text, all.String())
		}
	})
}

func check(t *rapid.T, p markdown.Text, limit int) {
	n := markdown.Units(p.Text)
	if n > limit || !utf8.ValidString(p.Text) || n != len(utf16.Encode([]rune(p.Text))) {
		t.Fatalf("%d units in %q, at most %d allowed", n, p.Text, limit)
	}
	code := 0
	for _, e := range p.Entities {
		if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > n {
			t.Fatalf("entity %+v in %d units", e, n)
		}
		if e.Type == markdown.Code || e.Type == markdown.Pre {
			if e.Offset < code {
				t.Fatalf("code stands in code: %+v", p.Entities)
			}
			code = e.Offset + e.Length
		}
	}
}

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// TestSplit_KeepsEveryLink has more links and bold words than fit into one message.
func TestSplit_KeepsEveryLink(t *testing.T) {
	var source strings.Builder
	for i := range 150 {
		fmt.Fprintf(&source, "- **%d**: [page](https://a.example/%d)\n", i, i)
	}
	links := 0
	for _, p := range markdown.Split(markdown.Render(source.String()), 4096) {
		if len(p.Entities) > 100 || !strings.HasPrefix(p.Text, "• ") {
			t.Errorf("a part has %d entities: %.20q", len(p.Entities), p.Text)
		}
		for _, e := range p.Entities {
			if e.Type == markdown.TextLink {
				links++
			}
		}
	}
	if links != 150 {
		t.Errorf("%d of 150 links are there", links)
	}
}

// TestSplit_AtSentences checks where texts without line breaks are split: at the end of a sentence, and
// not after an abbreviation, inside a number, or so early that the part is short.
func TestSplit_AtSentences(t *testing.T) {
	for text, first := range map[string]string{
		"The shop is open. It closes at five today.":          "The shop is open.",
		"Is the shop open? It closes at five today.":          "Is the shop open?",
		"He said: \"It is open.\" They close at five today.":  "He said: \"It is open.\"",
		"The shop (and the bar!) is open at five today.":      "The shop (and the bar!) is",
		"It costs 3.50 per kilo with Dr. Meier in the shop.":  "It costs 3.50 per kilo with",
		"Yes. The shop that we know is open until five today": "Yes. The shop that we know is",
		"店は開いています。五時に閉まります。店は開いています。五時に閉まります。":                "店は開いています。五時に閉まります。店は開いています。",
		"Магазин открыт сегодня… Он закроется в пять часов.":  "Магазин открыт сегодня…",
		"दुकान खुली है। यह आज पाँच बजे बंद होती है और कल":     "दुकान खुली है।",
		"The shop is open until five. It closes then today.":  "The shop is open until five.",
		"one two three four five six seven eight nine ten":    "one two three four five six",
	} {
		got := markdown.Split(markdown.Plain(text), 29)[0].Text
		if got != first {
			t.Errorf("%q begins with %q; want %q", text, got, first)
		}
	}
}

// Little is read around a mark, so that long texts take linear time.
func TestRender_LimitsWhatItReadsAroundMarks(t *testing.T) {
	words := func(n int) string { return "**a " + strings.Repeat("`c`, ", n) + "b**" } // about 2n spans
	if got := show(markdown.Render(words(126))); strings.Contains(got, "*") {
		t.Errorf("an emphasis of 254 spans is text: %q", got)
	}
	if got := show(markdown.Render(words(128))); !strings.HasPrefix(got, "**a c, ") {
		t.Errorf("an emphasis of 258 spans is none: %q", got)
	}
	long := strings.Repeat("a", 253)
	renders(t, map[string]string{
		"_" + long + "_": long + " | italic(" + long + ")",
		"12\\. a":        "12. a",
		"a 12\\. b":      "a 12\\. b",
		"- a\n" + strings.Repeat("\n", 50) + "  b": "• a\n\n  b",
	})
	keeps(t, []string{
		strings.Repeat("*_", 32) + "*a" + strings.Repeat("*_", 32) + "*",
		"_" + long + "aaa_",
		"see " + strings.Repeat("a", 65) + "@b.com",
		"see http://a.example/x(y)",
		"~~~\n" + strings.Repeat("a\n", 1000) + "~~~",
	})
}
