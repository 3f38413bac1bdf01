package attention

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mentions says what the mentions of an event mean to one agent.
type mentions struct {
	me     bool // by name or alias
	role   bool // a role of the agent, or the whole group
	others bool // somebody else, or a role of others
}

// resolveMentions reads the mentions that the bridge resolved, and the "@name" labels of the text. A
// label that the bridge resolved, too, counts once.
func resolveMentions(e *Event, self *Self, w *Words, spoken string) mentions {
	var m mentions
	for _, name := range slices.Concat(e.Mentions, textMentions(spoken)) {
		m.add(name, self, w)
	}
	return m
}

// Addressees reports whether an event mentions an agent, and whether it mentions anybody else. If the
// bridge has resolved mentions, the labels of the text do not count: one of them may be the name of a
// bot that stands for the agent.
func Addressees(e *Event, self *Self) (me, others bool) {
	text := e.Text
	if len(e.Mentions) > 0 {
		text = ""
	}
	m := resolveMentions(e, self, &defaultWords().Words, text)
	return m.me, m.others || m.role
}

func (m *mentions) add(name string, self *Self, w *Words) {
	family, rest, qualified := strings.Cut(strings.TrimPrefix(name, "@"), ":")
	if !qualified {
		family, rest = "", family
	}
	if rest == "" {
		return
	}
	bare := family == "" // other families, such as "user:dave", are somebody else
	me := (bare || family == "agent") && self.is(rest) || bare && hasFold(self.Aliases, rest)
	role := !me && (bare || family == "role") && (hasFold(self.Roles, rest) || hasFold(w.Groups, rest))
	m.me, m.role, m.others = m.me || me, m.role || role, m.others || !me && !role
}

func hasFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(item string) bool {
		return strings.EqualFold(strings.TrimPrefix(item, "@"), s)
	})
}

// textMentions returns the names of the "@" labels of a text, in order and without duplicates.
// The name of a qualified label such as "@lead.main" or "@lead#codex?5" is its first part.
func textMentions(text string) []string {
	var names []string
	known := map[string]bool{}
	for _, l := range Labels(text) {
		if name := text[l.From+1 : l.NameEnd]; !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	return names
}

// A Label is the position of a label in a text. Its "@" is at From, its name ends at NameEnd, and
// the whole label, without punctuation of the sentence, ends at To.
type Label struct{ From, NameEnd, To int }

// maxAlias limits a name by which an agent is mentioned, in bytes.
const maxAlias = 256

// labelPunctuation may occur inside a label, but not end it.
const labelPunctuation = ".:/#?"

// Labels returns the labels of a text, in order. It is the only grammar of mentions. No word, "@"
// or "/" may precede a label, so mail addresses and parts of web addresses are not labels.
// Neither is invalid UTF-8. In scripts without spaces between words, words may touch a label: 请@lead看看.
func Labels(text string) []Label {
	var labels []Label
	previous := rune(' ')
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r != '@' || isWordRune(previous) && !joinsWords(previous) || strings.ContainsRune("@/\uFFFD", previous) {
			previous, i = r, i+size
			continue
		}
		ascii := i+1 < len(text) && text[i+1] < utf8.RuneSelf
		inName := func(r rune) bool { return isWordRune(r) && !(ascii && joinsWords(r)) }
		nameEnd := scan(text, i+1, inName)
		to := scan(text, nameEnd, func(r rune) bool { return inName(r) || strings.ContainsRune(labelPunctuation, r) })
		if to < len(text) && text[to] == '@' && text[to-1] != '/' {
			nameEnd = i + 1 // "@a@b" is not a label
		}
		if nameEnd > i+1 {
			labels = append(labels, Label{i, nameEnd, nameEnd +
				len(strings.TrimRight(text[nameEnd:to], labelPunctuation))})
		}
		previous, i = 'x', max(to, i+1)
	}
	return labels
}

// ParseAliases returns the names of an agent without the @ that may begin them. It returns an
// error if a mention cannot mean the agent by one of them.
func ParseAliases(names []string) (aliases []string, err error) {
	for _, name := range names {
		name = strings.TrimPrefix(name, "@")
		if err := CheckAlias(name); err != nil {
			return nil, err
		}
		aliases = append(aliases, name)
	}
	return aliases, nil
}

