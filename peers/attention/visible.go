package attention

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// NothingVisible tells a model that VisibleText removed everything that it wrote.
const NothingVisible = "What you wrote holds only thoughts, a tool call as text, or a copy of the prompt, which no " +
	"person is shown. " +
	"Call tools as tools, and write the answer in plain words, with each tag that you speak of in `code`."

// VisibleText returns the part of a model's text that is meant for people, without thoughts, tool
// calls written as text, marks of chat templates, copies of the prompt's header and fences, and
// its standing rules. An unclosed part extends to the end of the text. The first turn of the
// assistant that has words is the answer; what follows its end is not. Tools are the names of the
// turn's tools; those of C2A are always known. Marks in code or quotation marks stay, and so do
// those that their sentence mentions. The result is "" if nothing else was written.
func VisibleText(text string, tools ...string) string {
	answer, _, _ := visibleTextOf(text, newNames(tools), 0)
	return answer
}

// maxHiddenPart limits what is kept of an unfinished hidden part: its beginning, which determines
// how it ends.
const maxHiddenPart = 16 << 10

// maxCopies limits the copies of the prompt that are unwrapped one after another. What follows the last one is
// hidden.
const maxCopies = 10

// tagBegins matches a possible beginning of a tag, or of a copy of a prompt, at the end of a text. It is too short to
// hide.
var tagBegins = compiled(`(?im)(?:<[/|｜]?(?:[a-z]{0,12}:?[a-z]?)|\[(?:/?T)?|^C2A?)\z`)

// cutTag and tagEnds match a tag that was split in two.
var (
	cutTag  = compiled(`(?:<[^<>\s]*|[\[◁][/A-Za-z]*)\z`)
	tagEnds = compiled(`\A(?:[^<>\s]*>|[/A-Za-z]*[\]▷])`)
)

// VisibleTextAfter is VisibleText for an answer in several texts. before is the unfinished hidden
// part at the end of the previous text; after is that of this text. The end of a thought at the
// beginning of a text ends whatever was open.
func VisibleTextAfter(before, text string, tools ...string) (answer, after string) {
	known := newNames(tools)
	if at := strayClose().FindStringIndex(strings.TrimSpace(text)); at != nil {
		before = ""
	}
	answer, after, _ = visibleTextOf(before+text, known, 0)
	if shown := before != "" && tagBegins().FindString(before) == before; before == "" || shown ||
		cutTag().MatchString(before) && tagEnds().MatchString(text) {
		if after == "" {
			after = tagBegins().FindString(before + text)
		}
		if shown && strings.HasPrefix(answer, before) {
			answer = answer[len(before):]
		}
		return answer, boundedRest(after, tools)
	}
	for _, between := range []string{"\n", "\n\n"} { // where the author split it
		if other, end, _ := visibleTextOf(before+between+text, known, 0); len(other) < len(answer) {
			answer, after = other, end
		}
	}
	return answer, boundedRest(after, tools)
}

// boundedRest shortens an unfinished hidden part if only its beginning matters.
func boundedRest(after string, tools []string) string {
	switch {
	case len(after) <= maxHiddenPart:
		return after
	case HiddenPartContinues(after, tools...):
		return strings.ToValidUTF8(after[:maxHiddenPart], "")
	}
	return ""
}

// HiddenPartContinues reports whether the next text continues an unfinished thought, call or
// copy. The tools are those of VisibleText.
func HiddenPartContinues(after string, tools ...string) bool {
	return after != "" && VisibleText(after+"\n\nx", tools...) == ""
}

// bareTemplate matches the beginning of an answer whose marks of a template the server has taken out:
// Llama leaves the role, and gpt-oss the thought, "assistant" and "final" in one word. It also matches marks
// that are text elsewhere: the thoughts of Granite and openPangu, and the recipient of Functionary.
var bareTemplate = compiled(`(?s)\A\s*(?:(?:(?:analysis|assistantanalysis)(?:[A-Z].*|\s.*))?assistantfinal|` +
	`(?:assistant)?analysis(?:We|The|User|Need|I|Let)\b.*\z|assistant\n\n\s*|` +
	`Here(?: is|'s) my thought process:.*?\n\s*Here(?: is|'s) my response:\s*|` +
	`\[unused16\](?:\[unused17\]\s*|[^ ,;.:].*?(?:\[unused17\]\s*|\z))|>>>all\n)`)

