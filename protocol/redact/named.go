package redact

import (
	"strings"
	"unicode"
)

// maxNameLength bounds the names that are examined, and maxLookBack the text before a name.
const (
	maxNameLength = 128
	maxLookBack   = 4096
)

// secretParts are parts of the names of secrets, without punctuation and in lower case.
// secretWords are whole words of such names.
var (
	secretParts = []string{"password", "passwd", "passphrase", "passcode", "secret", "authorization",
		"apikey", "privatekey", "accesskey", "sshkey", "signingkey", "encryptionkey", "masterkey", "authkey",
		"accountkey", "sharedkey", "storagekey", "licensekey", "subscriptionkey", "passkey", "userpass", "dbpass",
		"credential", "cookie", "bearer", "connectionstring", "seedphrase", "recoverycode", "backupcode", "mfacode",
		// in other languages
		"passwort", "kennwort", "contraseña", "contrasena", "motdepasse", "senha", "wachtwoord", "hasło", "şifre",
		"пароль", "密码", "密碼", "パスワード", "비밀번호"}
	secretWords = map[string]bool{"pwd": true, "pass": true, "auth": true, "jwt": true, "otp": true, "pw": true,
		"totp": true, "creds": true, "cred": true, "mnemonic": true, "hmac": true}
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
	// loginFlag matches a flag with the value NAME:SECRET.
	loginFlag = pattern(`(^|[\s"'])((?:-u\s*|--(?:proxy-)?user(?:\s+|=))["']?[^\s:"'-][^\s:"']*:)([^\s"']+)`)
	// sqlPassword matches a password in SQL.
	sqlPassword = pattern(`(?i)\b((?:password(?:\s+for\s+\S+\s*=)?|identified\s+by(?:\s+password)?)\s+)('[^']*'|"[^"]*")`)
	// entry matches the name and the value of an entry in YAML or XML.
	entry = pattern(`(?i)(\b(?:name|key)\s*[=:]\s*["']?)([\w./-]{1,128})(["']?[\s,]+value\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,}>"']+)`)
	// signedURL matches a parameter that makes a URL a secret.
	signedURL = pattern(`(?i)([?&](?:x-amz-|x-goog-)?(?:key|sig|signature)=)([^&#\s"'\\]+)`)
	// bearerToken matches a token without the name of a header.
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
		text = signedURL().ReplaceAllString(urlSecret().ReplaceAllStringFunc(text, withoutLogin), "${1}"+namedMark)
	}
	if strings.Contains(text, "-u") {
		text = loginFlag().ReplaceAllString(text, "${1}${2}"+namedMark)
	}
	if strings.Contains(text, "alue") {
		text = entry().ReplaceAllStringFunc(text, withoutValue)
	}
	if strings.ContainsAny(text, `'"`) {
		text = sqlPassword().ReplaceAllString(text, "${1}'"+namedMark+"'")
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

// withoutValue returns an entry without its value if its name is that of a secret.
func withoutValue(found string) string {
	m := entry().FindStringSubmatch(found)
	if !isSecret(m[2], isNumber(m[4])) {
		return found
	}
	return m[1] + m[2] + m[3] + quoteLike(m[4])
}

// withoutCutLogin removes the password of a URL if the text ends before its "@". A number of at
// most five digits is a port.
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
	return strings.IndexByte(":=>,](", text[at]) >= 0 || text[from] == '-' && at > end
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
	if quoted && strings.HasPrefix(text[at:], "]") { // variables["name"] = value
		quoted, at = false, skipBlanks(text, at+1, false)
	}
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
	case strings.HasPrefix(rest, "("): // setName("value")
		open, mark := quoteAt(text, at+1)
		if mark == "" {
			return end, end
		}
		return at + 1, closingQuote(text, open, mark)
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
	if !quoted && separator == ":" {
		if to := blockEnd(text, from, at); to > at {
			return at, to
		}
	}
	return at, valueEnd(text, at, separator, quoted)
}

// blockEnd returns the end of the value in YAML that begins at an index and takes the next lines:
// those with more indentation than the line of its name. It returns the index if the value is in
// the same line.
func blockEnd(text string, name, at int) int {
	line := len(text) - len(strings.TrimLeft(text[at:], "|>+- 0123456789"))
	if line < len(text) && text[line] != '\r' && text[line] != '\n' {
		return at
	}
	indent := 0 // of a very long line, whose beginning is not looked for
	if start := lineStart(text, name); start == 0 || text[start-1] == '\n' {
		indent = indentation(text[start:])
	}
	end, from := at, lineStart(text, line) // from is where the line at start begins
	for line < len(text) {
		start := skipBlanks(text, line, true)
		if n := strings.LastIndexByte(text[line:start], '\n'); n >= 0 {
			from = line + n + 1
		}
		if indentation(text[from:]) <= indent || start == len(text) {
			break
		}
		line = until(text, start, "\r\n")
		end = line
	}
	return end
}

// lineStart returns the start of the line at an index, or an index that is maxLookBack before it.
func lineStart(text string, at int) int {
	from := max(0, at-maxLookBack)
	return from + strings.LastIndexByte(text[from:at], '\n') + 1
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// entryValue returns the start and end of the value for a name that is itself a value: the next
// element of a list, or the next member of an entry in a list of headers.
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
	case strings.IndexByte("{[(", text[at]) >= 0:
		return closingBracket(text, at)
	case quoted: // a number or a word of JSON
		return until(text, at, ",}] \t\r\n\\\"'")
	case separator == ":" || scheme().MatchString(text[at:]): // a header
		to := until(text, at, "\r\n\"'`")
		if open, mark := quoteAt(text, to); mark != "" && strings.HasSuffix(strings.TrimRight(text[at:to], " "), "=") {
			return closingQuote(text, open, mark) // name: type = "value"
		}
		return to
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
			at = pastBackslashes(text, at)
		}
	}
	return at
}

// pastBackslashes skips the character at an index. A backslash is skipped with all backslashes that follow it.
func pastBackslashes(text string, at int) int {
	for at++; at < len(text) && text[at-1] == '\\' && text[at] == '\\'; {
		at++
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
			at = pastBackslashes(text, at)
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
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
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