// CheckAlias returns an error if a mention cannot mean an agent by a name.
func CheckAlias(name string) error {
	label := Labels("@" + name)
	switch {
	case len(label) != 1 || label[0] != Label{0, 1 + len(name), 1 + len(name)} || len(name) > maxAlias,
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }):
		return fmt.Errorf("%q is not a name: use one word of at most %d bytes, as in a mention", name, maxAlias)
	case MeansEverybody(name):
		return fmt.Errorf("%q means everybody: use another name", name)
	}
	return nil
}

// MeansEverybody reports whether a mention of a name means every agent of a conversation.
func MeansEverybody(name string) bool { return hasFold(defaultWords().Groups, name) }

// CountLeading returns the number of labels at the beginning of a text, preceded only by other
// labels. Leading labels route the message; all others are only hints.
func CountLeading(text string, labels []Label) int {
	end := 0
	for i, l := range labels {
		if strings.TrimFunc(text[end:l.From], isSeparator) != "" {
			return i
		}
		end = l.To
	}
	return len(labels)
}

// TextAfterLabel returns the text that follows a label.
func TextAfterLabel(text string, l Label) string { return strings.TrimFunc(text[l.To:], isSeparator) }

// isSeparator reports whether a rune may separate leading labels.
func isSeparator(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(",;:，；：、", r)
}

// scan returns the end of the run of wanted characters.
func scan(text string, from int, want func(rune) bool) int {
	return len(text) - len(strings.TrimLeftFunc(text[from:], want))
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_' || r == '-'
}

// joinsWords reports whether a rune belongs to a script without spaces between words, or to one
// that joins prepositions to the next word.
func joinsWords(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Arabic, unicode.Hebrew)
}

// withoutLabels returns a text without its labels, and without the signs after leading ones.
func withoutLabels(text string) string {
	var b strings.Builder
	labels := Labels(text)
	leading, end := CountLeading(text, labels), 0
	for i, l := range labels {
		b.WriteString(text[end:l.From])
		b.WriteByte(' ')
		end = l.To
		if i < leading {
			end = addressEnd(text, l.To)
		}
	}
	b.WriteString(text[end:])
	return b.String()
}

// addressEnd returns the end of the sign after a leading label that ends at to, as in "@lead: yes", or to
// if there is none. A sign that begins a face, as in "@lead ;)", is none.
func addressEnd(text string, to int) int {
	at := scan(text, to, unicode.IsSpace)
	sign, size := utf8.DecodeRuneInString(text[at:])
	rest := text[at+size:]
	if isSeparator(sign) && (rest == "" || rest[0] >= utf8.RuneSelf || unicode.IsSpace(rune(rest[0]))) {
		return at + size
	}
	return to
}

// spokenPart returns the author's own words: the text without fenced code, code spans and quoted
// lines.
func spokenPart(text string) string {
	if !strings.ContainsAny(text, "`>~") {
		return text
	}
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"):
			if rest := trimmed[3:]; !strings.Contains(rest, "```") {
				fence = "```"
			}
		case strings.HasPrefix(trimmed, "~~~"):
			fence = "~~~"
		case strings.HasPrefix(trimmed, ">"):
		default:
			b.WriteString(withoutCodeSpans(line))
		}
	}
	return b.String()
}

// onlyQuotes reports whether every line of a text is quoted, as in a forwarded message: the
// author adds nothing.
func onlyQuotes(text string) bool {
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '>' {
			return false
		}
	}
	return strings.TrimSpace(text) != ""
}

// withoutCodeSpans returns a line with a space for each code span: the text between equal runs of backquotes.
func withoutCodeSpans(line string) string {
	var b strings.Builder
	from, runs := 0, backquotes().FindAllStringIndex(line, -1)
	for len(runs) > 0 {
		opens := runs[0]
		runs = runs[1:]
		closes := slices.IndexFunc(runs, func(run []int) bool { return run[1]-run[0] == opens[1]-opens[0] })
		if closes >= 0 {
			b.WriteString(line[from:opens[0]] + " ")
			from, runs = runs[closes][1], runs[closes+1:]
		}
	}
	b.WriteString(line[from:])
	return b.String()
}

var backquotes = compiled("`+")
