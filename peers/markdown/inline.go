package markdown

import (
	"html"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"hubbub/protocol/text"
)

// A span is a stretch of text in one style, or a mark that may turn out to be text.
type span struct {
	text string
	style
	mark *mark
}

// A mark is a run of *, _ or ~ that may begin or end an emphasis.
type mark struct {
	char        byte
	n           int // characters not yet used
	opens, ends bool
	before      rune // this and next are the characters around it
	next        rune
	used        []change
}

// A change is the beginning or the end of a style.
type change struct {
	style func(*style)
	on    bool
}

var (
	// bareAddress matches an address without brackets, inside which no character
	// is a mark. It ends before the punctuation of Chinese and Japanese.
	bareAddress = text.Pattern(`^(?i:https?://|tg://|ftp://|mailto:|www\.)[^\s<>"` + "`" +
		`\x{3000}-\x{3004}\x{3008}-\x{303F}\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF20}\x{FF3B}-\x{FF40}\x{FF5B}-\x{FF65}]+`)
	boldEnd   = text.Pattern(`(?:\*\*|~~)[^\x00-\x7F]`) // inside an address
	bareEmail = text.Pattern(`^[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+`)
	// maskedEmail matches an address with asterisks for some of its letters: ***n@g***.com.
	maskedEmail = text.Pattern(`^[\p{L}\p{N}._%+*-]{1,64}@[\p{L}\p{N}-]{0,64}\*[\p{L}\p{N}*-]{0,64}\.[a-z*]{0,16}[a-z]`)
	inBrackets  = text.Pattern(`^<((?i:https?://|tg://|mailto:)[^\s<>]*|[^\s<>@]+@[^\s<>@]+\.[^\s<>@]+)>`)
	reference   = text.Pattern(`^&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp);`)
	windowsPath = text.Pattern(`^(?:[A-Za-z]:\\|\\\\[\p{L}\p{N}])[^\s"<>|]*`)
)

// Limits of what is read around a mark, so that every text takes linear time. Beyond them, marks are text.
const (
	maxMarks = 64  // adjacent marks
	maxWord  = 256 // bytes of a word with underscores, to each side of a mark
	maxSpans = 256 // of one emphasis
)

// parseInline returns the spans of a text whose base style is given.
func parseInline(source string, base style) []span {
	p := &inlineParser{source: source, base: base}
	for p.at < len(source) {
		p.step()
	}
	p.flush()
	p.match()
	return p.resolve()
}

// An inlineParser parses one text.
type inlineParser struct {
	source string
	base   style
	at     int
	ended  int // where the last bare address or path ended
	spans  []span
	text   strings.Builder // read since the last span
}

func (p *inlineParser) flush() {
	if p.text.Len() > 0 {
		p.spans = append(p.spans, span{text: p.text.String(), style: p.base})
		p.text.Reset()
	}
}

// literal consumes n bytes as text.
func (p *inlineParser) literal(n int) {
	p.text.WriteString(p.source[p.at : p.at+n])
	p.at += n
}

// address consumes an address or a path of n bytes as text.
func (p *inlineParser) address(n int) {
	p.literal(n)
	p.ended = p.at
}

// before and after return the characters around a stretch, or 0 at the ends of the text.
func (p *inlineParser) before(at int) rune {
	if at == 0 {
		return 0
	}
	r, _ := utf8.DecodeLastRuneInString(p.source[:at])
	return r
}

func (p *inlineParser) after(at int) rune {
	if at >= len(p.source) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(p.source[at:])
	return r
}

// textAt returns the text of a span unless it is code.
func (p *inlineParser) textAt(i int) string {
	if p.spans[i].code {
		return ""
	}
	return p.spans[i].text
}

// step parses the next element.
func (p *inlineParser) step() {
	rest := p.source[p.at:]
	before := p.before(p.at)
	if !isWord(before) || joinsWords(before) {
		if address := bareAddress().FindString(rest); address != "" {
			p.address(addressEnd(address))
			return
		}
	}
	if !isWord(before) {
		if email := bareEmail().FindString(rest); email != "" {
			p.address(len(email))
			return
		}
		if email := maskedEmail().FindString(rest); email != "" {
			p.address(len(email))
			return
		}
		if path := windowsPath().FindString(rest); path != "" {
			p.address(len(strings.TrimRight(path, "*_~`)")))
			return
		}
	}
	switch rest[0] {
	case '`':
		p.codeSpan(rest)
	case '\\':
		p.escape(rest)
	case '<':
		if m := inBrackets().FindStringSubmatch(rest); m != nil {
			p.text.WriteString(m[1])
			p.at += len(m[0])
			return
		}
		p.literal(1)
	case '&':
		if m := reference().FindString(rest); m != "" {
			p.text.WriteString(strings.ReplaceAll(html.UnescapeString(m), "\x00", ""))
			p.at += len(m)
			return
		}
		p.literal(1)
	case '!', '[':
		p.link(rest)
	case '*', '_', '~':
		p.delimiter(rest)
	default:
		_, n := utf8.DecodeRuneInString(rest)
		p.literal(n)
	}
}

