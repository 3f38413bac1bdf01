package tgtest

import (
	"html"
	"strings"

	"github.com/go-telegram/bot/models"
)

// tags are the HTML tags that the Bot API knows, with their entities.
var tags = map[string]models.MessageEntityType{
	"b": models.MessageEntityTypeBold, "strong": models.MessageEntityTypeBold,
	"i": models.MessageEntityTypeItalic, "em": models.MessageEntityTypeItalic,
	"u": models.MessageEntityTypeUnderline, "ins": models.MessageEntityTypeUnderline,
	"s": models.MessageEntityTypeStrikethrough, "del": models.MessageEntityTypeStrikethrough,
	"code": models.MessageEntityTypeCode, "pre": models.MessageEntityTypePre,
	"a": models.MessageEntityTypeTextLink, "blockquote": models.MessageEntityTypeBlockquote,
	"tg-spoiler": models.MessageEntityTypeSpoiler,
}

// parse applies a parse mode. HTML is read in full; of the Markdown modes the
// escaping rules are checked, and the text is kept as it came.
func parse(text, mode string) (string, []models.MessageEntity, *apiError) {
	switch strings.ToLower(mode) {
	case "html":
		return parseHTML(text)
	case "markdownv2":
		return checkMarkdown(text, "_*[]()~`>#+-=|{}.!")
	case "markdown":
		return checkMarkdown(text, "_*`[")
	default:
		return "", nil, badRequest("unsupported parse_mode")
	}
}

func parseHTML(text string) (string, []models.MessageEntity, *apiError) {
	type open struct {
		tag    string
		entity models.MessageEntity
	}
	var out strings.Builder
	var stack []open
	var entities []models.MessageEntity
	for text != "" {
		before, rest, found := strings.Cut(text, "<")
		out.WriteString(html.UnescapeString(before))
		if !found {
			break
		}
		inside, after, closed := strings.Cut(rest, ">")
		if !closed {
			return "", nil, badRequest("can't parse entities: Unclosed start tag at byte offset %d", out.Len())
		}
		text = after
		if name, end := strings.CutPrefix(inside, "/"); end {
			if len(stack) == 0 || stack[len(stack)-1].tag != name {
				return "", nil, badRequest("can't parse entities: Unexpected end tag at byte offset %d", out.Len())
			}
			top := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			top.entity.Length = units(out.String()) - top.entity.Offset
			entities = append(entities, top.entity)
			continue
		}
		name, attributes, _ := strings.Cut(inside, " ")
		kind, known := tags[name]
		if !known {
			return "", nil, badRequest("can't parse entities: Unsupported start tag \"%s\" at byte offset %d", name, out.Len())
		}
		e := models.MessageEntity{Type: kind, Offset: units(out.String())}
		if _, url, ok := strings.Cut(attributes, `href="`); ok {
			e.URL, _, _ = strings.Cut(url, `"`)
		}
		stack = append(stack, open{name, e})
	}
	if len(stack) > 0 {
		return "", nil, badRequest("can't parse entities: Can't find end tag corresponding to start tag \"%s\"", stack[len(stack)-1].tag)
	}
	return out.String(), entities, nil
}

// checkMarkdown refuses unescaped special characters that are not paired.
func checkMarkdown(text, special string) (string, []models.MessageEntity, *apiError) {
	count := map[byte]int{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case strings.IndexByte("_*~`", c) >= 0 && strings.IndexByte(special, c) >= 0:
			count[c]++
		case strings.IndexByte("[]()", c) >= 0:
		case strings.IndexByte(special, c) >= 0 && !(c == '>' && (i == 0 || text[i-1] == '\n')):
			return "", nil, badRequest("can't parse entities: Character '%c' is reserved and must be escaped with the preceding '\\'", c)
		}
	}
	for c, n := range count {
		if n%2 != 0 {
			return "", nil, badRequest("can't parse entities: Can't find end of the entity starting with '%c'", c)
		}
	}
	return text, nil, nil
}
