package attention

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
)

// hiddenTags enclose text that models write for themselves or for their host: thoughts, tool
// calls, and their results. Some models put a name and a colon before each tag.
var hiddenTags = []string{
	"think", "thinking", "thought", "reasoning", "scratchpad", "tool_call", "tool_calls", "tool_response",
	"tool_result", "tool_use",
	"function_call", "function_calls", "function_results", "invoke",
}

// anyTag matches the name of a hidden tag.
var anyTag = `(?:[a-z]+:)?(?:` + strings.Join(hiddenTags, "|") + `)`

// codeOrQuote matches tags that are meant for people: in code, in their own quotation marks, or
// in a sentence that calls them a tag ("the <think> tag"). A straight quotation mark counts only
// apart from other words: `"yes"</think>"Yes"` quotes no tag, and `of tokens </think> Tokens are`
// names none.
var codeOrQuote = "(```.*?(?:```|\\z)|`[^`\n]+`|" +
	`[“„‘‚]` + quotedTag + `[”“’‘]|[«‹][ \x{a0}]?` + quotedTag + `[ \x{a0}]?[»›]|[「『]` + quotedTag + `[」』]|` +
	`\B(?:"` + quotedTag + `"|'` + quotedTag + `')(?:[\s.,;:!?…)\]}、。，！？/-]|\z)|` +
	`(?:\b(?:the|an?|this|that|no|any|each|every|opening|closing) </?` + anyTag + `>|[\pL\pN,] <` + anyTag +
	`> (?:and|or) </?` + anyTag + `>) (?:tag|token|block|element|marker)s?\b)`

var quotedTag = `(?:</?` + anyTag + `>|\[(?:/?THINK|TOOL_CALLS)\])`

// hiddenPart matches codeOrQuote, which stays, or text that is not meant for people. The first
// match in the text decides, so a tag inside code stays and code inside a thought is removed.
var hiddenPart = regexp.MustCompile(`(?is)` + strings.Join([]string{
	// the last was never closed
	codeOrQuote, `<` + anyTag + `\s*/>`, closedTags(), `<` + anyTag + `(?:\s[^>\n]*)?>.*\z`,
	`<(?:function=|` + anyTag + `\b)[^>\n]*\z`, `</?(?:[a-z]+:)?` + beginnings(hiddenTags...) + `\z`, // cut in a tag
	`</(?:[a-z]+:)?(?:tool|function)_[a-z]+>`, // an end alone
	`<function=[^>\n]*>.*?(?:</function>|\z)`, `\[TOOL_CALLS\].*\z`, `<\|python_tag\|>.*\z`,
	// gpt-oss
	`<\|channel\|>final[^<\n]*<\|message\|>`, `<\|channel\|>.*?(?:<\|channel\|>final[^<\n]*<\|message\|>|\z)`,
	`<\|start\|>[a-z]*`,
	// DeepSeek, Kimi
	`<[|｜]tool[▁_]calls[▁_](?:section_)?begin[|｜]>.*?(?:<[|｜]tool[▁_]calls[▁_](?:section_)?end[|｜]>|\z)`,
	`<[|｜]tool[▁_]call[▁_]begin[|｜]>.*?(?:<[|｜]tool[▁_]call[▁_]end[|｜]>|\z)`,
	`\[THINK\].*?(?:\[/THINK\]|\z)`, `◁think▷.*?(?:◁/think▷|\z)`, `<[|｜][a-z0-9_▁ ]{1,40}[|｜]>`,
	// a copy of the prompt up to its last fence
	`C2A (?:EVENT|KNOCK)[ \t]*\n(?:[a-z_]+: [^\n]*\n)*\n[A-Z]+\n.*(?m:^)[a-z0-9]{16,}>>[ \t]*(?m:$)\n?`,
	// and one that was cut
	`(?:(?m:^)C2A (?:EVENT|KNOCK)[ \t]*\n|C2A (?:EVENT|KNOCK)[ \t]*\n` + headerLine + `)(?:[a-z_]+: [^\n]*(?:\n|\z))*` +
		`(?:\n[A-Z ]+\n[^\n]*<<[a-z0-9]{16,}\n.*\z|` + `(?:[a-z]|` + beginnings(headerNames...) + `):?\z|\n(?:` +
		beginnings("CONTEXT", "MESSAGE") + `|MESSAGE\n<{0,2}[a-z0-9]*)\z)?`,
	// cut in its first word
	`(?m:^)[ \t]*(?:` + beginnings("C2A EVENT", "C2A KNOCK") + `|</?[a-z][a-z_:=]*|</|<<[a-z0-9]*|<[|｜])\z`,
	// which no other text ends with
	`(?:<｜|<[|｜][a-z][a-z0-9_▁ ]*[|｜]?|\[` + beginnings("THINK]", "TOOL_CALLS]") + `|◁[a-z/]*)\z`,
	// and one cut in its end
	`(?m:^)(?:<<[a-z0-9]{16,}|[a-z0-9]{16,}>>)[ \t]*(?:\n|\z)`, `(?m:^)[a-z0-9]{16,}>\z`,
	`\A` + headerOnly + `(?:` + headerLine + `)*`, `(?m:^)(?:` + headerLine + `)+` + headerOnly + `(?:` + headerLine +
		`)*`, `(?m:^)` + headerOnly + `(?:` + headerLine + `)+`,
}, "|"))

