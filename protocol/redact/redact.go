package redact

import (
	"bufio"
	"bytes"
	_ "embed" // for the rules
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A Redactor removes secrets and counts them. A nil Redactor removes nothing.
type Redactor struct {
	rules      *rules
	found      []atomic.Uint64 // by rule
	namedFound atomic.Uint64   // removed by Arguments because of their names
}

// New returns a Redactor.
func New() *Redactor {
	r := compiled()
	return &Redactor{rules: r, found: make([]atomic.Uint64, len(r.list))}
}

// Bytes returns the text, or a copy in which [redacted:RULE] replaces each secret.
func (r *Redactor) Bytes(text []byte) []byte {
	if r == nil {
		return text
	}
	var out []byte
	done := 0 // everything before is in out
	r.rules.each(text, func(rule, from, to int) {
		r.found[rule].Add(1)
		out = append(append(out, text[done:from]...), r.rules.list[rule].mark...)
		done = to
	})
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// String is like Bytes for a string.
func (r *Redactor) String(text string) string {
	if r == nil || len(text) < shortest {
		return text
	}
	return string(r.Bytes([]byte(text)))
}

// Found returns the number of removed secrets by rule, without rules that have removed none.
func (r *Redactor) Found() map[string]uint64 {
	if r == nil {
		return nil
	}
	counts := map[string]uint64{}
	if n := r.namedFound.Load(); n > 0 {
		counts["named"] = n
	}
	for i := range r.found {
		if n := r.found[i].Load(); n > 0 {
			counts[r.rules.list[i].id] = n
		}
	}
	return counts
}

// A rule is one shape of a secret.
type rule struct {
	id    string
	begin []string // the possible beginnings
	// before bounds the digits that precede the beginning and belong to the secret, which may
	// then start within a word.
	before  int
	shape   func() *regexp.Regexp // compiled when a text first has such a beginning
	ends    bool                  // no letter or digit may follow
	entropy float64               // minimum bits per byte; less means an example
	mark    string                // the replacement
}

//go:embed gitleaks.txt
var ruleText string

// ownRules are rules in addition to gitleaks'. gitleaks has no rules for these secrets, or only
// rules that need a name or a quotation mark next to the secret. A shape must not match a
// quotation mark, or a backslash without the character that it escapes.
var ownRules = []struct {
	id, begin, shape string
	before           int
	entropy          float64
}{
	{id: "private-key", begin: "-----BEGIN ", shape: `-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----` +
		`(?:[A-Za-z0-9+/=\s:,.()]|\\[nrt/\\]|\\u[0-9A-Fa-f]{4}|-[A-Za-z0-9])*(?:-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----)?`},
	{id: "telegram-bot-token", begin: ":AA", before: 16, shape: `[0-9]{5,16}:AA[A-Za-z0-9_-]{33}`},
	{id: "jwt", begin: "eyJ", shape: `eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]*`},
	// OpenAI, Anthropic, OpenRouter and others
	{id: "model-key", begin: "sk-", shape: `sk-[A-Za-z0-9_-]{20,}`, entropy: 3.7},
	{id: "groq-key", begin: "gsk_", shape: `gsk_[A-Za-z0-9]{40,}`, entropy: 3},
	{id: "xai-key", begin: "xai-", shape: `xai-[A-Za-z0-9]{60,}`, entropy: 3},
	{id: "slack-token", begin: "xoxb-", shape: `xoxb-[A-Za-z0-9-]{20,}`, entropy: 3},
	{id: "google-client-secret", begin: "GOCSPX-", shape: `GOCSPX-[A-Za-z0-9_-]{20,}`, entropy: 3},
	{id: "google-access-token", begin: "ya29.", shape: `ya29\.[A-Za-z0-9_-]{30,}`, entropy: 3},
	// our own secrets: 256 bits in base64 after the name of their use (peers/chorus), or in hex (protocol)
	{id: "chorus-connection", begin: "sk_", shape: `sk_[A-Za-z0-9_-]{43}`, entropy: 4.2},
	{id: "chorus-callback", begin: "cb_", shape: `cb_[A-Za-z0-9_-]{43}`, entropy: 4.2},
	{id: "chorus-tools", begin: "mcp_", shape: `mcp_[A-Za-z0-9_-]{43}`, entropy: 4.2},
	{id: "webhook-secret", begin: "whsec_", shape: `whsec_[A-Za-z0-9+/]{32,}=*`, entropy: 4},
	{id: "derived-token", begin: "pass_", shape: `pass_[0-9a-f]{96}`, entropy: 3},
}

// pattern returns a regular expression that is compiled when it is first used.
func pattern(source string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}

// rules finds the beginnings of all secrets in one pass. Every beginning has at least three
// bytes.
type rules struct {
	list   []rule
	by     map[uint32][]int     // rules by the first three bytes of their beginnings
	filter [1 << 16 / 64]uint64 // a bit for the hash of each key of by
}

// The bounds of a secret, in bytes.
const (
	shortest = 16
	longest  = 16 << 10
)

var compiled = sync.OnceValue(func() *rules {
	all := &rules{by: map[uint32][]int{}}
	for _, o := range ownRules {
		all.add(rule{id: o.id, begin: []string{o.begin}, before: o.before,
			shape: pattern("^(?:" + o.shape + ")"), entropy: o.entropy})
	}
	lines := bufio.NewScanner(strings.NewReader(ruleText))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), "\t"); len(fields) == 5 {
			entropy, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				panic(fmt.Sprintf("the rule %s: %s", fields[0], err))
			}
			all.add(rule{
				id: fields[0], entropy: entropy, ends: fields[2] == "ends", begin: strings.Fields(fields[3]),
				shape: pattern("^(?:" + fields[4] + ")"),
			})
		}
	}
	return all
})

