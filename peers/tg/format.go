package tg

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"hubbub/peers/markdown"

	"github.com/go-telegram/bot/models"
)

// A span is an entity with the bytes of the text that it covers.
type span struct {
	models.MessageEntity
	from, to int
}

// spansOf returns the entities of a text, outer ones first. An entity that does not fit the text
// is left out.
func spansOf(text string, entities []models.MessageEntity) (list []span) {
	for _, e := range entities {
		from, to := markdown.Prefix(text, e.Offset), markdown.Prefix(text, e.Offset+e.Length)
		if e.Offset >= 0 && e.Length > 0 && markdown.Units(text[:from]) == e.Offset &&
			markdown.Units(text[:to]) == e.Offset+e.Length {
			list = append(list, span{e, from, to})
		}
	}
	slices.SortStableFunc(list, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	return list
}

// withMarks returns a text with its meaningful formatting as Markdown: struck text, code, spoilers,
// quotes, and links whose text does not show the address.
func withMarks(text string, entities []models.MessageEntity) string {
	type insertion struct {
		at   int
		text string
	}
	var opening, closing []insertion
	var quotes []span
	for _, s := range spansOf(text, entities) {
		if isQuote(s.Type) {
			quotes = append(quotes, s)
			continue
		}
		inner := strings.TrimSpace(text[s.from:s.to])
		before, after := s.marks(text)
		if inner != "" && before+after != "" {
			from := s.from + strings.Index(text[s.from:s.to], inner)
			opening = append(opening, insertion{from, before})
			closing = append([]insertion{{from + len(inner), after}}, closing...) // inner ones first
		}
	}
	var b strings.Builder
	offsets := map[int]int{} // of the places where quotes begin and end, in the marked text
	for at := 0; at <= len(text); at++ {
		for _, c := range closing {
			if c.at == at {
				b.WriteString(c.text)
			}
		}
		offsets[at] = b.Len()
		for _, o := range opening {
			if o.at == at {
				b.WriteString(o.text)
			}
		}
		if at < len(text) {
			b.WriteByte(text[at])
		}
	}
	marked := b.String()
	for _, q := range slices.Backward(quotes) {
		from, to := offsets[q.from], offsets[q.to]
		quoted := "> " + strings.ReplaceAll(strings.TrimRight(marked[from:to], "\n"), "\n", "\n> ")
		marked = onOwnLines(marked[:from], quoted, marked[to:])
	}
	return marked
}

func isQuote(t models.MessageEntityType) bool {
	return t == models.MessageEntityTypeBlockquote || t == models.MessageEntityTypeExpandableBlockquote
}

// onOwnLines joins texts so that the middle one shares no line with the others.
func onOwnLines(before, middle, after string) string {
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	if after != "" && !strings.HasPrefix(after, "\n") {
		after = "\n" + after
	}
	return before + middle + after
}

// marks returns the Markdown before and after a span of a text. Both are empty if its formatting
// has no meaning.
func (s *span) marks(text string) (before, after string) {
	inner := text[s.from:s.to]
	switch s.Type {
	case models.MessageEntityTypeStrikethrough:
		return "~~", "~~"
	case models.MessageEntityTypeSpoiler:
		return "||", "||"
	case models.MessageEntityTypeCode, models.MessageEntityTypePre:
		return s.codeMarks(text)
	case models.MessageEntityTypeTextLink:
		if bare := bareAddress(s.URL); bare != "" && bare != bareAddress(inner) && linkedUser(s.URL) == "" {
			return "", " (" + s.URL + ")"
		}
	}
	return "", ""
}

// codeMarks returns the marks of code: a fence, or backticks within a line.
func (s *span) codeMarks(text string) (before, after string) {
	inner := text[s.from:s.to]
	if s.Type == models.MessageEntityTypeCode && !strings.Contains(inner, "\n") {
		if strings.Contains(inner, "`") {
			return "`` ", " ``"
		}
		return "`", "`"
	}
	fence := "```"
	if strings.Contains(inner, fence) {
		fence = "~~~"
	}
	before, after = fence+s.Language+"\n", "\n"+fence
	if s.from > 0 && text[s.from-1] != '\n' {
		before = "\n" + before
	}
	if s.to < len(text) && text[s.to] != '\n' {
		after += "\n"
	}
	return before, after
}

// bareAddress returns an address without the parts that people omit.
func bareAddress(address string) string {
	_, rest, found := strings.Cut(strings.TrimSpace(address), "://")
	if !found {
		rest = address
	}
	return strings.TrimSuffix(strings.ToLower(rest), "/")
}

// linkedUser returns the user that an address links to, as an ID after "id:" or as a username in
// lower case, or "". An address with a further path or parameters is not about the user alone.
func linkedUser(address string) string {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, path := strings.TrimPrefix(strings.ToLower(u.Host), "www."), strings.ToLower(strings.Trim(u.Path, "/"))
	switch {
	case u.Scheme == "tg" && host == "user" && u.Query().Get("id") != "":
		return "id:" + u.Query().Get("id")
	case u.Scheme == "tg" && host == "resolve" && len(u.Query()) == 1:
		return strings.ToLower(u.Query().Get("domain"))
	case u.RawQuery != "" || strings.Contains(path, "/"):
		return ""
	case slices.Contains([]string{"t.me", "telegram.me", "telegram.dog"}, host):
		return path
	case path == "" && strings.HasSuffix(host, ".t.me"):
		return strings.TrimSuffix(host, ".t.me")
	}
	return ""
}
