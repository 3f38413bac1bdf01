package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"pgregory.net/rapid"
)

// matches is the plainest matcher: it tries everything.
func matches(p, s []rune) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == '*' {
		return matches(p[1:], s) || len(s) > 0 && matches(p, s[1:])
	}
	return len(s) > 0 && (p[0] == '?' || p[0] == s[0]) && matches(p[1:], s[1:])
}

var (
	patternGen = rapid.StringOfN(rapid.RuneFrom([]rune("ab:*?é")), 1, 10, -1)
	topicGen   = rapid.StringOfN(rapid.RuneFrom([]rune("ab:é")), 1, 12, -1)
)

func TestPattern_AgreesWithPlainMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := patternGen.Draw(t, "pattern")
		p, err := protocol.ParsePattern(text)
		if err != nil {
			t.Skip(err)
		}
		topic := topicGen.Draw(t, "topic")
		if got, want := p.Matches(protocol.Topic(topic)), matches([]rune(text), []rune(topic)); got != want {
			t.Fatalf("%q matches %q: %t; want %t", text, topic, got, want)
		}
	})
}

// TestCovers_IsSound checks that a pattern which covers another matches
// everything that the other matches.
func TestCovers_IsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := patternGen.Draw(t, "p"), patternGen.Draw(t, "q")
		if !protocol.Pattern(p).Covers(protocol.Pattern(q)) {
			return
		}
		topic := topicGen.Draw(t, "topic")
		if matches([]rune(q), []rune(topic)) && !matches([]rune(p), []rune(topic)) {
			t.Fatalf("%q is said to cover %q, but does not match %q", p, q, topic)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"*", "tg:*", true}, {"tg:*", "tg:*", true}, {"tg:*", "tg:1", true}, {"tg:*", "tg:?", true}, {"tg:*", "tg:a*b", true},
		{"tg:1", "tg:*", false}, {"tg:?", "tg:*", false}, {"tg:*", "*", false}, {"tg:*", "t*", false}, {"tg:?", "tg:1", true},
		{"agent:x", "agent:x", true}, {"agent:x", "agent:y", false}, {"a*b", "a*b", true}, {"a*b", "ab", true}, {"?*", "*?", true},
		{"*a*", "b*a?", true}, {"*a", "*", false}, {"tg:*", "tg:", true}, {"*:x", "tg:*:x", true},
	} {
		if got := protocol.Pattern(c.p).Covers(protocol.Pattern(c.q)); got != c.want {
			t.Errorf("%q covers %q: %t; want %t", c.p, c.q, got, c.want)
		}
	}
}

// naively is matches with a table, for patterns of any length: row i tells which
// beginnings of the topic the first i symbols of the pattern match.
func naively(p, s []rune) bool {
	row := make([]bool, len(s)+1)
	row[0] = true
	for _, symbol := range p {
		next := make([]bool, len(s)+1)
		for j := range next {
			switch {
			case symbol == '*':
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = row[j-1] && (symbol == '?' || symbol == s[j-1])
			}
		}
		row = next
	}
	return row[len(s)]
}

func FuzzPattern(f *testing.F) {
	f.Add("tg:*", "tg:1")
	f.Add("*a*b?c*", "xaybzc")
	f.Add("*?a?*?a?*?a?*?a?*?a?*?a?*?a?*?a?", strings.Repeat("a", 256))
	f.Fuzz(func(t *testing.T, text, topic string) {
		p, err := protocol.ParsePattern(text)
		if err != nil || protocol.CheckTopic(topic) != nil {
			return
		}
		if got, want := p.Matches(protocol.Topic(topic)), naively([]rune(text), []rune(topic)); got != want {
			t.Fatalf("%q matches %q: %t; want %t", text, topic, got, want)
		}
		if !p.Covers(p) {
			t.Fatalf("%q does not cover itself", text)
		}
	})
}

// FuzzScanSend checks that an accepted message has one reading: encoding/json
// finds what the scanner found.
func FuzzScanSend(f *testing.F) {
	f.Add([]byte(`{"topic":"tg:1","payload":{"messageId":"m","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{}}}`))
	f.Add([]byte(`{"topic":"t\u0067:1","payload":{"messageId":"m","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"a":{"b":[]}},"x":1}}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		frame := append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"sendMessage","params":`), params...), '}')
		var p jsonrpc.Parser
		m, err := p.Parse(frame)
		if err != nil || m.Params == nil {
			return
		}
		s, err := protocol.ScanSend(&p, m.Params)
		if err != nil {
			return
		}
		var want protocol.SendParams
		if err := json.Unmarshal(m.Params, &want); err != nil {
			t.Fatalf("%s was accepted, but encoding/json says: %v", m.Params, err)
		}
		if s.Topic != string(want.Topic) || s.MessageID != string(want.Payload.MessageID) || s.From != string(want.Payload.From) || s.Type != want.Payload.Type {
			t.Fatalf("%s reads as %+v and as %+v", m.Params, s, want)
		}
	})
}

