package attention

import (
	_ "embed" // for words.json
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Words are the few words that the rules read from a text. They are compared without regard to
// case, punctuation and accents. A word may be a phrase.
type Words struct {
	Stop    []string `flag:"stop-words" json:"stop,omitempty" usage:"words that stop what is running, in place of the built-in ones in twelve languages (repeatable)"`
	Acks    []string `flag:"thanks-words" json:"acks,omitempty" usage:"words that need no answer, such as thanks, in place of the built-in ones (repeatable)"`
	Thanks  []string `json:"thanks,omitempty"` // acknowledgements that answer a question only if it offers them
	Leave   []string `flag:"leave-words" json:"leave,omitempty" usage:"words that ask the agent, by a mention or a reply, to leave a chat, in place of the built-in ones (repeatable)"`
	Groups  []string `json:"groups,omitempty"` // "all": a mention of every agent in a conversation
	Yes     []string `flag:"yes-words" json:"yes,omitempty" usage:"words that allow what --approve asks about, in place of the built-in ones in nineteen languages (repeatable)"`
	No      []string `flag:"no-words" json:"no,omitempty" usage:"words that deny it, in place of the built-in ones (repeatable)"`
	Unclear []string `flag:"unclear-words" json:"unclear,omitempty" usage:"words, such as not yet, that make an answer unclear, in place of the built-in ones (repeatable)"`
}

// embeddedWords are the default words, in English, Russian, Ukrainian, Persian, Arabic, Spanish,
// Portuguese, Indonesian, Hindi, Uzbek, Turkish and German, with one language per line. The words
// for yes, no and unclear answer a question about a permission. A phrase counts as a whole:
// "claro que no" is not "claro".
//
//go:embed words.json
var embeddedWords []byte

// A dictionary is what words.json contains.
type dictionary struct {
	Words
	Refusals   []string `json:"refusals"`   // words for no that a no before them negates: "don't cancel it"
	Courtesies []string `json:"courtesies"` // they change neither yes nor no
	Pauses     []string `json:"pauses"`     // their author will answer later
	Requests   []string `json:"requests"`   // they ask without a question mark: "tell me which"
	Offers     []string `json:"offers"`     // they wait for a yes: "let me know if you want me to"
	General    []string `json:"general"`    // of offers that wait for nothing: "anything"
}

// defaultWords returns what words.json contains. Many programs never need it.
var defaultWords = sync.OnceValue(func() *dictionary {
	d := new(dictionary)
	if err := json.Unmarshal(embeddedWords, d); err != nil {
		panic(err) // a test reads them
	}
	return d
})

// DefaultWords returns the default words, in twelve languages; those of answers in nineteen. The caller
// must not change the lists.
func DefaultWords() Words { return defaultWords().Words }

// Courtesies may accompany a stop or leave word without changing it.
var (
	stopFillers  = []string{"please", "now", "it", "that", "this"}
	leaveFillers = []string{
		"please", "now", "thanks", "thank", "you", "can", "could", "would", "should", "just", "and", "us", "me",
		"alone",
		"the", "this", "our", "thread", "channel", "chat", "group", "conversation", "room", "topic", "again",
	}
)

// selfWords are how an agent speaks of itself, as in "Do you want me to leave?", in the languages whose leave
// words do not change their form in a question.
var selfWords = []string{"i", "me", "my", "saya", "aku"}

// onlyEmoji reports whether a text consists of one or more emoji only.
func onlyEmoji(text string) bool {
	found := false
	for _, r := range text {
		switch {
		case unicode.Is(unicode.So, r), r == '‼':
			found = true
		// skin tones, variants, joiners
		case !unicode.IsSpace(r) && !unicode.In(r, unicode.Sk, unicode.Mn, unicode.Me, unicode.Cf):
			return false
		}
	}
	return found
}

// questionMarks turn words and emoji into a question.
const questionMarks = "?؟？❓❔⁉՞፧\u037e"

// endsOfQuestions are the endings of questions in languages that need no mark for them.
var endsOfQuestions = strings.Fields("ですか ですか。 ますか ますか。 でしょうか でしょうか。 ませんか ませんか。 吗 吗。 嗎 嗎。")

// doubtfulEmoji acknowledge nothing: their author greets, doubts, disagrees, is in need, or wants something to stop
// or to go on. stopEmoji stop what is running.
const (
	doubtfulEmoji = "🤔🤨😕🙁☹😟😠😡🤬😢😭😞😔😩😫😱😰😨😧😦😥😓😖😣🥺🤒🤕🤢🤮💔🙄😒😬😐😑🤦🤷" +
		"👋🙋🖕👎🙅❌✖🚫✋🖐🤚🆘🚨⚠❗❕📞☎⏸▶" + stopEmoji
	stopEmoji = "🛑⛔⏹"
)

// greekQuestion matches the semicolon that ends a question in Greek. One Greek letter before it is a symbol.
var greekQuestion = compiled(`\p{Greek}\pM*\p{Greek}[»”")*_]* ?;[»”")*_]*(?:\s|\z)`)

// EndsWithQuestion reports whether a text asks something at its end or before a last remark, with or
// without a question mark. A mark within a word belongs to an address or to code.
func EndsWithQuestion(text string) bool {
	spoken := spokenPart(text)
	if strings.ContainsAny(spoken, questionMarks[len("?"):]) || greekQuestion().MatchString(spoken) || requests(spoken) {
		return true
	}
	for word := range strings.FieldsSeq(spoken) {
		i := strings.LastIndexByte(word, '?')
		if i >= 0 && !strings.Contains(word, "://") &&
			!strings.ContainsFunc(word[i:], func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			return true
		}
	}
	return false
}

// Phrases of words.json, as containsPhrase takes them.
var (
	requestPhrases = searched(func(d *dictionary) []string { return d.Requests })
	offerPhrases   = searched(func(d *dictionary) []string { return d.Offers })
	generalPhrases = searched(func(d *dictionary) []string { return d.General })
)

// searched returns phrases between spaces, unless their language has none.
func searched(list func(*dictionary) []string) func() []string {
	return sync.OnceValue(func() (phrases []string) {
		for _, phrase := range list(defaultWords()) {
			if phrase = strings.Join(tokens(phrase), " "); phrase < "\u2e80" {
				phrase = " " + phrase + " "
			}
			phrases = append(phrases, phrase)
		}
		return phrases
	})
}

func containsPhrase(text string, phrases []string) bool {
	words := " " + strings.Join(tokens(text), " ") + " "
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(words, phrase) })
}

