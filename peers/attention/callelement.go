package attention

import "strings"

// nameInside matches the tool that an element names inside.
var nameInside = compiled(`(?is)\A\s*(?:<server_name>\s*([^<]*?)\s*</server_name>\s*)?<(?:tool_name|name|tool|function|function_name)>\s*([\w.:-]+)\s*<`)

// elementArguments matches the beginning of what is inside an element: arguments, or nothing yet.
var elementArguments = begins(`\s*\z|(?:[ \t]*\n\s*)?[<{]`)

// ofHTML and childOfHTML match the attributes that any element of HTML has, and the first element inside one. Some
// HTML elements, and some values of name attributes, are also names of tools: <search>, <input name="search">.
var (
	ofHTML      = compiled(`(?i)\A\s+(?:class|id|role|style|title|lang|dir|hidden|slot|aria-\w+|data-[\w-]+)\b`)
	childOfHTML = begins(`\s*<(?:a|article|aside|button|div|fieldset|figure|form|h[1-6]|header|img|input|label|li|main|` +
		`nav|ol|p|section|select|span|svg|table|template|textarea|ul)\b`)
	// callingElement matches an element whose attribute names what it calls.
	callingElement = compiled(`(?i)(?:^|[_:.-])(?:function|tool|call|invoke|action|command|execute|run|use|mcp)`)
)

var nameAttribute = compiled(`(?i)\b(?:name|tool|function)\s*=\s*["']?([\w.:-]+)`)

// element hides an XML element that calls a tool: by its own name, an attribute, or an element
// inside.
func (s *scanner) element(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	tag, attributes := rest[opened[2]:opened[3]], rest[opened[4]:opened[5]]
	own := tag[strings.IndexByte(tag, ':')+1:]
	// <search> alone may be an element of HTML
	inside := rest[opened[1]:]
	calls := s.tools.has(own) && (strings.ContainsAny(own, "_.-") ||
		attributes != "" && !ofHTML().MatchString(attributes) ||
		elementArguments().MatchString(inside) && !childOfHTML().MatchString(inside))
	if name := nameAttribute().FindStringSubmatch(attributes); name != nil && callingElement().MatchString(own) {
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
	return length + len(separator().FindString(rest[length:])), hide
}

// pairArguments matches the arguments beside an element with the name of a tool.
var pairArguments = begins(`(?:\s*<(?:` + argumentNames + `|parameter)\b[^>]*>.*?</(?:` + argumentNames + `|parameter)>)*`)

// pair hides an element with the name of a tool, and the elements with its arguments after it:
// <tool>search</tool><args>{}</args>. Without arguments, the element calls a tool only if it is alone on its line.
func (s *scanner) pair(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	name := rest[opened[2]:opened[3]]
	if !s.tools.has(name) || s.ahead.searched > maxSearches*len(s.text) {
		return 0, keep
	}
	s.ahead.searched += len(rest)
	length := opened[1] + len(pairArguments().FindString(rest[opened[1]:]))
	alone := s.lineBlankBefore(at) && statement().MatchString(rest[length:])
	if length == opened[1] && !(alone && isCompound(name)) {
		return length, keep
	}
	return length + len(separator().FindString(rest[length:])), hide
}

var (
	openTag  = compiled(`(?i)<([a-z_][\w.:-]{0,40})>\s*\z`)
	closeTag = begins(`\s*</([a-z_][\w.:-]{0,40})>`)
)

// enclosing returns the lengths of the tags of an element that encloses nothing but a hidden part, given the texts
// around it.
func enclosing(before, after string) (opens, closes int) {
	first := openTag().FindStringSubmatch(before[max(0, len(before)-maxTag):])
	last := closeTag().FindStringSubmatch(after)
	if first == nil || last == nil || !strings.EqualFold(first[1], last[1]) {
		return 0, 0
	}
	return len(first[0]), len(last[0])
}

// maxTag exceeds the length of a tag before a hidden part that encloses it, with the space between them.
const maxTag = 64
