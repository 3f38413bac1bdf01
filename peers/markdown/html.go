package markdown

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// A Message is one message of a text: without marks, and as HTML.
type Message struct {
	Text string `json:"text"`
	HTML string `json:"html,omitempty"` // empty if the text has no formatting
}

// Messages converts Markdown to messages of at most limit bytes of text and about twice as many
// of HTML. It divides a text between its blocks, and a block that is too long as [Split] does.
// The HTML has only tags that the specification of Matrix allows.
func Messages(source string, limit int) (list []Message) {
	source = clean(source)
	if tooDeep(source) {
		return flatMessages(Plain(source), limit)
	}
	var group []block
	var size Message
	flush := func() {
		if len(group) > 0 {
			list = append(list, messageOf(group))
		}
		group, size = nil, Message{}
	}
	for _, b := range parseBlocks(strings.Split(source, "\n"), 0, false) {
		m := messageOf([]block{b})
		if !m.fits(limit) {
			flush()
			w := &writer{}
			w.block(b, style{}, "")
			list = append(list, flatMessages(assemble(spellLinks(w.runs)), limit)...)
			continue
		}
		size.Text += "\n\n" + m.Text
		if size.HTML += htmlBlock(b); !size.fits(limit) {
			flush()
			size = m
		}
		group = append(group, b)
	}
	flush()
	return slices.DeleteFunc(list, func(m Message) bool { return m.Text == "" })
}

func (m *Message) fits(limit int) bool { return len(m.Text) <= limit && len(m.HTML) <= 2*limit }

func messageOf(blocks []block) Message {
	m := Message{Text: textOf(blocks).Text, HTML: htmlBlocks(blocks)}
	if !strings.Contains(strings.ReplaceAll(m.HTML, "<br>", ""), "<") {
		m.HTML = ""
	}
	return m
}

// flatMessages splits a text and drops its formatting, except that code stays code. Links are spelled out.
func flatMessages(t Text, limit int) (list []Message) {
	for _, part := range Split(t, limit/3) { // a UTF-16 unit has at most three bytes
		m := Message{Text: part.Text}
		if len(part.Entities) > 0 && part.Entities[0].Type == Pre {
			m.HTML = "<pre><code>" + html.EscapeString(part.Text) + "</code></pre>"
		}
		list = append(list, m)
	}
	return list
}

// htmlBlocks returns blocks as HTML. A paragraph that stands alone needs no tag.
func htmlBlocks(blocks []block) string {
	if len(blocks) == 1 && blocks[0].kind == paragraph {
		return htmlText(blocks[0].text)
	}
	return htmlEach(blocks)
}

func htmlEach(blocks []block) string {
	var b strings.Builder
	for _, one := range blocks {
		b.WriteString(htmlBlock(one))
	}
	return b.String()
}

func htmlBlock(b block) string {
	switch b.kind {
	case heading:
		return fmt.Sprintf("<h%d>%s</h%[1]d>", b.level, htmlText(b.text))
	case quote:
		return "<blockquote>" + htmlBlocks(b.blocks) + "</blockquote>"
	case list:
		return htmlList(b)
	case code:
		return run{b.text, style{pre: true, language: b.language}}.html()
	case rule:
		return "<hr>"
	case table:
		return htmlTable(b)
	}
	return "<p>" + htmlText(b.text) + "</p>"
}

// htmlList returns a list. A number out of sequence begins another list, since a reader counts the items.
// Marks other than a bullet and a number with a dot, which a reader would show differently, stay in the text.
func htmlList(b block) string {
	if slices.ContainsFunc(b.items, func(it item) bool { return it.mark != fmt.Sprintf("%d.", it.number) }) {
		return "<ul>" + htmlItems(b.items) + "</ul>"
	}
	var w strings.Builder
	for i := 0; i < len(b.items); {
		from, first, start := i, b.items[i].number, ""
		for i < len(b.items) && b.items[i].number == first+i-from {
			i++
		}
		if first != 1 {
			start = fmt.Sprintf(` start="%d"`, first)
		}
		w.WriteString("<ol" + start + ">" + htmlItems(b.items[from:i]) + "</ol>")
	}
	return w.String()
}

// htmlItems returns items of a list whose reader shows bullets and numbers with a dot.
func htmlItems(items []item) string {
	var w strings.Builder
	for _, it := range items {
		box, rest := taskBox(it.blocks)
		if it.mark != "•" && it.mark != fmt.Sprintf("%d.", it.number) {
			box = it.mark + " " + box
		}
		w.WriteString("<li>" + html.EscapeString(box) + htmlItem(rest) + "</li>")
	}
	return w.String()
}

// htmlItem returns the blocks of an item, its first paragraph without a tag.
func htmlItem(blocks []block) string {
	if len(blocks) > 1 && blocks[0].kind == paragraph {
		return htmlText(blocks[0].text) + htmlEach(blocks[1:])
	}
	return htmlBlocks(blocks)
}

func htmlTable(b block) string {
	var w strings.Builder
	w.WriteString("<table>")
	for i, row := range b.rows {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		w.WriteString("<tr>")
		for column := range b.aligns {
			words := ""
			if column < len(row) {
				words = htmlText(row[column])
			}
			w.WriteString("<" + cell + ">" + words + "</" + cell + ">")
		}
		w.WriteString("</tr>")
	}
	return w.String() + "</table>"
}

// htmlText returns an inline text as HTML.
func htmlText(text string) string {
	var b strings.Builder
	for _, r := range runsOf(text) {
		b.WriteString(r.html())
	}
	return b.String()
}

// html returns a run as HTML, with its entities nested.
func (r run) html() string {
	text := html.EscapeString(r.text)
	if !r.pre {
		text = strings.ReplaceAll(text, "\n", "<br>")
	}
	all := r.entities()
	for _, e := range slices.Backward(all[:]) {
		switch e.Type {
		case Pre:
			class := ""
			if e.Language != "" {
				class = ` class="language-` + html.EscapeString(e.Language) + `"`
			}
			text = "<pre><code" + class + ">" + text + "</code></pre>"
		case TextLink:
			text = `<a href="` + html.EscapeString(e.URL) + `">` + text + "</a>"
		default:
			if tag := tags[e.Type]; tag != "" {
				text = "<" + tag + ">" + text + "</" + tag + ">"
			}
		}
	}
	return text
}

var tags = map[EntityType]string{Bold: "strong", Italic: "em", Strikethrough: "del", Code: "code"}