// requests reports whether a text asks for something without a question mark.
func requests(text string) bool {
	ends := func(end string) bool { return strings.HasSuffix(strings.TrimSpace(text), end) }
	return slices.ContainsFunc(endsOfQuestions, ends) || containsPhrase(text, requestPhrases())
}

// Offers reports whether a sentence of a text offers to do something and waits for a yes: "Let me know if you want
// me to book it." An offer of anything at all waits for nothing.
func Offers(text string) bool {
	sentences := strings.FieldsFunc(spokenPart(text), func(r rune) bool { return strings.ContainsRune(".!\n。！।", r) })
	return slices.ContainsFunc(sentences, func(sentence string) bool {
		return containsPhrase(sentence, offerPhrases()) && !containsPhrase(sentence, generalPhrases())
	})
}

// pauseFillers may accompany a pause without changing it, as courtesies may.
var pauseFillers = []string{"ok", "okay", "oh", "uh", "um", "ah", "well", "so", "guys", "all", "everyone", "ок", "ой"}

// IsPause reports whether a text only says that its author will answer later, such as "brb" and "one sec".
func IsPause(text string) bool {
	said, w := tokens(withoutLabels(spokenPart(text))), defaultWords()
	return consistsOf(said, slices.Concat(w.Pauses, w.Courtesies), pauseFillers) &&
		!consistsOf(said, w.Courtesies, pauseFillers)
}

// IsCourtesy reports whether a text has no words but courtesies, thanks, labels and the given fillers.
func IsCourtesy(text string, fillers ...string) bool {
	said, w := tokens(withoutLabels(text)), defaultWords()
	return len(said) == 0 || consistsOf(said, slices.Concat(w.Courtesies, w.Thanks, fillers), nil)
}

// OnlyLabels reports whether a text consists of labels, such as the name of an agent, and nothing else.
func OnlyLabels(text string) bool {
	return len(Labels(text)) > 0 && strings.Trim(withoutLabels(text), " \n\t,.;:!") == ""
}

// letters normalizes letters that people write in several ways: with and without accents, or with
// the signs of another keyboard.
var letters = strings.NewReplacer(
	"á", "a", "à", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "ç", "c", "é", "e", "è", "e", "ê", "e", "ë", "e", "í",
	"i", "ì", "i", "î", "i", "ï", "i", "ı", "i",
	"ñ", "n", "ó", "o", "ò", "o", "ô", "o", "õ", "o", "ö", "o", "ú", "u", "ù", "u", "û", "u", "ü", "u", "ş", "s", "ğ",
	"g", "ß", "ss", "ё", "е", "й", "и", "ї", "і",
	"أ", "ا", "إ", "ا", "آ", "ا", "ي", "ی", "ى", "ی", "ك", "ک", "ة", "ه", "ـ", "", "क़", "क", "ज़", "ज", "ड़", "ड",
	"ढ़", "ढ", "फ़", "फ",
	"می\u200c", "می", "مي\u200c", "می", // the prefix of Persian verbs
	"’", "'", "‘", "'", "ʻ", "'", "ʼ", "'", "`", "'", "´", "'",
)

// tokens splits a text into lower-case words without accents: letters, digits, apostrophes. The
// caller removes mentions and quoted parts first.
func tokens(text string) []string {
	text = strings.Map(func(r rune) rune {
		// accents, short vowels, combining dots, and the selectors and frames of emoji
		if r >= 0x300 && r <= 0x36f || r >= 0x64b && r <= 0x652 || r == 0x93c || r >= 0xfe00 && r <= 0xfe0f ||
			r == 0x20e3 {
			return -1
		}
		if r >= '０' && r <= '９' || r >= 'ａ' && r <= 'ｚ' { // of Chinese and Japanese keyboards
			return r - 'ａ' + 'a'
		}
		return r
	}, letters.Replace(strings.ToLower(text)))
	return strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\''
	})
}

// consistsOf reports whether words consists of one or more phrases, and of fillers, only.
func consistsOf(words, phrases, fillers []string) bool {
	found := false
	known := make([][]string, len(phrases))
	for i := range known {
		if len(words) > 0 {
			known[i] = tokens(phrases[i])
		}
	}
	for len(words) > 0 {
		n := leadingPhrase(words, known)
		if n == 0 && !slices.Contains(fillers, words[0]) {
			return false
		}
		found, words = found || n > 0, words[max(n, 1):]
	}
	return found
}

// leadingPhrase returns the length of the longest phrase that words begins with, or 0.
func leadingPhrase(words []string, phrases [][]string) int {
	longest := 0
	for _, parts := range phrases {
		if n := len(parts); n > longest && n <= len(words) && slices.Equal(parts, words[:n]) {
			longest = n
		}
	}
	return longest
}