// toolFence matches the beginning of a code block with a tool call or its result.
var toolFence = regexp.MustCompile("(?i)\\A```tool_(?:c|o|\\z)")

// headerNames name the lines of the header of a prompt.
var headerNames = []string{
	"event_id", "now", "sent", "merged_event_ids", "conversation", "conversation_title", "thread", "stream", "author",
	"author_id",
	"directedness", "response_policy",
	"priority", "reason", "reply_target", "fence",
}

// headerLine matches a line of the header of a prompt.
var headerLine = `(?:` + strings.Join(headerNames, "|") + `): [^\n]*(?:\n|\z)`

// headerOnly matches a header line that occurs in no other text.
const headerOnly = `(?:event_id|response_policy|directedness): [^\n]*(?:\n|\z)`

// beginnings matches words and their prefixes of at least two characters.
func beginnings(words ...string) string {
	var all []string
	for _, word := range words {
		tail := ""
		for i := len(word) - 1; i > 1; i-- {
			tail = "(?:" + word[i:i+1] + tail + ")?"
		}
		all = append(all, word[:2]+tail)
	}
	return "(?:" + strings.Join(all, "|") + ")"
}

// strayCloseTag matches the end of a thought that began in the model's template, or codeOrQuote.
var strayCloseTag = regexp.MustCompile(`(?is)` + codeOrQuote +
	`|</(?:[a-z]+:)?(?:think|thinking|thought|reasoning|scratchpad)>|\[/THINK\]|◁/think▷`)

func closedTags() string {
	var all []string
	for _, tag := range hiddenTags {
		all = append(all, `<(?:[a-z]+:)?`+tag+`(?:\s[^>\n]*)?>.*?</(?:[a-z]+:)?`+tag+`>`)
	}
	return strings.Join(all, "|")
}

var (
	copyOpens = regexp.MustCompile(`<<([A-Za-z0-9]{16,})[ \t]*\n`)
	copyGoes  = regexp.MustCompile(`\A>>[ \t]*\n\n[A-Z]+\n(?:[^<\n][^\n]*\n)*<<`)
)

// textAfterCopy returns the text after a copy of the prompt that ends with its own last fence.
func textAfterCopy(text string) string {
	opens := copyOpens.FindStringSubmatchIndex(text)
	if opens == nil {
		return ""
	}
	fence, rest := text[opens[2]:opens[3]], text[opens[1]-1:]
	for {
		_, behind, closed := strings.Cut(rest, "\n"+fence)
		if !closed {
			return ""
		}
		goes := copyGoes.FindString(behind)
		if !strings.HasPrefix(behind[len(goes):], fence) || goes == "" {
			return strings.TrimLeft(behind, ">")
		}
		rest = behind[len(goes):]
	}
}

// NothingVisible tells a model that VisibleText removed everything that it wrote.
const NothingVisible = "What you wrote holds only thoughts, a tool call as text, or a copy of the prompt, which no " +
	"person is shown. " +
	"Call tools as tools, and write the answer in plain words, with each tag that you speak of in `code`."

// VisibleText returns the part of a model's text that is meant for people, without thoughts, tool
// calls written as text, and copies of the prompt's header and fences. An unclosed part extends
// to the end of the text. A tag in code or quotation marks stays, and so does one that its
// sentence calls a tag. The result is "" if nothing else was written.
func VisibleText(text string) string {
	answer, _ := visibleTextOf(text)
	return answer
}

// maxHiddenPart limits what is kept of an unfinished hidden part: its beginning, which determines
// how it ends.
const maxHiddenPart = 16 << 10

// tagBegins matches a possible beginning of a tag at the end of a text. It is too short to hide.
var tagBegins = regexp.MustCompile(`(?i)(?:<[/|｜]?(?:[a-z]{0,12}:?[a-z]?)|\[(?:/?T)?)\z`)

