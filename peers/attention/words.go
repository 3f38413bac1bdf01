package attention

import (
	"slices"
	"strings"
	"unicode"
)

// Words are the few words that the rules read from a text. Each is compared
// without regard to case and punctuation; a word may be a phrase.
type Words struct {
	Stop    []string `json:"stop,omitempty"`    // "cancel": stops what is running, passes at once
	Acks    []string `json:"acks,omitempty"`    // "thanks": needs no answer
	Answers []string `json:"answers,omitempty"` // acknowledgements that answer a question of the agent
	Leave   []string `json:"leave,omitempty"`   // "go away": with a mention, asks the agent to leave
	Groups  []string `json:"groups,omitempty"`  // "all": a mention of every agent in a conversation
}

var defaultWords = DefaultWords()

// DefaultWords returns the words that hold when nothing is configured.
func DefaultWords() Words {
	return Words{
		Stop:    []string{"stop", "cancel", "wait"},
		Acks:    []string{"thanks", "thank you", "thx", "got it", "nice", "ok", "okay", "great", "cool"},
		Answers: []string{"ok", "okay", "great"},
		Leave:   []string{"leave", "go away"},
		Groups:  []string{"all", "everyone", "here", "channel", "agents"},
	}
}

// Courtesies may stand beside a stop or leave word without changing it.
var (
	stopFillers  = []string{"please", "now", "it", "that", "this"}
	leaveFillers = []string{
		"please", "now", "thanks", "thank", "you", "can", "could", "would", "should", "just", "and", "us", "me", "alone",
		"the", "this", "our", "thread", "channel", "chat", "group", "conversation", "room", "topic", "again",
	}
)

// tokens cuts a text into lower-case words: letters, digits, apostrophes. All
// else separates. Mentions and quoted parts are cut out before.
func tokens(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’'
	})
}

// consistsOf reports whether words is made of phrases, at least one, and of
// fillers, and of nothing else.
func consistsOf(words, phrases, fillers []string) bool {
	found := false
	for len(words) > 0 {
		n := leadingPhrase(words, phrases)
		if n == 0 && !slices.Contains(fillers, words[0]) {
			return false
		}
		found, words = found || n > 0, words[max(n, 1):]
	}
	return found
}

// leadingPhrase returns how many words the longest phrase that words begins
// with has, or 0.
func leadingPhrase(words, phrases []string) int {
	longest := 0
	for _, phrase := range phrases {
		parts := tokens(phrase)
		if n := len(parts); n > longest && n <= len(words) && slices.Equal(parts, words[:n]) {
			longest = n
		}
	}
	return longest
}