func (s *rules) add(r rule) {
	r.mark = "[redacted:" + r.id + "]"
	for _, b := range r.begin {
		first := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
		if !slices.Contains(s.by[first], len(s.list)) {
			s.by[first] = append(s.by[first], len(s.list))
		}
		h := hash(first)
		s.filter[h/64] |= 1 << (h % 64)
	}
	s.list = append(s.list, r)
}

func hash(three uint32) uint32 { return three * 0x9e3779b1 >> 16 }

// each calls found for every secret of a text, from left to right.
func (s *rules) each(text []byte, found func(rule, from, to int)) {
	if len(text) < shortest {
		return
	}
	three := uint32(text[0])<<8 | uint32(text[1])
	done := 0
	for i := 2; i < len(text); i++ {
		three = (three<<8 | uint32(text[i])) & 0xffffff
		if h := hash(three); s.filter[h/64]&(1<<(h%64)) == 0 || i-2 < done {
			continue
		}
		for _, n := range s.by[three] {
			if from, to, ok := s.list[n].at(text, i-2, done); ok {
				found(n, from, to)
				done = to
				break
			}
		}
	}
}

// at reports whether a secret of this shape begins at an index of a text, and returns its
// position, which is not before done.
func (r *rule) at(text []byte, begin, done int) (from, to int, ok bool) {
	if !slices.ContainsFunc(r.begin, func(b string) bool { return bytes.HasPrefix(text[begin:], []byte(b)) }) {
		return 0, 0, false
	}
	for from = begin; begin-from < r.before && from > done && digit(text[from-1]); {
		from--
	}
	for p := from - 2; r.before > 0 && p >= max(0, from-5); p-- { // digits of an escape such as \u0031 do not count
		if text[p+1] == 'u' && escapes(text, p) {
			from = min(p+6, begin)
			break
		}
	}
	if r.before == 0 && !starts(text, from) {
		return 0, 0, false
	}
	where := r.shape().FindIndex(text[from:min(from+longest, len(text))])
	if where == nil {
		return 0, 0, false
	}
	to = from + where[1]
	if r.ends && to < len(text) && letter(text[to]) || r.entropy > 0 && entropy(text[from:to]) < r.entropy {
		return 0, 0, false
	}
	return from, to, true
}

// starts reports whether a word starts at an index. A secret begins only at the start of a word,
// so no word is examined twice. The letters of an escape such as \n are not part of a word.
func starts(text []byte, i int) bool {
	switch {
	case i == 0:
		return true
	case !letter(text[i-1]) && text[i-1] != '_' && text[i-1] != '-':
		return !escapes(text, i-1)
	}
	return escapes(text, i-2) && text[i-1] != 'u' || i > 5 && text[i-5] == 'u' && escapes(text, i-6)
}

// escapes reports whether the backslash at an index escapes the next character.
func escapes(text []byte, at int) bool {
	n := 0
	for ; at >= 0 && text[at] == '\\'; at-- {
		n++
	}
	return n%2 == 1
}

func digit(b byte) bool { return '0' <= b && b <= '9' }

func letter(b byte) bool { return digit(b) || 'a' <= b|0x20 && b|0x20 <= 'z' }

// entropy returns the Shannon entropy, in bits a byte.
func entropy(text []byte) (bits float64) {
	var counts [256]int
	for _, b := range text {
		counts[b]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