// cutTag and tagEnds match a tag that was split in two.
var (
	cutTag  = regexp.MustCompile(`(?:<[^<>\s]*|[\[◁][/A-Za-z]*)\z`)
	tagEnds = regexp.MustCompile(`\A(?:[^<>\s]*>|[/A-Za-z]*[\]▷])`)
)

// VisibleTextAfter is VisibleText for an answer in several texts. before is the unfinished hidden
// part at the end of the previous text; after is that of this text. The end of a thought at the
// beginning of a text ends whatever was open.
func VisibleTextAfter(before, text string) (answer, after string) {
	if at := strayCloseTag.FindStringSubmatchIndex(text); at != nil && at[2] < 0 &&
		strings.TrimSpace(text[:at[0]]) == "" {
		before = ""
	}
	answer, after = visibleTextOf(before + text)
	if shown := before != "" && tagBegins.FindString(before) == before; before == "" || shown ||
		cutTag.MatchString(before) && tagEnds.MatchString(text) {
		if after == "" {
			after = tagBegins.FindString(before + text)
		}
		if shown && strings.HasPrefix(answer, before) {
			answer = answer[len(before):]
		}
		return answer, boundedRest(after)
	}
	for _, between := range []string{"\n", "\n\n"} { // where the author split it
		if other, end := visibleTextOf(before + between + text); len(other) < len(answer) {
			answer, after = other, end
		}
	}
	return answer, boundedRest(after)
}

// boundedRest shortens an unfinished hidden part if only its beginning matters.
func boundedRest(after string) string {
	switch {
	case len(after) <= maxHiddenPart:
		return after
	case HiddenPartContinues(after):
		return strings.ToValidUTF8(after[:maxHiddenPart], "")
	}
	return ""
}

// HiddenPartContinues reports whether the next text continues an unfinished thought, call or
// copy.
func HiddenPartContinues(after string) bool { return after != "" && VisibleText(after+"\n\nx") == "" }

// visibleTextOf returns the visible text and the unfinished hidden part at its end.
func visibleTextOf(text string) (answer, end string) {
	var b strings.Builder
	from := 0
	for _, at := range hiddenPart.FindAllStringSubmatchIndex(text, -1) {
		part := text[at[0]:at[1]]
		b.WriteString(text[from:at[0]])
		from = at[1]
		last, within := part, ""
		switch {
		case at[2] >= 0:
			if !toolFence.MatchString(part) {
				b.WriteString(part)
				last = ""
			}
		case part[0]|0x20 == 'c':
			if within, end = visibleTextOf(textAfterCopy(part)); within != "" {
				b.WriteString(within)
				last = end
			}
		}
		if end = ""; strings.TrimSpace(text[from:]) == "" && last != "" {
			end = last + text[from:]
		}
	}
	b.WriteString(text[from:])
	kept := b.String()
	for _, at := range strayCloseTag.FindAllStringSubmatchIndex(kept, -1) {
		if at[2] < 0 {
			answer, more := visibleTextOf(kept[at[1]:])
			return answer, cmp.Or(end, more)
		}
	}
	kept, call := withoutCalls(kept)
	end = cmp.Or(end, call)
	if kept = withoutFences(kept); kept == text {
		return text, ""
	}
	return strings.TrimSpace(kept), end
}

// unquotedCall matches codeOrQuote, or the possibly unfinished beginning of a tool call as JSON,
// as some models write it.
var unquotedCall = regexp.MustCompile(`(?is)` + codeOrQuote +
	`|(?:\[\s*)?\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"(?:name|function)"\s*:\s*(?:` +
	`(?:"[\w.-]+"\s*,|\{\s*"name"\s*:\s*"[\w.-]+"\s*,)\s*"(?:arguments|parameters)"\s*:\s*["{]|` +
	`(?:\{\s*"name"\s*:\s*)?"[\w.-]*(?:"\s*(?:,\s*(?:"[a-z]*(?:"\s*(?::\s*)?)?)?)?)?\z)`)

// withoutCalls removes tool calls in JSON from a text. It also returns the last one, if the text
// ends with it.
func withoutCalls(text string) (kept, end string) {
	var b strings.Builder
	for {
		at := unquotedCall.FindStringSubmatchIndex(text)
		switch {
		case at == nil:
			return b.String() + text, end
		case at[2] >= 0:
			b.WriteString(text[:at[1]])
			text, end = text[at[1]:], ""
			continue
		}
		b.WriteString(text[:at[0]])
		end, text = text[at[0]:], ""
		d := json.NewDecoder(strings.NewReader(end))
		var call json.RawMessage
		if d.Decode(&call) == nil {
			text = strings.TrimLeft(end[d.InputOffset():], "; \t\n")
		}
		if text != "" {
			end = ""
		}
	}
}
