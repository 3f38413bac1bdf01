package attention

import (
	"encoding/json"
	"strings"
)

var (
	toolFence = begins("(?:`{3,}|~{3,})tool_(?:c|o|\\z)")
	// fenceHeader matches the line that begins a block of code, up to its body. Its group is what the line says about it.
	fenceHeader = begins("[ \t]*(?:`{3,}|~{3,})[ \t]*(?:(\\w*)[ \t]*[{\\[]|([^\n`]*)\n)")
	// programs are the languages in which models write calls as programs. In others, only data is a call.
	programs = begins(`(?:` + languages + `|(?:tool|function|call)\w*|action)?[ \t]*\z`)
	// knownLanguage matches the name of such a language, which is no tool.
	knownLanguage = begins(`(?:` + languages + `)\z`)
	// scaffold matches a line of a program that does nothing of its own.
	scaffold = compiled(`(?m)^[ \t]*(?:#.*|//.*|(?:import|from) .*|print\(.*\);?|console\.log\(.*\);?|async .*|await|\}|\{|[\])};,]+)?[ \t]*$\n?`)
)

// languages matches the names of languages in which models write calls.
const languages = `json[c5l]?|python3?|py|xml|html|typescript|ts|javascript|js|text|txt|plaintext|bash|sh|shell|yaml`

// fence keeps a block of code, unless it is a call of a tool or the result of one.
func (s *scanner) fence(at int, opened []int) (int, effect) {
	rest := s.text[at:]
	mark := strings.TrimLeft(rest[:opened[1]], " \t")
	end, length := s.fenceEnd(at+opened[1], mark)
	if length == 0 {
		return 0, keep
	}
	end, length = end-at, length-at
	if toolFence().MatchString(strings.TrimLeft(rest, " \t")) {
		return length, hide
	}
	header := fenceHeader().FindStringSubmatchIndex(rest[:end])
	if header == nil {
		return length, keep
	}
	var language, body string
	if header[2] >= 0 { // on one line
		language, body = rest[header[2]:header[3]], rest[header[1]-1:end]
	} else {
		language, body = strings.TrimSpace(rest[header[4]:header[5]]), rest[header[1]:end]
	}
	if s.tools.has(language) && !knownLanguage().MatchString(language) && // the name of the tool in place of a language
		strings.HasPrefix(strings.TrimSpace(body), "{") && json.Valid([]byte(body)) {
		return length + len(separator().FindString(rest[length:])), hide
	}
	inner := newScanner(body, s.tools)
	inner.only = dataOnly
	if programs().MatchString(language) {
		inner.only = callsOnly
	}
	inner.run()
	if left := inner.out.String(); left != body && strings.TrimSpace(scaffold().ReplaceAllString(left, "")) == "" {
		return length + len(separator().FindString(rest[length:])), hide
	}
	return length, keep
}

// fenceEnd returns where the body of a block of code ends, and where the block does. An unclosed block of backquotes
// extends to the end of the text. Unclosed tildes are text: fenceEnd returns 0, 0.
func (s *scanner) fenceEnd(from int, mark string) (body, block int) {
	if mark[0] == '~' {
		if s.ahead.noTildes {
			return 0, 0
		}
		closed := tildesAlone().FindStringIndex(s.text[from:])
		if s.ahead.noTildes = closed == nil; s.ahead.noTildes {
			return 0, 0
		}
		return from + closed[0], from + closed[1]
	}
	closed := strings.Index(s.text[from:], mark)
	if closed < 0 {
		return len(s.text), len(s.text)
	}
	body = from + closed
	rest := s.text[body+len(mark):]
	return body, len(s.text) - len(strings.TrimLeft(rest, mark[:1]))
}

var tildesAlone = compiled(`(?m)^[ \t]*~{3,}[ \t]*$`)

// codeSpan keeps code within a line, unless it is the whole text and calls a tool.
func (s *scanner) codeSpan(at int, opened []int) (int, effect) {
	if at == 0 && strings.TrimSpace(s.text) == s.text[:opened[1]] {
		inner := newScanner(s.text[opened[2]:opened[3]], s.tools)
		inner.only = callsOnly
		if inner.run(); inner.end != "" && strings.TrimSpace(inner.out.String()) == "" {
			return opened[1], hide
		}
	}
	return opened[1], keep
}