// Models trained with Alpaca or Vicuna put their answer below a heading, and go on with the next question.
var (
	answerHeading   = compiled(`\A\s*### (?:Response|Assistant):[ \t]*\n?`)
	questionBegin   = compiled(`(?m)^### (?:Instruction|Human):`)
	templateHeading = compiled(`(?m)^### (?:Instruction|Human|User|Input|Response|Assistant):`)
	otherHeading    = compiled(`(?m)^#{1,6} `)
)

// withoutHeadings returns the answer below such a heading, unless the text has headings of its own. A heading such as
// "### Input:" is the template's only in the next question.
func withoutHeadings(text string) string {
	heading := answerHeading().FindString(text)
	if heading == "" {
		return text
	}
	answer, rest := text[len(heading):], ""
	if next := questionBegin().FindStringIndex(answer); next != nil {
		answer, rest = answer[:next[0]], answer[next[0]:]
	}
	if otherHeading().MatchString(answer) || otherHeading().MatchString(templateHeading().ReplaceAllString(rest, "")) {
		return text
	}
	return answer
}

// wrapper matches a tag in which some models put their answer.
var wrapper = begins(`\s*<(answer|final_answer|final|response)>`)

// unwrapped returns an answer without the tag around the whole of it.
func unwrapped(text string) string {
	opened := wrapper().FindStringSubmatchIndex(text)
	if opened == nil || speaksOf().MatchString(text[opened[1]:]) {
		return text
	}
	inner := text[opened[1]:]
	before, after, closed := strings.Cut(inner, "</"+text[opened[2]:opened[3]]+">")
	if closed && strings.TrimSpace(after) != "" {
		return text
	}
	return before
}

// visibleTextOf returns the visible text and the unfinished hidden part at its end. over reports
// whether the turn with the answer ended before the text did. copies counts the copies of the prompt before
// the text.
func visibleTextOf(text string, tools names, copies int) (answer, end string, over bool) {
	if copies > maxCopies {
		return "", "", false
	}
	source := withoutRules(text)
	source = withoutHeadings(source[len(bareTemplate().FindString(source)):])
	s := newScanner(source, tools)
	s.prompt.copies = copies
	s.run()
	kept := s.out.String()
	if kept = unwrapped(withoutFences(kept)); kept == text[min(s.from, len(text)):] {
		return kept, "", s.over
	}
	return strings.TrimSpace(kept), s.end, s.over
}

// An effect is what a scanner does with a part of a text.
type effect int

const (
	keep       effect = iota // the part is for people
	hide                     // it is not
	hideBefore               // it is not, nor is anything before it
	endTurn                  // it ends the answer, if there is one
	unwrap                   // it is a copy of the prompt that may hold the answer
)

// A kind is one kind of parts. Kinds are tried in the order of their table, at every place where
// a part can begin: at the characters of first, at the beginning of a word if first is "a", or
// only at that of a line if line is set. opens decides. The part extends to the end of the match
// of closes, or to the end of the text. If closes is nil, it is the match of opens. If measure is
// set, it decides instead.
type kind struct {
	first   string
	line    bool
	within  int  // opens sees at most that many bytes; 0 for all
	closed  bool // what opens matches ends at the first ">" and has no line break before it
	cut     bool // what opens matches has neither ">" nor a line break, and ends the text
	opens   pattern
	closes  pattern
	measure func(s *scanner, at int, opened []int) (length int, does effect)
	does    effect
	call    bool // a call of a tool as text
	program bool // a call as a program writes it
}

// A scope is what a scanner hides.
type scope int

const (
	everything scope = iota
	callsOnly        // calls of tools
	dataOnly         // calls of tools, except as a program writes them
)

// A scanner walks once through a text, and collects its visible parts.
type scanner struct {
	text     string
	tools    names
	labelled bool // the text has the labels of ReAct
	only     scope
	callable bool // the text has the name of a tool

	out      strings.Builder
	from     int    // where the answer begins, after a thought that began before the text
	over     bool   // the turn of the answer ended before the end of the text
	end      string // the hidden part that ends the text so far, with the white space after it
	answered bool   // out has more than white space

	mentioned bool // a sentence has mentioned a tag, so it may also mention the end of one
	ahead     lookahead
	prompt    promptCopies
	sentence  sentenceMarks
}

// A lookahead remembers what was searched beyond the present place.
type lookahead struct {
	searched   int  // bytes that were searched for the ends of calls
	nextTagEnd int  // see tagEnd
	noTildes   bool // no line of tildes follows, so tildes begin no block of code
}

