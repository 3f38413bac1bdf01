package attention

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// c2aTools are the tools that the drafts recommend, which every host of this project has.
var c2aTools = []string{
	"chat.list_events", "chat.read_thread", "chat.send_message", "chat.react", "chat.claim", "chat.defer",
	"chat.resolve",
}

// names are the names of a turn's tools, as models write them.
type names map[string]bool

func newNames(tools []string) names {
	all := names{}
	for _, list := range [][]string{c2aTools, tools} {
		for _, name := range list {
			all[plainName(name)] = true
		}
	}
	return all
}

var separators = strings.NewReplacer(".", "_", "-", "_", ":", "_", "/", "_")

// plainName returns a name as models may write it: in lower case, with one kind of separators.
func plainName(name string) string {
	return underscores().ReplaceAllString(separators.Replace(strings.ToLower(strings.TrimSpace(name))), "_")
}

var (
	underscores = compiled(`_{2,}`)
	camelCase   = compiled(`([a-z0-9])([A-Z])`)
)

// has reports whether a model that writes name means a tool of the turn.
func (n names) has(name string) bool { return n.meant(name) != "" }

// meant returns the plain name of the tool that a model means, or "". Some models put the name of a
// module before it.
func (n names) meant(name string) string {
	name = plainName(name)
	for _, prefix := range []string{"", "functions_", "function_", "tools_", "tool_", "default_api_", "api_", "mcp_",
		"self_", "mcp_hubbub_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && n[rest] {
			return rest
		}
	}
	return ""
}

// named reports whether the value of a member such as "name" means a tool of the turn. In a program, camelCase as in
// chat.sendMessage() calls something else. In an object, it names the tool.
func (n names) named(name string) bool {
	return n.has(name) || n.has(camelCase().ReplaceAllString(name, "${1}_$2"))
}

// aroundName matches what some models write around the name of a tool that they call: a mark of their
// template, the number of the call, quotation marks or parentheses.
var aroundName = compiled(`(?s)\A[\s"'` + "`" + `]+|[\s"'` + "`" + `]*(?:<[|｜].*|:\d+|\(\))?[\s"'` + "`" + `]*\z`)

// ToolMeant returns the tool that a model means by name, or "" if it is none of tools.
func ToolMeant(name string, tools []string) string {
	known := names{}
	for _, tool := range tools {
		known[plainName(tool)] = true
	}
	meant := known.meant(aroundName().ReplaceAllString(name, ""))
	for _, tool := range tools {
		if meant != "" && plainName(tool) == meant {
			return tool
		}
	}
	return ""
}

// in reports whether a text has the name of a tool, perhaps cut at its end.
func (n names) in(text string) bool {
	return n.inPlain(plainName(text)) || camelCase().MatchString(text) &&
		n.inPlain(plainName(camelCase().ReplaceAllString(text, "${1}_$2")))
}

// inPlain is in for a text as plainName writes it.
func (n names) inPlain(text string) bool {
	if strings.Contains(text, "chat_") || strings.Contains(text, "<server_name>") {
		return true
	}
	for name := range n {
		if strings.Contains(text, name) {
			return true
		}
	}
	word := text[strings.LastIndexAny(text, " \"'(<\n")+1:]
	return n.begun(word)
}

// begun reports whether a cut name may begin the name of a tool.
func (n names) begun(cut string) bool {
	cut = plainName(cut)
	for name := range n {
		if len(cut) > 2 && strings.HasPrefix(name, cut) {
			return true
		}
	}
	return false
}

var (
	looseName = compiled(`(?i)["']?\b(?:name|function|tool|tool_?name|function_?name|action|recipient_?name)["']?\s*:\s*["']([\w.:/-]*)(["']?)`)
	looseArgs = compiled(`(?i)["']?\b(?:` + argumentNames + `)["']?\s*:`)
	separator = begins(`[ \t]*[;,]?[ \t]*\n?`)
)

// maxSearches bounds the search for the ends of calls, in lengths of the text.
const maxSearches = 50

// balanced returns the length of the text in brackets at a place, or 0 if they are not closed. It
// reports false if the text was searched too often.
func (s *scanner) balanced(at int) (length int, ok bool) {
	if s.ahead.searched > maxSearches*len(s.text) {
		return 0, false
	}
	length = balanced(s.text[at:])
	s.ahead.searched += cmp.Or(length, len(s.text)-at)
	return length, true
}