// BenchmarkWorstPatterns shows what the most expensive patterns cost: patterns
// come from peers, and none may cost more than one walk over the topic. The last
// three are those for which a random search found the glob library slowest.
func BenchmarkWorstPatterns(b *testing.B) {
	topic := strings.Repeat("a", protocol.MaxTopic)
	for _, text := range []string{
		"*a*a*a*a*a*a*a*b", "*?a?*?a?*?a?*?a?*?a?*?a?*?a?*?a?",
		strings.Repeat("?", 100) + "*b", "*" + strings.Repeat("a", 100) + "b*c",
		"*" + strings.Repeat("?a", 62) + "b?",
		"??*a??aaa?aaaaa????a?aaa?a???????a??aa??a????????????aa?a???a?aa??aa???a??a?aa?a??aa??????a?a?a??aa??a???aaaa",
		"aaaa?aaaaaaaa*aaaaaaaaa?aaaa*a*aa*aaaaaa**aa?aaaaa??aaaaaaaa?aaaaaaaaaaaaa?a?*aaaaaaaaa?aa?aa?a??a*aaaaaaaaa?aaaaaaa?aaa?aaa",
		"?a*???aa?aa??*a?a?aa?aa?a?*a?a**aa?a?aa?aa?*a?a???a??aa*?????aa???aa?a?a?a?aaa*aaa?????a?a??????aa???aa??aaa?a?a?a?aa",
	} {
		b.Run(text[:min(16, len(text))], func(b *testing.B) {
			m := protocol.Pattern(text).Matcher()
			for b.Loop() {
				m.Match(topic)
			}
		})
	}
}

func BenchmarkScanSend(b *testing.B) {
	frame := []byte(`{"jsonrpc":"2.0","id":4,"method":"sendMessage","params":{"topic":"tg:123456789","payload":{"messageId":"msg_01J00000000000000000000000","type":"tg_message","from":"tg:123456789","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello, this is a message of the usual length, with some words in it"}}}}`)
	var p jsonrpc.Parser
	m, err := p.Parse(frame)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := protocol.ScanSend(&p, m.Params); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPattern_AtLimits matches the longest patterns, wildcards at either
// end, ends that would overlap, and characters of several bytes.
func TestPattern_AtLimits(t *testing.T) {
	longest := "*" + strings.Repeat("a", protocol.MaxPattern-2) + "*"
	for _, c := range []struct {
		pattern, topic string
		want           bool
	}{
		{"*:*", "tg:1", true}, {"*:*", ":", true}, {"*:*", "tg", false}, {"*a*", "a", true}, {"*a*", "b", false},
		{"a*b*c", "abc", true}, {"a*b*c", "axxbxxc", true}, {"a*b*c", "acb", false}, {"a*b*c", "abcx", false},
		{"?*", "x", true}, {"?*", "é", true}, {"??*", "é", false}, {"*?é?*", "aéb", true}, {"*?é?*", "éb", false},
		{"**", "anything at all", true}, {"*?*?*", "ab", true}, {"*?*?*", "a", false},
		{longest, strings.Repeat("a", protocol.MaxPattern-2), true}, {longest, strings.Repeat("a", protocol.MaxPattern-3), false},
		{longest, "b" + strings.Repeat("a", protocol.MaxPattern-2) + "b", true},
		{"*" + strings.Repeat("?", protocol.MaxPattern-1), strings.Repeat("x", protocol.MaxPattern-1), true},
		{"*" + strings.Repeat("?", protocol.MaxPattern-1), strings.Repeat("x", protocol.MaxPattern-2), false},
		{strings.Repeat("?", protocol.MaxPattern), strings.Repeat("é", protocol.MaxPattern), true},
		{strings.Repeat("?", protocol.MaxPattern), strings.Repeat("é", protocol.MaxPattern-1), false},
		{strings.Repeat("?", protocol.MaxPattern), strings.Repeat("x", protocol.MaxPattern+1), false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*a", "aba", true}, {"a?a", "aa", false}, {"é*é", "éé", true}, {"é*é", "é", false},
		{"tg:1", "tg:1", true}, {"tg:1", "tg:11", false}, {"tg:?", "tg:é", true}, {"tg:?", "tg:", false}, {"tg:?", "tg:12", false},
	} {
		if got := protocol.Pattern(c.pattern).Matches(protocol.Topic(c.topic)); got != c.want {
			t.Errorf("%.20q matches %.20q: %t; want %t", c.pattern, c.topic, got, c.want)
		}
	}
}

func TestSourceOfEvent_OfEdits(t *testing.T) {
	for id, want := range map[string]string{
		protocol.EditEventID("tg:1:2", 3):                             "tg:1:2",
		protocol.EditEventID(protocol.EditEventID("chorus:a", 1), 20): "chorus:a#edit-1",
		"tg:1:2": "tg:1:2", "": "", "#edit-1": "#edit-1", "a#edit-": "a#edit-", "a#edit-1x": "a#edit-1x", "a#edit--1": "a#edit--1",
	} {
		if got := protocol.SourceOfEvent(id); got != want {
			t.Errorf("%q is about %q, want %q", id, got, want)
		}
	}
	first, end := protocol.EditsOf("a")
	for id, want := range map[string]bool{protocol.EditEventID("a", 1): true, protocol.EditEventID("a", 99): true, "a": false, "a#edit": false, "a#edits": false, "ab#edit-1": false} {
		if got := first <= id && id < end; got != want {
			t.Errorf("%q is an edit of a: %t", id, got)
		}
	}
}
