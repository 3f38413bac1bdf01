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

func plainName(name string) string {
	return separators.Replace(strings.ToLower(strings.TrimSpace(name)))
}

// has reports whether a model that writes name means a tool of the turn.
func (n names) has(name string) bool { return n.meant(name) != "" }

// meant returns the plain name of the tool that a model means, or "". Some models put the name of a
// module before it.
func (n names) meant(name string) string {
	name = plainName(name)
	for _, prefix := range []string{"", "functions_", "function_", "tools_", "tool_", "default_api_", "api_", "mcp_",
		"self_", "mcp__hubbub__"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && n[rest] {
			return rest
		}
	}
	return ""
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
	text = plainName(text)
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

// Members of the objects with which models call tools.
var (
	nameMembers = []string{"name", "function", "tool", "tool_name", "function_name", "action", "recipient_name",
		"call"}
	argumentMembers = []string{"arguments", "parameters", "args", "input", "action_input", "tool_input", "params",
		"kwargs"}
	listMembers = []string{"tool_calls", "tool_uses", "function_call", "function_calls", "calls", "tool_call",
		"function", "actions"}
)

// A callForm is how a JSON value calls tools.
type callForm int

const (
	noCall    callForm = iota
	otherCall          // of a tool that the turn does not have
	knownCall
)

// formOf returns how a JSON value calls tools. In a list, every element must be a call.
func (n names) formOf(value any, depth int) callForm {
	if depth > 4 {
		return noCall
	}
	switch v := value.(type) {
	case []any:
		form := noCall
		for _, element := range v {
			one := n.formOf(element, depth+1)
			if one == noCall {
				return noCall
			}
			form = max(form, one)
		}
		return form
	case map[string]any:
		return n.formOfObject(v, depth)
	}
	return noCall
}

func (n names) formOfObject(v map[string]any, depth int) callForm {
	arguments := false
	for _, member := range argumentMembers {
		_, there := v[member]
		arguments = arguments || there
	}
	for _, member := range nameMembers {
		if name, ok := v[member].(string); ok && arguments {
			if n.has(name) {
				return knownCall
			}
			if member == "name" || member == "function" {
				return otherCall
			}
		} else if ok && n.has(name) && (strings.HasPrefix(member, "tool") || strings.Contains(plainName(name), "_")) {
			return knownCall // with its arguments beside it, or none
		}
	}
	for _, member := range listMembers {
		if inner, ok := v[member]; ok {
			if form := n.formOf(inner, depth+1); form != noCall {
				return form
			}
		}
	}
	if len(v) == 1 {
		for name, arguments := range v {
			if _, ok := arguments.(map[string]any); ok && n.has(name) {
				return knownCall
			}
		}
	}
	return noCall
}

var (
	looseName = compiled(`(?i)["']?\b(?:name|function|tool|tool_name|function_name|action|recipient_name)["']?\s*:\s*["']([\w.:/-]*)(["']?)`)
	looseArgs = compiled(`(?i)["']?\b(?:` + strings.Join(argumentMembers, "|") + `)["']?\s*:`)
	behind    = begins(`[ \t]*[;,]?[ \t]*\n?`)
)

// maxSearches bounds the search for the ends of calls, in lengths of the text.
const maxSearches = 50

// balanced returns the length of the text in brackets at a place, or 0 if they are not closed. It
// reports false if the text was searched too often.
func (s *scanner) balanced(at int) (length int, ok bool) {
	if s.searched > maxSearches*len(s.text) {
		return 0, false
	}
	length = balanced(s.text[at:])
	s.searched += cmp.Or(length, len(s.text)-at)
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
		return length + len(behind().FindString(rest[length:])), hide
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
	case n.has(at[1]) && (cut || looseArgs().MatchString(text)):
		return knownCall
	}
	return noCall
}

// named hides a call in lines of YAML.
func (s *scanner) named(at int, opened []int) (int, effect) {
	if !s.tools.has(s.text[at+opened[2] : at+opened[3]]) {
		return 0, keep
	}
	return opened[1], hide
}

// namedObject hides a line that consists of the name of a tool and its arguments in JSON.
func (s *scanner) namedObject(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	if !s.tools.has(rest[opened[2]:opened[3]]) {
		return 0, keep
	}
	from := opened[1] - 1
	length, _ := s.balanced(at + from)
	if length == 0 || !json.Valid([]byte(rest[from:from+length])) || !statement().MatchString(rest[from+length:]) {
		return 0, keep
	}
	length += from
	return length + len(behind().FindString(rest[length:])), hide
}

// callBegins matches the beginning of a call as a statement or an expression of a program, up to
// its parenthesis. Its group is the name of the function.
const callBegins = `(?:(?:const|let|var)[ \t]+)?(?:[a-z_]\w*(?:[ \t]*:[ \t]*\w+)?[ \t]*=[ \t]*)?(?:await[ \t]+)?` +
	`(?:(?:print|str|asyncio\.run|console\.log)\([ \t]*(?:await[ \t]+)?)?([a-z_][\w.]*)[ \t]*\(`