// object hides a call in JSON or in malformed JSON. It keeps any other object.
func (s *scanner) object(at int, _ []int) (int, effect) {
	length, ok := s.balanced(at)
	if !ok {
		return 0, keep
	}
	rest := s.text[at:]
	form := noCall
	var value any
	switch {
	case length > 0 && json.Unmarshal([]byte(rest[:length]), &value) == nil:
		form = s.tools.formOf(value, 0)
	default:
		inside := rest[:length]
		if length == 0 {
			inside = rest
		}
		form = s.tools.looseForm(inside, length == 0)
	}
	switch {
	case form == knownCall && length == 0:
		return len(rest), hide
	case form == knownCall:
		return length + len(separator().FindString(rest[length:])), hide
	}
	return length, keep
}

// looseForm judges a call that is invalid JSON or was cut.
func (n names) looseForm(text string, cut bool) callForm {
	at := looseName().FindStringSubmatch(text)
	switch {
	case at == nil:
		return noCall
	case at[2] == "":
		if cut && strings.HasSuffix(text, at[0]) && n.begun(at[1]) {
			return knownCall
		}
	case n.named(at[1]) && (cut || looseArgs().MatchString(text)):
		return knownCall
	}
	return noCall
}

// indentedLines matches the rest of a line, and the indented lines below it.
var indentedLines = begins(`[^\n]*(?:\n[ \t]+[^\n]*)*(?:\n|\z)`)

// named hides a call in lines of YAML.
func (s *scanner) named(at int, opened []int) (int, effect) {
	if !s.tools.has(s.text[at+opened[2] : at+opened[3]]) {
		return 0, keep
	}
	return opened[1] + len(indentedLines().FindString(s.text[at+opened[1]:])), hide
}

// quotedMember matches the quoted name of a member and its colon.
var quotedMember = begins(`["'][\w./-]+["'][ \t]*:`)

// namedObject hides a line that consists of the name of a tool and its arguments in JSON. A quoted name before a
// colon, without a word such as "calling" before it, is a member of an object.
func (s *scanner) namedObject(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	if !s.tools.has(rest[opened[2]:opened[3]]) || quotedMember().MatchString(strings.TrimLeft(rest, " \t[@")) {
		return 0, keep
	}
	from := opened[1] - 1
	length, _ := s.balanced(at + from)
	if length == 0 || !json.Valid([]byte(rest[from:from+length])) || !statement().MatchString(rest[from+length:]) {
		return 0, keep
	}
	length += from
	return length + len(separator().FindString(rest[length:])), hide
}

// callBegins matches the beginning of a call as a statement or an expression of a program, up to
// its parenthesis. Its group is the name of the function.
const callBegins = `(?:(?:const|let|var)[ \t]+)?(?:[a-z_]\w*(?:[ \t]*:[ \t]*\w+)?[ \t]*=[ \t]*)?(?:await[ \t]+)?` +
	`(?:(?:print|str|asyncio\.run|console\.log)\([ \t]*(?:await[ \t]+)?)?([a-z_][\w.]*)[ \t]*\(`

// maxCallBegins limits the length of what callBegins matches, because many names may have long names before them:
// a.b.c.
const maxCallBegins = 256

var (
	callArguments = begins(`\s*(?:\{|\[|["']|\w+\s*[=:]\s*\S|\z)`)
	statement     = begins(`[ \t);\]]*(?:(?:#|//)[^\n]*)?(?:\n|\z)`)

	namedArguments = begins(`\s*(?:\{|\w+\s*=)`)
	// parameters match the inside of a call that a model cannot make: a variable, or the type of a parameter.
	parameters = begins(`\s*(?:[a-z_]\w*\s*[,)]|\w+\s*:\s*[^\s"'\d{\[])`)
	memberOf   = compiled(`(?:[\w)\]]\.|->|::|[$@#/\\-])\z`)
)