// addressEnd returns the end of a bare address, without trailing marks and punctuation.
func addressEnd(address string) int {
	if i := boldEnd().FindStringIndex(address); i != nil {
		address = address[:i[0]]
	}
	closes := strings.Count(address, ")") - strings.Count(address, "(")
	bracketed := strings.Contains(address, "[")
	for {
		n := len(address)
		trimmed := strings.TrimRight(address, "*~_.,;:!?'")
		if strings.HasSuffix(trimmed, ")") && closes > 0 {
			trimmed = trimmed[:len(trimmed)-1]
			closes--
		}
		if strings.HasSuffix(trimmed, "]") && !bracketed {
			trimmed = trimmed[:len(trimmed)-1]
		}
		if address = trimmed; len(address) == n {
			return n
		}
	}
}

// codeSpan parses code between equal runs of backquotes. Backquotes without an end are text, and so are
// those within a word, a quotation or a face, and the two that open a quotation in TeX: 5`C, "`", (´∀`).
func (p *inlineParser) codeSpan(rest string) {
	n := len(rest) - len(strings.TrimLeft(rest, "`"))
	for i := n; i < len(rest) && p.opensCode(n); {
		j := strings.IndexByte(rest[i:], '`')
		if j < 0 {
			break
		}
		i += j
		m := len(rest[i:]) - len(strings.TrimLeft(rest[i:], "`"))
		if m != n {
			i += m
			continue
		}
		inner := rest[n:i]
		if before, next := p.before(p.at+i), p.after(p.at+i+n); strings.TrimSpace(inner) == "" ||
			isSpace(before) && isWord(next) && !joinsWords(next) {
			break
		}
		if len(inner) > 2 && inner[0] == ' ' && inner[len(inner)-1] == ' ' &&
			(inner[1] == '`' || inner[len(inner)-2] == '`') {
			inner = inner[1 : len(inner)-1]
		}
		p.flush()
		st := p.base
		st.code = true
		p.spans = append(p.spans, span{text: inner, style: st})
		p.at += i + n
		return
	}
	p.literal(n)
}

// opensCode reports whether the n backquotes at the current position may begin code.
func (p *inlineParser) opensCode(n int) bool {
	before, next := p.before(p.at), p.after(p.at+n)
	if n == 1 && (accentBefore().MatchString(p.source[max(p.at-maxFace, 0):p.at]) ||
		accentAfter().MatchString(p.source[p.at+1:])) {
		return false
	}
	return joinsWords(before) || !isWord(before) && !(isQuotation(before) && before == next)
}

// maxEscapes bounds, in bytes, how far escape looks to each side, so that long runs take linear time.
const maxEscapes = 16

// escape parses a backslash. It is a mark only inside a word, before a character that would otherwise
// be a mark, or as a line break.
func (p *inlineParser) escape(rest string) {
	if n := formula(p.source, p.at); n > 0 {
		p.literal(n)
		return
	}
	if len(rest) > 2 && rest[1] == '\n' && breaksLine(p.source[:p.at]) {
		p.at++
		return
	}
	if len(rest) < 2 || !strings.ContainsRune("*_~`[]#->.)", rune(rest[1])) {
		p.literal(1)
		return
	}
	first, end := p.at, p.at+2 // of a run of the same escape
	for first >= 2 && p.at-first < maxEscapes && p.source[first-2:first] == rest[:2] {
		first -= 2
	}
	for end-p.at < maxEscapes && strings.HasPrefix(p.source[end:], rest[:2]) {
		end += 2
	}
	before, next := p.before(first), p.after(end)
	number := p.source[len(strings.TrimRight(p.source[:first], "0123456789")):first]
	starts := startsLine(p.source[:first-len(number)])
	ends := isSpace(before) || isOpening(before)
	needed := rest[1] == '`' || strings.ContainsRune("#->", rune(rest[1])) && number == "" && starts ||
		strings.ContainsRune(".)", rune(rest[1])) && number != "" && starts && isSpace(next) ||
		isWord(before) && isWord(next) && !strings.ContainsRune("->.)", rune(rest[1])) ||
		strings.ContainsRune("*_~", rune(rest[1])) &&
			(ends && !isSpace(next) || isSpace(before) && isSpace(next) ||
				!isSpace(before) && (isSpace(next) || isClosing(next) || next == '(')) ||
		rest[1] == '[' && !isSpace(next) && strings.Contains(rest[2:], "]") || rest[1] == ']' && !isSpace(before)
	if !needed || before == '¯' || before == '\\' && rest[1] == '[' {
		p.literal(1)
		return
	}
	p.text.WriteByte(rest[1])
	p.at += 2
}

