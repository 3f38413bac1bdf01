package attention

import (
	"strings"
	"sync"
)

// Bounds of what counts as a copy of the standing rules, in words that follow each other there.
const (
	ruleCopied    = 8 // the longest copy in a text
	ruleContinued = 4 // every other copy beside it
	ruleGap       = 3 // words of the model's own between two copies in one paragraph
)

var (
	ruleWord   = compiled(`[\pL\pN_][\pL\pN_.']*[\pL\pN_]|[\pL\pN_]`)
	emptyFence = compiled("(?m)^[ \\t>]*```[\\w-]*[ \\t]*\\n\\s*```[ \\t]*(?:\\n|\\z)")
	lineMarks  = " \t>*-#\"“•"
)

// ruleRuns holds the runs of words of the rules of all drafts, joined by spaces.
var ruleRuns = sync.OnceValue(func() string {
	var all strings.Builder
	for _, v := range []Version{Version0602, Version0624, Version0811} {
		heading, rules, _ := strings.Cut(ResponseRules(v), "\n")
		for _, part := range []string{heading, rules} {
			all.WriteString(" " + strings.ToLower(strings.Join(ruleWord().FindAllString(part, -1), " ")) + " \n")
		}
	}
	return all.String()
})

// ruleParts returns the places in a text that repeat at least the given number of words of the
// rules, or the heading of the rules.
func ruleParts(text string, least int, open bool) (parts [][2]int) {
	at := ruleWord().FindAllStringIndex(text, -1)
	for i := 0; i < len(at); {
		run, n := " ", 0
		if at[i][0] == 0 { // the text may begin, and end, inside a word
			run = ""
		}
		for ; i+n < len(at); n++ {
			next := run + strings.ToLower(text[at[i+n][0]:at[i+n][1]])
			if at[i+n][1] < len(text) {
				next += " "
			}
			if !strings.Contains(ruleRuns(), next) {
				break
			}
			run = next
		}
		n = wholeSentences(text, at[i:], n)
		heading := n == 3 && strings.TrimSpace(run) == "c2a response rules"
		if n >= least || heading || open && n > 1 && i+n == len(at) {
			parts = append(parts, [2]int{at[i][0], at[i+n-1][1]})
			i += n
			continue
		}
		i++
	}
	return parts
}

// wholeSentences returns how many of the first n words of a text belong to a copy: without the
// beginning of another sentence or line that has the same few words, such as "It is".
func wholeSentences(text string, at [][]int, n int) int {
	if n == 0 || n == len(at) || strings.Trim(text[at[n-1][1]:at[n][0]], " \t") != "" {
		return n
	}
	for j := n - 1; j > 0 && n-j < ruleContinued; j-- {
		if strings.ContainsAny(text[at[j-1][1]:at[j][0]], "\n.!?") {
			return j
		}
	}
	return n
}

// beside returns the parts that contain a seed, and the parts that adjoin such a part, directly
// or through others. Elsewhere in a text, the same words are the model's own.
func beside(text string, parts, seeds [][2]int) (copied [][2]int) {
	counts := make([]bool, len(parts))
	for i, p := range parts {
		for len(seeds) > 0 && seeds[0][1] <= p[0] {
			seeds = seeds[1:]
		}
		counts[i] = len(seeds) > 0 && seeds[0][0] < p[1]
	}
	near := func(a, b int) bool {
		between, most := text[parts[min(a, b)][1]:parts[max(a, b)][0]], ruleGap
		if strings.Contains(between, "\n\n") {
			most = 0
		}
		return counts[a] && len(ruleWord().FindAllString(between, most+1)) <= most
	}
	for i := 1; i < len(parts); i++ {
		counts[i] = counts[i] || near(i-1, i)
	}
	for i := len(parts) - 2; i >= 0; i-- {
		counts[i] = counts[i] || near(i+1, i)
	}
	for i, p := range parts {
		if counts[i] {
			copied = append(copied, p)
		}
	}
	return copied
}

// withoutRules removes copies of the standing rules, whole or in part, wherever they are.
func withoutRules(text string) string {
	seeds := ruleParts(text, ruleCopied, false)
	if seeds == nil {
		return text
	}
	var kept strings.Builder
	from := 0
	for _, p := range beside(text, ruleParts(text, ruleContinued, false), seeds) {
		line := from + strings.LastIndexByte(text[from:p[0]], '\n') + 1 // the beginning of what is left of it
		if strings.Trim(text[line:p[0]], lineMarks) == "" {
			p[0] = line
		}
		end := p[1] + len(text[p[1]:]) - len(strings.TrimLeft(text[p[1]:], ".,;:!?\"”*) \t"))
		if p[0] == line && strings.HasPrefix(text[end:], "\n") {
			end++
		}
		kept.WriteString(text[from:p[0]])
		from = end
	}
	kept.WriteString(text[from:])
	return withoutFrame(emptyFence().ReplaceAllString(kept.String(), ""), text)
}

// frameOnly matches what a line of the rules leaves: marks, numbers, tags and a label.
var frameOnly = compiled(`\A[\pP\s>]{0,9}(?:\d{1,3}[.)])?` + ruleFrame + "(?:[^\\n\\d]{0,40}:" + ruleFrame + `)?\z`)

// ruleFrame matches marks and tags, but no emoji, which may be an answer.
const ruleFrame = "(?:\\\\n|<[^<>]*>|[\\pP\\pZ\\s<>|=+~`^])*"

// withoutFrame removes the lines that contained rules if little else is left of them, and their
// introduction if nothing follows it.
func withoutFrame(left, before string) string {
	was := map[string]bool{}
	for line := range strings.Lines(before) {
		was[strings.TrimSpace(line)] = true
	}
	var kept strings.Builder
	for line := range strings.Lines(left) {
		if was[strings.TrimSpace(line)] || !frameOnly().MatchString(line) {
			kept.WriteString(line)
		}
	}
	if left = kept.String(); frameOnly().MatchString(strings.TrimSpace(left)) {
		return ""
	}
	return left
}