// call hides a call as a program writes it. Without named or literal arguments, it counts as a
// call only if it is alone on its line.
func (s *scanner) call(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	if !s.tools.has(rest[opened[2]:opened[3]]) && !s.namespaced(at, opened) || s.isOrdinaryWord(at, opened) {
		return 0, keep
	}
	from := opened[1] - 1
	length, ok := s.balanced(at + from)
	inner := strings.Count(rest[:from], "(") // of print and the like
	if length == 0 {
		if !ok || !callArguments().MatchString(rest[opened[1]:]) {
			return 0, keep
		}
		return len(rest), hide
	}
	length += from
	alone := s.lineBlankBefore(at) && statement().MatchString(rest[length:])
	if !alone && !callArguments().MatchString(rest[opened[1]:length]) {
		return 0, keep
	}
	for ; inner > 0 && strings.HasPrefix(strings.TrimLeft(rest[length:], " \t\n"), ")"); inner-- {
		length += strings.IndexByte(rest[length:], ')') + 1
	}
	after := separator().FindString(rest[length:])
	if alone { // with the comment after it
		after = cmp.Or(statement().FindString(rest[length:]), after)
	}
	return length + len(after), hide
}

// isOrdinaryWord reports whether a tool's name of one word means something else: a word before a remark, as
// in "You owe (total: 20) to Ann", a member, as in re.search("x"), or a function of variables, as in
// read(path).
func (s *scanner) isOrdinaryWord(at int, opened []int) bool {
	name, arguments := s.text[at+opened[2]:at+opened[3]], s.text[at+opened[1]:]
	switch {
	case strings.ContainsAny(name, "._"):
		return false
	case memberOf().MatchString(s.text[max(0, at-2):at]), parameters().MatchString(arguments):
		return true
	}
	spaced, named := opened[3] < opened[1]-1, namedArguments().MatchString(arguments)
	return spaced && !(s.lineBlankBefore(at) && named) || !named && !s.isStatement(at, opened)
}

// isStatement reports whether a call, or the list of calls that begins at its place, is alone on its line, perhaps
// after a label, or cut.
func (s *scanner) isStatement(at int, opened []int) bool {
	from := at + opened[1] - 1
	if s.text[at] == '[' {
		from = at
	}
	length, ok := s.balanced(from)
	labelled := strings.HasSuffix(strings.TrimRight(s.text[:at], " \t["), ":")
	return ok && (labelled || s.lineBlankBefore(at)) && (length == 0 || statement().MatchString(s.text[from+length:]))
}

// chatArguments matches the first argument of a tool of the chat.
var chatArguments = begins(`\s*(?:\z|\{?\s*["']?(?:text|message|signal|in_?reply_?to|event_?id)["']?\s*[=:])`)

// namespaced reports whether a statement calls a tool of the chat under a name that no tool has. In code
// or with other arguments, it calls something else.
func (s *scanner) namespaced(at int, opened []int) bool {
	rest := s.text[at:]
	return s.only == everything && s.lineBlankBefore(at) && !strings.Contains(rest[:opened[2]], "=") &&
		strings.HasPrefix(plainName(rest[opened[2]:opened[3]]), "chat_") &&
		chatArguments().MatchString(rest[opened[1]:])
}

func (s *scanner) lineBlankBefore(at int) bool {
	before := strings.TrimRight(s.text[:at], " \t[")
	return before == "" || strings.HasSuffix(before, "\n")
}

// callList hides a list of calls as Llama writes it: [f(a=1), g()].
func (s *scanner) callList(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	if !s.tools.has(rest[opened[2]:opened[3]]) || s.isOrdinaryWord(at, opened) {
		return 0, keep
	}
	if length := balanced(rest); length > 0 {
		return length + len(separator().FindString(rest[length:])), hide
	}
	return len(rest), hide
}

// balanced returns the length of a text in brackets, or 0 if they are not closed. Strings are
// skipped; an apostrophe begins one only where a value can begin.
func balanced(text string) int {
	var open []byte
	quote, last := byte(0), byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			switch {
			case c == '\\':
				i++
			case c == quote:
				quote = 0
			}
		case c == '"', (c == '\'' || c == '`') && strings.IndexByte("([{,=:", last) >= 0:
			if triple := strings.Repeat(string(c), 3); strings.HasPrefix(text[i:], triple) {
				closed := strings.Index(text[i+3:], triple)
				if closed < 0 {
					return 0
				}
				i += closed + 5
				break
			}
			quote = c
		case c == '(' || c == '[' || c == '{':
			open = append(open, c)
		case c == ')' || c == ']' || c == '}':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			if len(open) == 0 {
				return i + 1
			}
		}
		if c > ' ' {
			last = c
		}
	}
	return 0
}

