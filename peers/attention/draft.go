package attention

import (
	"regexp"
	"strings"
)

var (
	// opening matches thoughts at the beginning of a text that have ended, and white space.
	opening = regexp.MustCompile(`(?is)\A(?:\s|` + closedTags() + `)*`)

	// unsure matches where an unfinished text begins what may turn out not to be for people.
	unsure = regexp.MustCompile("(?i)<|```tool_|" + `\[(?:/?THINK|TOOL_)|◁|C2A\b|\b(?-i:[A-Z2-7]{16})|(?:\[\s*)?\{\s*(?:"|\z)|\A(?:\[\s*)?\{|(?m:^)[ \t]*(?:[a-z0-9]{16}|` + strings.TrimSuffix(headerLine, `[^\n]*(?:\n|\z)`) + `)`)
)

// Draft returns what of a text that a model is still writing may be shown already: whole
// words, up to where it may turn out that Answer leaves something out. It is "" for a text
// that may come to mean silence. The end of a thought that the text did not begin is known
// only once it came: see DraftMatches.
func Draft(text string) string {
	text = text[len(opening.FindString(text)):]
	if at := unsure.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	text = strings.TrimSpace(text[:max(0, strings.LastIndexAny(text, " \n\t"))])
	if MeansSilence(text) {
		return ""
	}
	return text
}

// DraftMatches reports whether all that was shown of a text belongs to the answer that it became.
func DraftMatches(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(VisibleText(text)), Draft(text))
}
