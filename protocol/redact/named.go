package redact

import (
	"strings"
	"unicode"
)

// maxNameLength bounds the names that are examined.
const maxNameLength = 128

// secretParts are parts of the names of secrets, without punctuation and in lower case.
// secretWords are whole words of such names.
var (
	secretParts = []string{"password", "passwd", "passphrase", "passcode", "passwort", "secret", "authorization",
		"apikey", "privatekey", "accesskey", "sshkey", "signingkey", "encryptionkey", "masterkey", "authkey",
		"credential", "cookie", "bearer", "connectionstring"}
	secretWords = map[string]bool{"pwd": true, "pass": true, "auth": true, "jwt": true, "otp": true, "pw": true}
	// countWords follow "token" in names of numbers.
	countWords = map[string]bool{"count": true, "limit": true, "budget": true, "type": true, "length": true,
		"size": true, "usage": true, "index": true, "id": true, "ids": true, "izer": true}
)

// isSecret reports whether a name is that of a secret. A number is not a secret if the name may
// count tokens.
func isSecret(name string, number bool) bool {
	if name == "" || len(name) > maxNameLength {
		return false
	}
	words := wordsOf(name)
	joined := strings.Join(words, "")
	for _, part := range secretParts {
		if strings.Contains(joined, part) {
			return true
		}
	}
	for i, word := range words {
		switch {
		case secretWords[word] && !number:
			return true
		case strings.HasSuffix(word, "token"):
			return i == len(words)-1 || !countWords[words[len(words)-1]]
		case strings.HasSuffix(word, "tokens") && !number:
			return true
		}
	}
	return false
}

