package mx

import (
	"fmt"
	"strings"
	"testing"
)

func TestMarkdownOf(t *testing.T) {
	for source, want := range map[string]string{
		"plain":                                   "plain",
		"<p>a</p><p>b</p>":                        "a\n\nb",
		"<b>a</b> <i>b</i> <del>c</del>":          "**a** _b_ ~~c~~",
		"<span data-mx-spoiler>x</span>":          "||x||",
		"<blockquote>a<br>b</blockquote>c":        "> a\n> b\n\nc",
		"<pre><code>a\n b</code></pre>":           "```\na\n b\n```",
		"<ol><li>a</li><li>b</li></ol>":           "1. a\n\n2. b",
		`<ol start="5"><li>a</li><li>b</li></ol>`: "5. a\n\n6. b",
		`<ol start="x"><li>a</li></ol>`:           "1. a",
		`<ol start="-3"><li>a</li></ol>`:          "1. a",
		`<ol start="0"><li>a</li><li>b</li></ol>`: "0. a\n\n1. b",
		`<ol><li value="2">a<ul><li>b</li></ul></li><li value="5">c</li><li>d</li></ol>`: "2. a\n  - b\n\n5. c\n\n6. d",
		`hi <img data-mx-emoticon alt=":wave:" src="mxc://h/x">`:                         "hi :wave:",
		"x<sup>2</sup>": "x^2",
		"<details><summary>More</summary>hidden</details>":       "More\n\nhidden",
		"<table><tr><td></td><td>b</td></tr></table>":            "| b |",
		"<p></p>x<p> </p>y":                                      "x\n\ny",
		"<b></b>x<i></i>":                                        "x",
		"<pre><b>a</b><br>b\n<i>c</i></pre>":                     "```\na\nb\nc\n```",
		"<h2>T</h2>x":                                            "## T\n\nx",
		`<a href="https://e.org">site</a>`:                       "site (https://e.org)",
		"<strike>a</strike><hr>b":                                "~~a~~\n\n---\n\nb",
		"<code>a`b</code>":                                       "`` a`b ``",
		"<pre><code class=\"language-go\">x := 1\n</code></pre>": "```go\nx := 1\n```",
		"<pre><code>a\n\n\nb</code></pre>":                       "```\na\n\n\nb\n```",
		"<blockquote><pre>a\n\n\nb</pre></blockquote>c":          "> ```\n> a\n> \n> \n> b\n> ```\n\nc",
		"<ul><li>x<pre>a\n\n\nb</pre></li></ul>":                 "- x\n  ```\n  a\n  \n  \n  b\n  ```",
		"<pre>```</pre>":                                         "~~~\n```\n~~~",
		"<span data-mx-spoiler=\"the end\">he dies</span>":       "(the end) ||he dies||",
		`<a href="mailto:a@b.example">a@b.example</a>`:           "a@b.example",
		"<mx-reply>old</mx-reply>new":                            "new",
		"<script>alert(1)</script>x &lt; y":                      "x < y",
		`<a href="https://matrix.to/#/@will:hs">Will S</a>: hi`:  "@will: hi",
		strings.Repeat("<span>", 60) + "x":                       "x", // each element is rendered once
		strings.Repeat("<b>", 60):                                "",
		strings.Repeat("<font><details>", 28) + "x":              "x",
	} {
		if got := markdownOf(source); got != want {
			t.Errorf("%q: %q; want %q", source, got, want)
		}
	}
}

// TestMarkdownOf_RepeatsNoManyElements checks that elements that stay open are not repeated in each
// paragraph if they are many. Parsers keep apart those whose attributes differ.
func TestMarkdownOf_RepeatsNoManyElements(t *testing.T) {
	open := func(n int) string {
		var b strings.Builder
		b.WriteString("<p>")
		for i := range n {
			fmt.Fprintf(&b, "<B a=%d>x</i>", i)
		}
		return b.String()
	}
	paragraphs := strings.Repeat("x<p>", 100)
	if n := testing.AllocsPerRun(1, func() { markdownOf(open(400) + paragraphs) }); n > 10_000 {
		t.Errorf("%.0f allocations for 400 elements that stay open in 100 paragraphs", n)
	}
	if got := markdownOf(open(400)); got != "" {
		t.Errorf("400 elements that stay open became %.100q", got)
	}
	if got := markdownOf(strings.Repeat("<b>x</b>\n", 400)); strings.Count(got, "**x**") != 400 {
		t.Errorf("400 elements that end became %.100q", got)
	}
	if got := markdownOf(open(20) + paragraphs); !strings.Contains(got, "x") {
		t.Errorf("20 elements that stay open became %q", got)
	}
}

func TestCodeOrQuotes(t *testing.T) {
	for text, want := range map[string]bool{
		"hi @a": false, "`@a`": true, "> @a": true, "```\n@a\n```": true, "`x` @a": false, "> x\n@a": false,
		"``@a``": true, "`` ` `` @a": false, "```x``` @a": false, "``x` @a``": true, "````\n```\n````\n@a": false,
	} {
		at := 0
		for i := range text {
			if text[i] == '@' {
				at = i
			}
		}
		if got := isMarked(text, at); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// isMarked reports whether a byte of a text is in code or a quote.
func isMarked(words string, at int) bool { return codeOrQuotes(words)(at) }

// One function answers for all bytes of a text in order, and reads it once.
func TestCodeOrQuotes_ReadsEachPartOnce(t *testing.T) {
	text := "@a `@b` @c\n > @d `@e\n@f ```@g`` @h\n\u3000>@i```` @j` @k\n``` @l ```@m > @n"
	silent, heard := codeOrQuotes(text), ""
	for at, r := range text {
		if r == '@' && !silent(at) {
			heard += text[at+1 : at+2]
		}
	}
	if heard != "acfmn" {
		t.Errorf("%q are mentioned", heard)
	}
}

func TestMarkdownOf_RefusesManyDocuments(t *testing.T) {
	for n, want := range map[int]string{maxDepth: "x", maxDepth + 1: ""} {
		if got := markdownOf(strings.Repeat("<body a>", n) + "x"); got != want {
			t.Errorf("%d bodies become %q", n, got)
		}
	}
}