// promptCopies are what header and copyOfPrompt know about the copies of the prompt in a text.
type promptCopies struct {
	copies                      int // before the text
	noHeader, noCopy, lastFence int
}

// sentenceMarks are what sentenceMark knows about the marks <s> and </s> of a text.
type sentenceMarks struct {
	marked, strikes       bool
	firstWord, secondMark int // indexes
}

func newScanner(text string, tools names) *scanner {
	s := &scanner{text: text, tools: tools, callable: tools.in(text)}
	s.labelled = reactText().MatchString(text) || s.callsAfterThought()
	return s
}

func (s *scanner) run() {
	shown := 0 // everything before it is in out, or hidden
	for at := 0; at < len(s.text); {
		length, does := s.measure(at)
		if length == 0 {
			_, size := utf8.DecodeRuneInString(s.text[at:])
			at += size
			continue
		}
		before, part := s.text[shown:at], s.text[at:at+length]
		if does == hide {
			opens, closes := enclosing(before, s.text[at+length:])
			before, length = before[:len(before)-opens], length+closes
		}
		s.out.WriteString(before)
		if strings.TrimSpace(before) != "" {
			s.end, s.answered = "", true
		}
		at += length
		shown = at
		switch does {
		case keep:
			s.out.WriteString(part)
			s.end, s.answered = "", true
		case unwrap:
			within, end, over := visibleTextOf(textAfterCopy(part), s.tools, s.prompt.copies+1)
			s.answered = s.answered || strings.TrimSpace(within) != ""
			if s.out.WriteString(within); within == "" {
				end = part
			}
			if s.end, s.over = end, over; over {
				return
			}
		case hideBefore:
			s.out.Reset()
			s.from, s.end, s.answered = at, part, false
		case endTurn:
			if s.answered {
				s.end, s.over = part, true
				return
			}
			s.end = part
		default:
			s.end = part
		}
	}
	rest := s.text[shown:]
	s.out.WriteString(rest)
	if strings.TrimSpace(rest) != "" {
		s.end = ""
	} else if s.end != "" {
		s.end += rest
	}
}

// measure returns the length of the part that begins at a place, or 0 if none does.
func (s *scanner) measure(at int) (length int, does effect) {
	first := s.text[at]
	inLine, inWord := at > 0 && s.text[at-1] != '\n', at > 0 && isWord(s.text[at-1])
	letter := isWord(first) && !inWord
	for i := range kinds {
		k := &kinds[i]
		switch {
		case s.only != everything && !k.call, s.only == dataOnly && k.program,
			k.call && !s.callable && !s.labelled, k.line && inLine, k.first == "a" && !letter,
			k.first != "" && k.first != "a" && strings.IndexByte(k.first, first) < 0,
			k.closed && !s.isClosed(at), k.cut && s.tagEnd(at) < len(s.text):
			continue
		}
		rest := s.text[at:]
		if k.within > 0 {
			rest = rest[:min(len(rest), k.within)]
		}
		opened := k.opens().FindStringSubmatchIndex(rest)
		switch {
		case opened == nil:
			continue
		case k.measure != nil:
			if length, does = k.measure(s, at, opened); length > 0 {
				return length, does
			}
			continue
		case k.closes == nil:
			return opened[1], k.does
		}
		if closed := k.closes().FindStringIndex(s.text[at+opened[1]:]); closed != nil {
			return opened[1] + closed[1], k.does
		}
		return len(s.text) - at, k.does
	}
	return 0, keep
}

// tagEnd returns the index of the first ">" or line break from a place on, or the length of the text. It remembers the
// index, because there may be many places before it.
func (s *scanner) tagEnd(at int) int {
	if s.ahead.nextTagEnd <= at {
		s.ahead.nextTagEnd = len(s.text)
		if n := strings.IndexAny(s.text[at:], ">\n"); n >= 0 {
			s.ahead.nextTagEnd = at + n
		}
	}
	return s.ahead.nextTagEnd
}

func (s *scanner) isClosed(at int) bool {
	end := s.tagEnd(at)
	return end < len(s.text) && s.text[end] == '>'
}

func isWord(c byte) bool { return c >= utf8.RuneSelf || c == '_' || isAlnum(c) }

func isAlnum(c byte) bool {
	return c < utf8.RuneSelf && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
}