// startsLine reports whether a line begins after a text, apart from spaces.
func startsLine(before string) bool {
	before = strings.TrimRight(before, " ")
	return before == "" || before[len(before)-1] == '\n'
}

// breaksLine reports whether a backslash between a text and the end of its line is the mark of a
// line break. After a space it continues a command, and after a path it is part of the path.
func breaksLine(before string) bool {
	word := before[strings.LastIndexAny(before, " \t\n")+1:]
	return word != "" && !strings.ContainsAny(word, `\/:=`)
}

// link parses a link or an image. A link without a valid address is text.
func (p *inlineParser) link(rest string) {
	start := 0
	if before := p.before(p.at); rest[0] == '!' && (!isWord(before) || joinsWords(before)) {
		start = 1
	}
	if len(rest) <= start || rest[start] != '[' || isWord(p.before(p.at)) && start == 0 && !joinsWords(p.before(p.at)) {
		p.literal(1)
		return
	}
	words := matching(rest[start:], '[', ']')
	if words < 0 || start+words+1 >= len(rest) || rest[start+words+1] != '(' {
		p.literal(start + 1)
		return
	}
	open := start + words + 1
	end := matching(rest[open:], '(', ')')
	if end < 0 {
		p.literal(start + 1)
		return
	}
	label, target := rest[start+1:start+words], rest[open+1:open+end]
	address := destination(target)
	if address == "" {
		p.literal(start + 1)
		return
	}
	p.flush()
	st := p.base
	inner := label
	if linkable(address) {
		st.link = address
	} else {
		inner = label + " (" + address + ")"
	}
	if strings.TrimSpace(label) == "" {
		p.spans = append(p.spans, span{text: address, style: st})
	} else {
		p.spans = append(p.spans, parseInline(inner, st)...)
	}
	p.at += open + end + 1
}

var linkTitle = text.Pattern(`^(\S+)\s+(?:"[^"]*"|'[^']*'|\([^)]*\))$`)

// destination returns the address in the parentheses of a link, or "".
func destination(target string) string {
	target = strings.TrimSpace(target)
	if m := linkTitle().FindStringSubmatch(target); m != nil {
		target = m[1]
	}
	if strings.HasPrefix(target, "<") && strings.HasSuffix(target, ">") {
		target = target[1 : len(target)-1]
	} else if strings.ContainsAny(target, " \t\n") {
		return ""
	}
	if !strings.ContainsAny(target, ":/.#@") {
		return ""
	}
	return target
}

func linkable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && len(address) <= 2048 &&
		(u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") || u.Scheme == "tg" || u.Scheme == "mailto")
}