var (
	// reactText matches a text in the notation of ReAct: a thought before the final answer, or an
	// action with its input. See callsAfterThought for other actions.
	reactText = compiled(`(?ims)^[ \t>*]*thought[ \t*]*:.*^[ \t>*]*final answer[ \t*]*:|` +
		`^[ \t>*]*action[ \t*]*:[^\n]*\n\s*[ \t>*]*action input[ \t*]*:`)
	thoughtLabel = compiled(`(?im)^[ \t>*]*thought[ \t*]*:`)
	actionLabel  = compiled(`(?im)^[ \t>*]*action[ \t*]*:[ \t*]*`)

	nextLabel = compiled(`(?im)^[ \t>*]*(?:thought|action|action input|observation|final answer)[ \t*]*:`)
	paragraph = compiled(`\n[ \t]*\n`)
	toolWord  = begins("[`\"*]*([\\w.:-]+)[`\"*]*[ \t]*(?:\\[[^\n]*\\]|\\([^\n]*\\))?[ \t]*(?:\n|\\z)\\s*")
)

// callsAfterThought reports whether an action after a thought calls a tool. In plain words, both
// may be headings of an answer.
func (s *scanner) callsAfterThought() bool {
	thought := thoughtLabel().FindStringIndex(s.text)
	if thought == nil {
		return false
	}
	inner := &scanner{text: s.text[thought[1]:], tools: s.tools, only: callsOnly, callable: true}
	return slices.ContainsFunc(actionLabel().FindAllStringIndex(inner.text, -1), func(action []int) bool {
		value := inner.text[action[1]:]
		if _, does := inner.actionAlone(0, value); does == hide {
			return true
		}
		if value = strings.TrimLeft(value, " \t\n"); value == "" {
			return false
		}
		length, does := inner.measure(len(inner.text) - len(value)) // an object, or the call of a function
		return length > 0 && does == hide
	})
}

// label hides the text between a ReAct label and the next one. An input, and what a tool
// returned, end with their paragraph, too.
func (s *scanner) label(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	label, value := strings.ToLower(rest[opened[2]:opened[3]]), rest[opened[1]:]
	if label == "action" && !s.labelled {
		return s.actionAlone(opened[1], value)
	}
	if !s.labelled {
		return 0, keep
	}
	if label == "final answer" {
		return opened[1], hideBefore
	}
	length := len(value)
	if next := nextLabel().FindStringIndex(value); next != nil {
		length = next[0]
	}
	if label == "action input" || label == "observation" {
		skip := len(value) - len(strings.TrimLeft(value, " \t\n"))
		if value = value[:length]; skip < length && strings.IndexByte("{[", value[skip]) >= 0 {
			skip += balanced(value[skip:])
		}
		if end := paragraph().FindStringIndex(value[min(skip, length):]); end != nil {
			length = min(skip, length) + end[1]
		}
	}
	return opened[1] + length, hide
}

// actionAlone hides "Action:" with the name of a tool, or with a block of code that calls one.
func (s *scanner) actionAlone(from int, value string) (int, effect) {
	if strings.HasPrefix(strings.TrimLeft(value, " \t\n"), "```") {
		skip := strings.Index(value, "```")
		inner := &scanner{text: value[skip:], tools: s.tools}
		marks := len(inner.text) - len(strings.TrimLeft(inner.text, "`"))
		if length, does := inner.fence(0, []int{0, marks}); does == hide {
			return from + skip + length, hide
		}
		return 0, keep
	}
	named := toolWord().FindStringSubmatchIndex(value)
	if named == nil || !s.tools.has(value[named[2]:named[3]]) {
		return 0, keep
	}
	length := named[1]
	if length < len(value) && value[length] == '{' {
		if n := balanced(value[length:]); n > 0 {
			length += n
		} else {
			length = len(value)
		}
	}
	return from + length, hide
}