var (
	callArguments = begins(`\s*(?:\{|\[|["']|\w+\s*[=:]\s*\S|\z)`)
	statement     = begins(`[ \t);]*(?:\n|\z)`)

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
	return length + len(behind().FindString(rest[length:])), hide
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
	spaced := opened[3] < opened[1]-1
	return spaced && !(s.lineBlankBefore(at) && namedArguments().MatchString(arguments))
}

// chatArguments matches the first argument of a tool of the chat.
var chatArguments = begins(`\s*(?:\z|\{?\s*["']?(?:text|message|signal|in_?reply_?to|event_?id)["']?\s*[=:])`)

// namespaced reports whether a statement calls a tool of the chat under a name that no tool has. In code
// or with other arguments, it calls something else.
func (s *scanner) namespaced(at int, opened []int) bool {
	rest := s.text[at:]
	return !s.calls && s.lineBlankBefore(at) && !strings.Contains(rest[:opened[2]], "=") &&
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
		return length + len(behind().FindString(rest[length:])), hide
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
	fenceEnds = ends("(?m:^)[ \\t]*```|```")
	toolFence = begins("```tool_(?:c|o|\\z)")
	callFence = begins("```[ " +
		"\t]*(?:json[c5l]?|python3?|py|xml|html|typescript|ts|javascript|js|text|txt|plaintext|tool\\w*|" +
		"function\\w*|action|bash|sh|shell|yaml)?[ \t]*\n")
	// scaffold matches a line of a program that does nothing of its own.
	scaffold = compiled(`(?m)^[ \t]*(?:#.*|//.*|(?:import|from) .*|print\(.*\);?|console\.log\(.*\);?|async .*|await|\}|\{|[\])};,]+)?[ \t]*$\n?`)
)

// fence keeps a block of code, unless it is a call of a tool or the result of one.
func (s *scanner) fence(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	length, body := len(rest), ""
	if closed := fenceEnds().FindStringIndex(rest[opened[1]:]); closed != nil {
		length = opened[1] + closed[1]
	}
	if toolFence().MatchString(rest) {
		return length, hide
	}
	header := callFence().FindString(rest[:length])
	if header == "" {
		return length, keep
	}
	body = strings.TrimSuffix(rest[len(header):length], "```")
	inner := newScanner(body, s.tools)
	inner.calls = true
	inner.run()
	if left := inner.out.String(); left != body && strings.TrimSpace(scaffold().ReplaceAllString(left, "")) == "" {
		return length + len(behind().FindString(rest[length:])), hide
	}
	return length, keep
}

// codeSpan keeps code within a line, unless it is the whole text and calls a tool.
func (s *scanner) codeSpan(_ int, opened []int) (int, effect) {
	if strings.TrimSpace(s.text) == s.text[:opened[1]] {
		inner := newScanner(s.text[opened[2]:opened[3]], s.tools)
		inner.calls = true
		if inner.run(); inner.end != "" && strings.TrimSpace(inner.out.String()) == "" {
			return opened[1], hide
		}
	}
	return opened[1], keep
}

// nameInside matches the tool that an element names inside.
var nameInside = compiled(`(?is)\A\s*(?:<server_name>\s*([^<]*?)\s*</server_name>\s*)?<(?:tool_name|name|tool|function|function_name)>\s*([\w.:-]+)\s*<`)

// elementArguments matches the beginning of what is inside an element: arguments, or nothing yet.
var elementArguments = begins(`\s*\z|(?:[ \t]*\n\s*)?[<{]`)

var nameAttribute = compiled(`(?i)\b(?:name|tool|function)\s*=\s*["']?([\w.:-]+)`)

// element hides an XML element that calls a tool: by its own name, an attribute, or an element
// inside.
func (s *scanner) element(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	tag, attributes := rest[opened[2]:opened[3]], rest[opened[4]:opened[5]]
	own := tag[strings.IndexByte(tag, ':')+1:]
	// <search> alone may be an element of HTML
	calls := s.tools.has(own) &&
		(strings.ContainsAny(own, "_.-") || attributes != "" || elementArguments().MatchString(rest[opened[1]:]))
	if name := nameAttribute().FindStringSubmatch(attributes); name != nil {
		calls = calls || s.tools.has(name[1])
	}
	if name := nameInside().FindStringSubmatch(rest[opened[1]:]); name != nil {
		calls = calls || s.tools.has(name[2]) || s.tools.has(name[1]+"__"+name[2])
	}
	if !calls || articles().MatchString(s.text[max(0, at-maxBefore):at]) && isCalled().MatchString(rest[opened[1]:]) {
		return 0, keep
	}
	end := "</" + tag + ">"
	if strings.HasSuffix(attributes, "/") {
		end = ""
	}
	closed := strings.Index(rest[opened[1]:], end)
	if closed < 0 {
		return len(rest), hide
	}
	length := opened[1] + closed + len(end)
	return length + len(behind().FindString(rest[length:])), hide
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
	inner := &scanner{text: s.text[thought[1]:], tools: s.tools, calls: true, callable: true}
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
		if length, does := inner.fence(0, []int{0, 3}); does == hide {
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
