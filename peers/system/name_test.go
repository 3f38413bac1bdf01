package system

import (
	"strings"
	"testing"

	"hubbub/protocol"

	"pgregory.net/rapid"
)

func TestTopicNames_AreSafeAndStable(t *testing.T) {
	for topic, want := range map[protocol.Topic]AgentName{
		"tg:42":             "tg-42",
		"tg:-1001234567890": "tg--1001234567890",
		"chorus:ops":        "chorus-ops",
		"agentless":         "agentless-",
		"chorus:ops.Main":   "chorus-ops-main-",
		"tg:../../etc":      "tg-etc-",
		"tg:%i;rm -rf /":    "tg-i-rm-rf-",
		"äöü":               "chat-",
		"tg:" + protocol.Topic(strings.Repeat("9", 100)): "tg-999999999999999999999999999999999999-",
	} {
		got := deriveNames(topic)[0]
		if got != want && !(strings.HasSuffix(string(want), "-") && strings.HasPrefix(string(got), string(want)) && len(got) == len(want)+8) {
			t.Errorf("%q gives %q; want %q", topic, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		topic := protocol.Topic(rapid.String().Draw(t, "topic"))
		names := deriveNames(topic)
		for _, n := range names {
			if err := CheckName(string(n)); err != nil {
				t.Fatalf("%q: %v", topic, err)
			}
		}
		if len(names) < 3 || names[len(names)-1] == names[len(names)-2] {
			t.Fatalf("%q has no other names: %q", topic, names)
		}
	})
}

func TestTopicNames_AreUnique(t *testing.T) {
	topic := rapid.StringMatching(`[a-z0-9]{1,4}:-?[a-z0-9]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := topic.Draw(t, "a"), topic.Draw(t, "b")
		if a != b && deriveNames(protocol.Topic(a))[0] == deriveNames(protocol.Topic(b))[0] {
			t.Fatalf("%q and %q are both %q", a, b, deriveNames(protocol.Topic(a))[0])
		}
	})
}

func TestNames_RefuseEscapes(t *testing.T) {
	for _, name := range []string{"", "-x", "A", "a_b", "a.b", "../x", "a/b", "a b", "a\nb", "a\x00", "ä", "%i", "$HOME", "a@b", "system", strings.Repeat("a", 49)} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"a", "0", "lead", "tg--100", strings.Repeat("a", 48)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

// TestDeriveNames_DifferOnFileSystemsThatIgnoreCase derives the names of topics that differ only in
// case. Files are named after agents.
func TestDeriveNames_DifferOnFileSystemsThatIgnoreCase(t *testing.T) {
	for a, b := range map[protocol.Topic]protocol.Topic{
		"chorus:team.C1": "chorus:team.c1", "mx:!AbC:hs": "mx:!abc:hs", "cli:Will": "cli:will", "tg:X": "tg:x", "chorus:ß": "chorus:SS",
	} {
		for _, x := range deriveNames(a) {
			for _, y := range deriveNames(b) {
				if strings.EqualFold(string(x), string(y)) {
					t.Errorf("%s and %s share the name %s", a, b, x)
				}
			}
		}
	}
}

func TestRequest_ChecksThePermission(t *testing.T) {
	for _, c := range []struct {
		topic protocol.Topic
		from  protocol.PeerID
		ok    bool
	}{
		{"tg:42", "tg:42", true},
		{"tg:42", "tg:1", true}, // a bridge speaks for its family
		{"chorus:ops", "chorus:ops", true},
		{"tg:42", "cli:me", true},
		{"cli:me", "cli:me", true},
		{"tg:42", "chorus:ops", false},
		{"agent:x", "cli:me", false},
		{"system:spawn", "cli:me", false},
		{"collab:broker", "cli:me", false},
		{"tg:*", "tg:1", false},
		{"tg:4?", "tg:1", false},
		{"tg:[1]", "tg:1", false},
		{"tg:{1,2}", "tg:1", false},
		{`tg:\1`, "tg:1", false},
		{"*", "tg:1", false},
		{"", "tg:1", false},
		{"tg:" + protocol.Topic(strings.Repeat("9", 130)), "tg:1", false},
		{"tg:\xff", "tg:1", false},
	} {
		if err := checkTopic(c.topic, c.from); (err == nil) != c.ok {
			t.Errorf("%s asks for %s: %v", c.from, c.topic, err)
		}
	}
}