// wordsOf returns the words of a name in lower case, whatever its style.
func wordsOf(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	runes := []rune(name)
	for i, c := range runes {
		switch {
		case unicode.Is(unicode.Cf, c): // invisible
			continue
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			end()
			continue
		case unicode.IsUpper(c) && len(word) > 0 &&
			(!unicode.IsUpper(word[len(word)-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, c)
	}
	end()
	return words
}

var (
	// urlSecret matches the part of a URL before its host.
	urlSecret = pattern(`(?i)([a-z][a-z0-9+.-]*://)([^\s/?#'"<>\\]*)@`)
	// cutSecret matches the text after the user's name, or after the host, if the text ends
	// within the URL.
	cutSecret = pattern(`://[^\s/?#'"<>\\\[:]*:([^\s/?#'"<>]+)$`)
	// loginFlag is a flag whose value is NAME:SECRET.
	loginFlag = pattern(`(^|[\s"'])((?:-u|--(?:proxy-)?user)(?:\s+|=)["']?[^\s:"']+:)([^\s"']+)`)
	// bearerToken is a token without the name of a header.
	bearerToken = pattern(`(?i)\b(bearer\s+)([a-z0-9._~+/=-]{8,})`)
	// scheme matches the beginning of an authorization.
	scheme = pattern(`(?i)^(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256)\s`)
)

// named returns a text without values that are secret by their names or their positions in a URL.
// It searches assignments (NAME=value), headers and YAML (NAME: value), flags (--NAME value),
// calls (NAME("value")), SQL, JSON with any escapes, and XML.
func (r *Redactor) named(text string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); {
		if !isNameByte(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && isNameByte(text[end]) {
			end++
		}
		if mayHaveValue(text, i, end) && isSecret(text[i:end], false) {
			from, to := valueAfter(text, i, end)
			value := strings.Trim(text[from:to], `\"'`)
			if value != "" && !strings.HasPrefix(value, "[redacted:") && (!isNumber(value) || isSecret(text[i:end], true)) {
				r.namedFound.Add(1)
				b.WriteString(text[done:from])
				b.WriteString(quoteLike(text[from:to]))
				done = to
			}
			end = max(end, to)
		}
		i = end
	}
	b.WriteString(text[done:])
	before := b.String()
	text = before
	if strings.Contains(text, "://") {
		text = urlSecret().ReplaceAllStringFunc(text, withoutLogin)
	}
	if strings.Contains(text, "-u") {
		text = loginFlag().ReplaceAllString(text, "${1}${2}"+namedMark)
	}
	text = bearerToken().ReplaceAllString(text, "${1}"+namedMark)
	if text != before {
		r.namedFound.Add(1)
	}
	return text
}

// withoutLogin returns the beginning of a URL without its password, or without a user's name that
// may be a token.
func withoutLogin(found string) string {
	at := strings.Index(found, "://") + 3
	user, _, ok := strings.Cut(found[at:len(found)-1], ":")
	switch {
	case strings.HasSuffix(found, namedMark+"@"):
		return found
	case ok:
		return found[:at] + user + ":" + namedMark + "@"
	case user != "" && strings.EqualFold(found[:4], "http"):
		return found[:at] + namedMark + "@"
	}
	return found
}

// withoutCutLogin returns a text without the password of a URL that its end cuts before the "@". A
// port has at most five digits.
func (r *Redactor) withoutCutLogin(text string) string {
	m := cutSecret().FindStringSubmatchIndex(text)
	if m == nil || isNumber(text[m[2]:]) && len(text)-m[2] <= 5 || strings.HasPrefix(text[m[2]:], "[redacted:") {
		return text
	}
	r.namedFound.Add(1)
	return text[:m[2]] + namedMark
}

// mayHaveValue reports quickly whether a value may follow a name.
func mayHaveValue(text string, from, end int) bool {
	at, _ := quoteAt(text, end)
	if at = skipBlanks(text, at, true); at == len(text) {
		return false
	}
	return strings.IndexByte(":=>,", text[at]) >= 0 || text[from] == '-' && at > end
}

// quoteLike returns namedMark in the quotation marks of a value, so that JSON in a text remains
// JSON.
func quoteLike(value string) string {
	open, mark := quoteAt(value, 0)
	if open > 0 && strings.HasSuffix(value, mark) && len(value) >= 2*len(mark) {
		return mark + namedMark + mark
	}
	return namedMark
}

func isNameByte(c byte) bool {
	return letter(c) || c == '_' || c == '-' || c == '.' || c >= 0x80
}

// valueAfter returns the start and end of a name's value in a text, or two equal indices.
func valueAfter(text string, from, end int) (int, int) {
	i := end
	if closing, _ := quoteAt(text, i); closing > i { // of the name
		i = closing
	}
	quoted := i > end
	at := skipBlanks(text, i, quoted)
	rest := text[at:]
	separator := ""
	for _, s := range []string{":=", "=>", "==", "=", ":"} {
		if strings.HasPrefix(rest, s) {
			separator = s
			break
		}
	}
	switch {
	case separator != "":
		at = skipBlanks(text, at+len(separator), quoted)
	case strings.HasPrefix(text[end:], ">") && from > 0 && text[from-1] == '<': // XML
		if to := strings.IndexByte(text[end:], '<'); to > 0 {
			return end + 1, end + to
		}
		return end + 1, len(text)
	case strings.HasPrefix(text[from:], "-") && at > i: // a flag
	case quoted && strings.HasPrefix(rest, ","):
		return entryValue(text, skipBlanks(text, at+1, true), end)
	default:
		return end, end
	}
	return at, valueEnd(text, at, separator, quoted)
}

// entryValue returns where the value of a name lies that is itself a value: the next element of a
// list, or the next member of an entry of a list of headers.
func entryValue(text string, at, none int) (int, int) {
	open, mark := quoteAt(text, at)
	if open == at {
		return none, none
	}
	closing := closingQuote(text, open, mark)
	after := skipBlanks(text, closing, true)
	if !strings.HasPrefix(text[after:], ":") {
		return at, closing
	}
	if !valueMembers[strings.ToLower(text[open:closing-len(mark)])] {
		return none, none
	}
	at = skipBlanks(text, after+1, true)
	return at, valueEnd(text, at, ":", true)
}

// valueEnd returns the end of the value at an index.
func valueEnd(text string, at int, separator string, quoted bool) int {
	open, mark := quoteAt(text, at)
	switch {
	case at >= len(text):
		return at
	case open > at:
		at = closingQuote(text, open, mark)
		if separator == ":" {
			return at
		}
		return wordEnd(text, at)
	case text[at] == '{' || text[at] == '[':
		return closingBracket(text, at)
	case quoted: // a number or a word of JSON
		return until(text, at, ",}] \t\r\n\\\"'")
	case separator == ":" || scheme().MatchString(text[at:]): // a header
		return until(text, at, "\r\n\"'`")
	}
	return wordEnd(text, at)
}

// wordEnd returns the end of a word of a command line, which may have quoted parts.
func wordEnd(text string, at int) int {
	for at < len(text) {
		open, mark := quoteAt(text, at)
		switch {
		case open > at && !strings.HasPrefix(mark, `\`):
			at = closingQuote(text, open, mark)
		case open > at || strings.IndexByte(" \t\r\n&;`|)<>,}]", text[at]) >= 0:
			return at
		default:
			at++
		}
	}
	return at
}

// quoteAt returns the end of the quotation mark at an index, including backslashes before it, and
// the mark. Without a mark, the end is the index.
func quoteAt(text string, at int) (end int, mark string) {
	end = at
	for end < len(text) && text[end] == '\\' {
		end++
	}
	if end < len(text) && (text[end] == '"' || text[end] == '\'') {
		return end + 1, text[at : end+1]
	}
	return at, ""
}

// closingQuote returns the index after the next quotation mark that equals mark, or the end of the
// text.
func closingQuote(text string, at int, mark string) int {
	for at < len(text) {
		end, found := quoteAt(text, at)
		switch {
		case found == mark:
			return end
		case end > at:
			at = end
		default:
			at++
		}
	}
	return at
}

// closingBracket returns the index after the bracket that closes the one at an index, or the end of
// the text.
func closingBracket(text string, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return at
}

func skipBlanks(text string, at int, lines bool) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || lines && (text[at] == '\n' || text[at] == '\r')) {
		at++
	}
	return at
}

// until returns the index of the next byte in ends, or the end of the text.
func until(text string, at int, ends string) int {
	if n := strings.IndexAny(text[at:], ends); n >= 0 {
		return at + n
	}
	return len(text)
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }
