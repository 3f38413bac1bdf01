package markdown_test

import (
	"fmt"
	"strings"
	"testing"

	"hubbub/peers/markdown"
)

func TestMessages_AreHTMLOfMatrix(t *testing.T) {
	for source, want := range map[string]string{
		"plain words":                     "",
		"two\nlines":                      "",
		"a < b && c > d":                  "",
		"**bold** and _it_":               "<strong>bold</strong> and <em>it</em>",
		"**a\nb**":                        "<strong>a<br>b</strong>",
		"~~gone~~ `x<y`":                  "<del>gone</del> <code>x&lt;y</code>",
		"[site](https://e.org/?a=1&b=\")": `<a href="https://e.org/?a=1&amp;b=&#34;">site</a>`,
		"# Title\n\ntext":                 "<h1>Title</h1><p>text</p>",
		"- a\n- b\n  - c":                 "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>",
		"2. a\n3. b\n9. c":                `<ol start="2"><li>a</li><li>b</li></ol><ol start="9"><li>c</li></ol>`,
		"3. a\n2. b\n1. c":                `<ol start="3"><li>a</li></ol><ol start="2"><li>b</li></ol><ol><li>c</li></ol>`,
		"1. Mai: A\n1. Juni: B":           "<ol><li>Mai: A</li></ol><ol><li>Juni: B</li></ol>",
		"0. a\n1. b":                      `<ol start="0"><li>a</li><li>b</li></ol>`,
		"01. a\n02. b":                    "<ul><li>01. a</li><li>02. b</li></ul>",
		"1) a\n3) b":                      "<ul><li>1) a</li><li>3) b</li></ul>",
		"- a\n  1. b\n  4. c":             `<ul><li>a<ol><li>b</li></ol><ol start="4"><li>c</li></ol></li></ul>`,
		"1. a\n   - b\n2. c":              "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>",
		"- [x] done\n- [ ] open":          "<ul><li>☑ done</li><li>☐ open</li></ul>",
		"> said\n> so":                    "<blockquote>said<br>so</blockquote>",
		"```go\nif a < b {\n}\n```":       "<pre><code class=\"language-go\">if a &lt; b {\n}</code></pre>",
		"a | b\n--|--\n1 | **2**":         "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td><strong>2</strong></td></tr></table>",
		"<script>alert(1)</script> **x**": "&lt;script&gt;alert(1)&lt;/script&gt; <strong>x</strong>",
	} {
		list := markdown.Messages(source, 1000)
		if len(list) != 1 || list[0].HTML != want {
			t.Errorf("%q: %q; want %q", source, list, want)
		}
	}
}

// TestMessages_Split divides texts whose parts are longer and shorter than the limit. The
// messages contain the same words as the source.
func TestMessages_Split(t *testing.T) {
	for name, source := range map[string]string{
		"paragraphs": strings.Repeat("some words\n\n", 300),
		"one line":   strings.Repeat("some words ", 300),
		"code":       "```\n" + strings.Repeat("some words\n", 300) + "```",
		"list":       strings.Repeat("- some words\n", 300),
		"wide":       strings.Repeat("語", 1000) + " some words",
		"escapes":    strings.Repeat("<&> some words ", 200),
	} {
		total := 0
		for _, m := range markdown.Messages(source, 500) {
			total += strings.Count(m.Text, "some words")
			if len(m.Text) > 500 || m.Text == "" {
				t.Errorf("%s: a message has %d bytes", name, len(m.Text))
			}
		}
		if want := strings.Count(source, "some words"); total != want {
			t.Errorf("%s: %d of %d are shown", name, total, want)
		}
	}
	if list := markdown.Messages(" \n\n", 500); len(list) != 0 {
		t.Errorf("a blank text has the messages %q", list)
	}
}

// TestMessages_LongBlockKeepsAddresses has a list that is too long for one message with HTML.
func TestMessages_LongBlockKeepsAddresses(t *testing.T) {
	var source, shown strings.Builder
	for i := range 50 {
		fmt.Fprintf(&source, "- [page](https://a.example/%d)\n", i)
	}
	for _, m := range markdown.Messages(source.String(), 300) {
		shown.WriteString(m.Text + m.HTML + "\n")
	}
	for i := range 50 {
		if address := fmt.Sprintf("https://a.example/%d)", i); !strings.Contains(shown.String(), address) {
			t.Errorf("%s is lost", address)
		}
	}
}