// matching returns the position of the bracket that closes the first one of a text, or -1.
func matching(text string, open, end byte) int {
	depth := 0
	for i := 0; i < len(text) && i < 4096; i++ {
		switch text[i] {
		case '\\':
			i++
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// boldCommand matches a command between marks: **/help**, but not the glob **/help/**.
var boldCommand = text.Pattern(`^\*{1,2}/[A-Za-z]\w*(?:@\w+)?(?: [^*/\n]*[^*/\s])?\*{1,2}(?:[^\w*/]|$)`)

// extension matches a file extension after a mark of a pattern: *_test.py or test_*.py
var extension = text.Pattern(`^\.[a-z][a-z0-9]{0,4}(?:[^\pL\pN]|$)`)

// delimiter parses a run of *, _ or ~.
func (p *inlineParser) delimiter(rest string) {
	char := rest[0]
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if isModifier(p.after(p.at + n)) { // the last one is a part of *️⃣
		n--
	}
	// The characters around a group of adjacent marks decide.
	start := len(strings.TrimRight(p.source[:p.at], "*_~"))
	end := len(p.source) - len(strings.TrimLeft(p.source[p.at:], "*_~"))
	if end-start > maxMarks {
		p.literal(end - p.at)
		return
	}
	before, next := p.before(start), p.after(end)
	// Invisible characters separate words, but they may also stand inside of the marks.
	inside := func(r rune) bool { return isInvisible(r) && (n > 1 || r != zeroWidthSpace) }
	last := p.before(len(strings.TrimRightFunc(p.source[:start], inside)))
	first := p.after(len(p.source) - len(strings.TrimLeftFunc(p.source[end:], inside)))
	if start > 0 && start == p.ended {
		before, last = 'a', 'a' // the slash at the end of an address is not a slash between globs
	}
	// A single tilde between double marks is a sign: **3**~**5**.
	if left := strings.TrimRight(p.source[:p.at], "~"); n > 1 && len(left) == p.at-1 {
		before = '~'
	}
	if right := strings.TrimLeft(p.source[p.at+n:], "~"); n > 1 && len(right) == len(p.source)-p.at-n-1 {
		next = '~'
	}
	if boldCommand().MatchString(rest) {
		first = 'a' // the slash of a command is not a slash between globs
	}
	m := &mark{char: char, n: n, before: before, next: next, opens: opens(char, n, before, first),
		ends: ends(char, n, last, next)}
	if n == 1 && extension().MatchString(p.source[end:]) {
		m.ends = false
	}
	if n == 0 || n > 3 || char == '~' && n != 2 || !m.opens && !m.ends || isIdentifier(p.source, p.at, char) ||
		n == 1 && areEyes(before, next) || isMask(p.source[:start], p.source[end:]) {
		p.literal(max(n, 1))
		return
	}
	p.flush()
	p.spans = append(p.spans, span{text: rest[:n], style: p.base, mark: m})
	p.at += n
}

// match finds the opening mark of each closing mark.
func (p *inlineParser) match() {
	for i := range p.spans {
		last := p.spans[i].mark
		if last == nil || !last.ends {
			continue
		}
		for last.n > 0 {
			j := p.opener(i)
			if j < 0 {
				break
			}
			first := p.spans[j].mark
			n := min(first.n, last.n)
			first.n -= n
			last.n -= n
			turn := styleOf(first.char, n)
			first.used = append(first.used, change{turn, true})
			last.used = append(last.used, change{turn, false})
			for k := j + 1; k < i; k++ { // marks in between cannot match beyond
				if between := p.spans[k].mark; between != nil {
					between.opens, between.ends = false, false
				}
			}
		}
	}
}

// opener returns the nearest mark before i that the mark at i can close, or -1.
func (p *inlineParser) opener(i int) int {
	last := p.spans[i].mark
	var words strings.Builder
	for j := i - 1; j >= max(i-maxSpans, 0); j-- {
		first := p.spans[j].mark
		if first == nil || first.char != last.char || !first.opens || first.n == 0 {
			words.WriteString(p.spans[j].text)
			continue
		}
		fits := first.n == last.n || first.n == 3 || last.n == 3
		if !fits || p.keepsMarks(j, i, words.String()) {
			words.WriteString(p.spans[j].text)
			continue
		}
		if p.masks(j, i) || p.isFace(j, i) {
			first.opens, last.opens = false, false
			return -1
		}
		return j
	}
	return -1
}

func styleOf(char byte, n int) func(*style) {
	switch {
	case char == '~':
		return func(s *style) { s.strike = true }
	case n == 1:
		return func(s *style) { s.italic = true }
	case n == 2:
		return func(s *style) { s.bold = true }
	}
	return func(s *style) { s.bold, s.italic = true, true }
}

// resolve applies the styles of the matched marks. The unused characters of a mark are text.
func (p *inlineParser) resolve() []span {
	var out []span
	var on []change
	styled := func(st style) style {
		for _, c := range on {
			c.style(&st)
		}
		return st
	}
	for _, s := range p.spans {
		if s.mark == nil {
			s.style = styled(s.style)
			out = append(out, s)
			continue
		}
		ended := 0
		for _, c := range s.mark.used {
			if !c.on && len(on) > 0 {
				on = on[:len(on)-1]
				ended++
			}
		}
		if s.mark.n > 0 {
			out = append(out, span{text: s.text[:s.mark.n], style: styled(s.style)})
		}
		for i := len(s.mark.used) - 1; i >= 0; i-- {
			if c := s.mark.used[i]; c.on {
				on = append(on, c)
			}
		}
	}
	return out
}

const zeroWidthSpace = 0x200B

// isSpace reports whether a character separates words.
func isSpace(r rune) bool { return r == 0 || unicode.IsSpace(r) || isInvisible(r) }

// isInvisible reports whether a character only directs how a text is laid out, such as a zero-width
// space or a mark of direction. Joiners are parts of words.
func isInvisible(r rune) bool { return unicode.Is(unicode.Cf, r) && r != 0x200C && r != joiner }
