package attention

import "strings"

var (
	// opening matches finished thoughts and white space at the beginning of a text.
	opening = compiled(`(?is)\A(?:\s|` + closedTags() + `)*`)

	// unsure matches where an unfinished text may begin a part that people must not see.
	unsure = compiled("(?i)<|```|\\A`|◁|C2A\\b|" +
		`(?-i:\A(?:assistant|analysis|function call))|>>>|` +
		`\A(?:` + beginnings("Here is my thought process:", "Here's my thought process:") + `\z|` +
		`Here(?: is|'s) my thought process:)|` +
		`\[(?:/?THINK|UNUSED|TOOL_|/?INST|AVAIL|SYSTEM_|GMASK|\||\s*["{])|\]~|\b(?-i:[A-Z2-7]{16})|\{\s*(?:["']|(?:name|tool|function|action)\b|\z)|\A(?:\[\s*)?\{|` +
		callBegins + `|(?m:^)[ \t]*(?:[a-z0-9]{16}|` + strings.TrimSuffix(headerLine, `[^\n]*(?:\n|\z)`) + `)|` +
		`(?m:^)[ \t>*]*(?:thought|action|observation|final answer)\b`)
)

func closedTags() string {
	var all []string
	for _, tag := range hiddenTags {
		all = append(all, `<(?:[a-z]+:)?`+tag+`(?:\s[^>\n]*)?>.*?</(?:[a-z]+:)?`+tag+`>`)
	}
	return strings.Join(all, "|")
}

// Draft returns the part of an unfinished text that may be shown already: whole words, up to a
// place where VisibleText may remove something. It is "" for a text that may mean silence. If a
// thought began before the text, its end shows only later: see DraftMatches.
func Draft(text string) string {
	text = text[len(opening().FindString(text)):]
	if at := unsure().FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	if copied := ruleParts(text, ruleCopied, true); copied != nil {
		text = text[:copied[0][0]]
	}
	text = strings.TrimSpace(text[:max(0, strings.LastIndexAny(text, " \n\t"))])
	if MeansSilence(text) {
		return ""
	}
	return text
}

// DraftMatches reports whether everything that Draft showed of a text is part of its final
// answer.
func DraftMatches(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(VisibleText(text)), Draft(text))
}
