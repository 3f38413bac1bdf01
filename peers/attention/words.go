package attention

import (
	"slices"
	"strings"
	"unicode"
)

// Words are the few words that the rules read from a text. They are compared without regard to
// case, punctuation and accents. A word may be a phrase.
type Words struct {
	Stop    []string `flag:"stop-words" json:"stop,omitempty" usage:"words that stop what is running, in place of those that it knows in twelve languages (repeatable)"`
	Acks    []string `flag:"thanks-words" json:"acks,omitempty" usage:"words that need no answer, such as thanks, in place of those that it knows (repeatable)"`
	Thanks  []string `json:"thanks,omitempty"` // acknowledgements that answer no question that does not offer them
	Leave   []string `flag:"leave-words" json:"leave,omitempty" usage:"words that ask the agent, by a mention, to leave a chat, in place of those that it knows (repeatable)"`
	Groups  []string `json:"groups,omitempty"` // "all": a mention of every agent in a conversation
	Yes     []string `flag:"yes-words" json:"yes,omitempty" usage:"words that allow what --approve asks about, in place of those that it knows in twelve languages (repeatable)"`
	No      []string `flag:"no-words" json:"no,omitempty" usage:"words that deny it, in place of those that it knows (repeatable)"`
	Unclear []string `flag:"unclear-words" json:"unclear,omitempty" usage:"words, such as not yet, with which no answer is a clear one, in place of those that it knows (repeatable)"`
}

var defaultWords = DefaultWords()

// DefaultWords returns the default words in English, Russian, Ukrainian, Persian, Arabic,
// Spanish, Portuguese, Indonesian, Hindi, Uzbek, Turkish and German, one line each.
func DefaultWords() Words {
	return Words{
		Stop: []string{
			"stop", "cancel", "wait",
			"стоп", "стой", "хватит", "отмена", "отмени", "подожди",
			"зупинись", "скасуй", "зачекай",
			"بس کن", "صبر کن", "لغو کن",
			"توقف", "انتظر", "إلغاء", "الغاء",
			"para", "detente", "cancela", "espera",
			"pare", "cancele", "espere",
			"berhenti", "batal", "batalkan", "tunggu",
			"रुको", "रुकिए", "बंद करो",
			"to'xta", "kut", "bekor qil",
			"dur", "bekle", "iptal",
			"stopp", "halt", "abbrechen", "warte",
		},
		Acks: []string{
			"thanks", "thank you", "thx", "got it", "nice", "ok", "okay", "great", "cool",
			"thanks a lot", "many thanks", "thank you so much", "thank you very much", "thanks so much", "ty",
			"perfect",
			"спасибо", "спс", "большое спасибо", "спасибо большое", "благодарю", "понял", "поняла", "понятно", "хорошо",
			"ок", "отлично", "круто",
			"дякую", "зрозумів", "зрозуміла", "добре", "чудово",
			"ممنون", "مرسی", "متشکرم", "باشه", "عالی",
			"شكرا", "شكرًا", "حسنا", "حسنًا", "تمام", "ممتاز",
			"gracias", "muchas gracias", "vale", "de acuerdo", "genial", "entendido",
			"obrigado", "obrigada", "muito obrigado", "muito obrigada", "valeu", "beleza", "ótimo", "entendi",
			"terima kasih", "makasih", "oke", "baik", "mantap",
			"धन्यवाद", "शुक्रिया", "ठीक है", "बढ़िया",
			"rahmat", "tushunarli", "zo'r",
			"teşekkürler", "teşekkür ederim", "sağol", "sağ ol", "tamam", "harika",
			"danke", "vielen dank", "danke schön", "verstanden", "alles klar", "super",
		},
		Thanks: []string{
			"thanks", "thank you", "thx", "thanks a lot", "many thanks", "thank you so much", "thank you very much",
			"thanks so much", "ty", "спасибо", "спс", "большое спасибо", "спасибо большое", "благодарю", "дякую",
			"ممنون", "مرسی", "متشکرم", "شكرا", "gracias", "muchas gracias", "obrigado", "obrigada", "muito obrigado",
			"muito obrigada", "valeu", "terima kasih", "makasih", "धन्यवाद", "शुक्रिया", "rahmat", "teşekkürler",
			"teşekkür ederim", "sağol", "sağ ol", "danke", "vielen dank", "danke schön",
		},
		Leave: []string{
			"leave", "go away",
			"уйди", "уходи", "иди геть", "برو", "اخرج", "غادر", "vete", "sal de aquí", "vá embora", "saia", "pergi",
			"जाओ", "चले जाओ", "ket", "git", "geh weg", "geh",
		},
		Groups: []string{"all", "everyone", "here", "channel", "agents"},
		Yes:    yesWords, No: noWords, Unclear: unclearWords,
	}
}

// Courtesies may accompany a stop or leave word without changing it.
var (
	stopFillers  = []string{"please", "now", "it", "that", "this"}
	leaveFillers = []string{
		"please", "now", "thanks", "thank", "you", "can", "could", "would", "should", "just", "and", "us", "me",
		"alone",
		"the", "this", "our", "thread", "channel", "chat", "group", "conversation", "room", "topic", "again",
	}
)

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
const questionMarks = "?؟？❓❔⁉"

// EndsWithQuestion reports whether a text asks something at its end or before a last remark. A
// mark within a word belongs to an address or to code.
func EndsWithQuestion(text string) bool {
	spoken := spokenPart(text)
	if strings.ContainsAny(spoken, questionMarks[len("?"):]) {
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
		return r
	}, letters.Replace(strings.ToLower(text)))
	return strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\''
	})
}

// consistsOf reports whether words consists of one or more phrases, and of fillers, only.
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

// leadingPhrase returns the length of the longest phrase that words begins with, or 0.
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
