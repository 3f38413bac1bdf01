package attention

import (
	"slices"
	"strings"
	"sync"
	"unicode"
)

// An Answer is what a text says in answer to a question that takes yes or no.
type Answer string

// The answers. Only AnswerYes and AnswerNo decide anything.
const (
	AnswerYes     Answer = "yes"
	AnswerNo      Answer = "no"
	AnswerUnclear Answer = "unclear" // it tries to answer: maybe, yes?, not yet
	AnswerOther   Answer = "other"   // it says something else, possibly in addition to an answer

	// answerStop is a stop word. Next to a no, it means no; alone, it stops what is running.
	answerStop Answer = "stop"
)

// Emoji that answer alone, and those that change no answer in words. Skin tones do not matter.
const (
	yesEmoji      = "👍👌✅☑✔🆗🙆💯"
	noEmoji       = "👎❌✖🚫⛔🙅🛑"
	unclearEmoji  = "🤷🤔🙄😬😐✋"
	neutralEmoji  = "🙂😊😀😃😄😁🤗🥳🤩🙏🙌🤝👏🫡🎉🎊✨🌟⭐🚀❤🧡💛💚💙💜💪🤙"
	emojiVariants = "\ufe0f\u200d♂♀🏻🏼🏽🏾🏿"
)

// maxAnswer limits an answer in bytes.
const maxAnswer = 200

// An AnswerReader reads answers by a set of words.
type AnswerReader struct {
	phrases func() answerPhrases // most agents never read an answer
}

type answerPhrases struct {
	answers  map[string]Answer // by the words of the phrase; "" is a courtesy
	refusals map[string]bool   // phrases for no that a no before them negates
	words    map[string]bool   // of the phrases
	longest  int               // phrase, in words
}

// NewAnswerReader returns the reader for Words.Yes, Words.No, Words.Unclear and Words.Stop. If a phrase is
// in several lists, the more careful meaning counts.
func NewAnswerReader(w *Words) *AnswerReader {
	words := *w
	return &AnswerReader{phrases: sync.OnceValue(func() answerPhrases { return newAnswerPhrases(&words) })}
}

func newAnswerPhrases(w *Words) answerPhrases {
	p := answerPhrases{answers: map[string]Answer{}, words: map[string]bool{}, refusals: map[string]bool{}}
	for _, phrase := range defaultWords().Refusals {
		p.refusals[strings.Join(tokens(phrase), " ")] = true
	}
	for _, list := range []struct {
		phrases []string
		answer  Answer
	}{
		{w.Stop, answerStop},
		{defaultWords().Courtesies, ""},
		{w.Yes, AnswerYes},
		{w.No, AnswerNo},
		{w.Unclear, AnswerUnclear},
	} {
		for _, phrase := range list.phrases {
			words := tokens(phrase)
			p.answers[strings.Join(words, " ")] = list.answer
			p.longest = max(p.longest, len(words))
			for _, word := range words {
				p.words[word] = true
			}
		}
	}
	return p
}

// Read reads a clear yes or no. Every word and every sign of the text must be known: a condition,
// a question, a quotation, a correction, a struck or a drawled word makes the answer unclear. The
// caller checks whom the text answers; labels are ignored.
func (r *AnswerReader) Read(text string) Answer {
	if len(text) > maxAnswer {
		return AnswerOther
	}
	text = plainSigns.Replace(innerTick().ReplaceAllString(text, "$1'$2"))
	text = italics().ReplaceAllString(bold().ReplaceAllString(text, "$1"), "$1$2$3")
	text, doubt := takeFaces(withoutLabels(text))
	text, found, clear := takeEmoji(text)
	if strings.Contains(text, "..") {
		clear = false // hesitation
	}
	words := tokens(text)
	for i, word := range words {
		var drawled bool
		words[i], drawled = r.shorten(word)
		doubt = doubt || drawled
	}
	if len(words) == 1 && exclaimed[words[0]] != "" && strings.Contains(text, exclaimed[words[0]]) {
		clear = false
	}
	contrary := slices.Contains(found, AnswerYes) || slices.Contains(found, AnswerUnclear) // emoji
	all, starts, last := words, clauseStarts(text), Answer("")
	for len(words) > 0 {
		n, answer := r.leading(words)
		if n == 0 {
			if clear && !contrary && r.denies(all) { // by other phrases: "nein, nicht nötig" has "nein nicht"
				return AnswerNo
			}
			return AnswerOther
		}
		if answer != "" {
			found = append(found, answer)
		}
		if last == AnswerNo && !starts[len(all)-len(words)] &&
			(answer == answerStop || r.phrases().refusals[strings.Join(words[:n], " ")]) {
			clear = false // "don't stop" asks to go on
		}
		last = answer
		for i := 1; i < n; i++ { // another reading: "of course yeah right"
			if longer, other := r.leading(words[i:]); longer > n-i && other != "" && other != AnswerYes {
				found = append(found, other)
			}
		}
		words = words[n:]
	}
	stops := slices.Contains(found, answerStop)
	found = slices.DeleteFunc(found, func(a Answer) bool { return a == answerStop })
	switch {
	case len(found) == 0:
		return AnswerOther
	case !clear || stops && found[0] != AnswerNo || doubt && found[0] == AnswerYes ||
		slices.ContainsFunc(found, func(a Answer) bool { return a != found[0] }):
		return AnswerUnclear
	}
	return found[0]
}

// clauseStarts returns the indexes of the words that begin a clause: the first word of a text, and those after
// punctuation or a line break.
func clauseStarts(text string) map[int]bool {
	starts, n := map[int]bool{}, 0
	for _, clause := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(clauseEnds, r) }) {
		starts[n] = true
		n += len(tokens(clause))
	}
	return starts
}

// denies reports whether words consist of phrases of a no and of courtesies, and no division of all of them
// into phrases has another answer.
func (r *AnswerReader) denies(words []string) bool {
	phrases := r.phrases()
	const no, other, divisions = 1, 2, 4 // what a division contains
	reached := make([][divisions]bool, len(words)+1)
	reached[0][0] = true
	for from := range words {
		for to := from + 1; to <= min(len(words), from+phrases.longest); to++ {
			answer, known := phrases.answers[strings.Join(words[from:to], " ")]
			if !known {
				continue
			}
			has := map[Answer]int{AnswerNo: no, AnswerYes: other, AnswerUnclear: other}[answer]
			for before, ok := range reached[from] {
				reached[to][before|has] = reached[to][before|has] || ok
			}
		}
	}
	end := reached[len(words)]
	return end[no] && !end[other] && !end[no|other]
}

// exclaimed maps words for yes to the sign that makes them an exclamation in another language: "ha!" is
// laughter in English, "¡ya" is "enough" in Spanish.
var exclaimed = map[string]string{"ha": "!", "xa": "!", "ya": "¡"}

// shorten returns a word as it is spelled if letters of it are repeated: "daaa". drawled reports
// whether they are within the word, as in "suuure", which may express doubt.
func (r *AnswerReader) shorten(word string) (spelled string, drawled bool) {
	known := r.phrases().words
	if known[word] {
		return word, false
	}
	var short []rune
	for letters := []rune(word); len(letters) > 0; {
		n := slices.IndexFunc(letters, func(letter rune) bool { return letter != letters[0] })
		ending := n < 0
		if ending {
			n = len(letters)
		}
		if repeated := n > 2 || ending && n > 1; repeated {
			short, drawled = append(short, letters[0]), drawled || !ending
		} else {
			short = append(short, letters[:n]...)
		}
		letters = letters[n:]
	}
	if spelled = string(short); len(short) > 1 && known[spelled] && exclaimed[spelled] == "" {
		return spelled, drawled
	}
	return word, false
}

// leading returns the length of the longest known phrase at the beginning of words, and its
// meaning.
func (r *AnswerReader) leading(words []string) (n int, answer Answer) {
	phrases := r.phrases()
	for n = min(phrases.longest, len(words)); n > 0; n-- {
		if answer, known := phrases.answers[strings.Join(words[:n], " ")]; known {
			return n, answer
		}
	}
	return 0, ""
}

// plainSigns replaces the sign of Chinese and Japanese keyboards that changes an answer; see exclaimed.
var plainSigns = strings.NewReplacer("！", "!")

// Marks of words that a chat shows in bold or italics. Struck and hidden words have others.
var (
	bold    = compiled(`\*\*([^*\n]+)\*\*`)
	italics = compiled(`(^|[^\pL\pN_])_([^_\n]+)_($|[^\pL\pN_])`)
)

// innerTick matches a backquote or an acute accent that stands for an apostrophe within a word.
var innerTick = compiled("(\\pL)[`´](\\pL)")

// Faces made of punctuation. A bracket is also one if the text has no bracket of the other kind.
var (
	smile    = compiled(`[:=]['’-]?(?:\)+|D\b)|\^\^|\)+`)
	frown    = compiled(`[:=]['’-]?\(+|\(+`)
	doubtful = compiled(`;['’-]?\)|;-?;|-\.-`) // a wink, tears, closed eyes
)

// takeFaces removes the faces from a text. doubt reports whether one of them makes a yes unclear.
func takeFaces(text string) (rest string, doubt bool) {
	switch {
	case !strings.Contains(text, "("):
		return smile().ReplaceAllString(text, " "), doubtful().MatchString(text)
	case !strings.Contains(text, ")"):
		return frown().ReplaceAllString(text, " "), true
	}
	return text, false
}

// takeEmoji removes the known emoji from a text and returns what they answer. clear reports
// whether the text contains only letters and ordinary punctuation.
func takeEmoji(text string) (rest string, found []Answer, clear bool) {
	var b strings.Builder
	clear = true
	for _, r := range text {
		switch {
		case strings.ContainsRune(emojiVariants, r), strings.ContainsRune(neutralEmoji, r):
			b.WriteByte(' ')
			continue
		case strings.ContainsRune(yesEmoji, r):
			found = append(found, AnswerYes)
		case strings.ContainsRune(noEmoji, r):
			found = append(found, AnswerNo)
		case strings.ContainsRune(unclearEmoji, r):
			found = append(found, AnswerUnclear)
		case isPlainLetter(r), strings.ContainsRune(answerPunctuation, r):
			b.WriteRune(r)
			continue
		default:
			clear = false
		}
		b.WriteByte(' ')
	}
	return b.String(), found, clear
}

// answerPunctuation may occur in an answer without changing it. U+200C joins words in Persian.
const answerPunctuation = ".,!;-–—،؛۔।。！，、¡'’‘ʻʼ\u200c"

// clauseEnds are the line break and those of answerPunctuation that do not belong to words.
const clauseEnds = "\n.,!;-–—،؛۔।。！，、¡"

// spellingMarks are the combining accents of spelling. Others, such as those that strike a word
// through, change what it says.
const spellingMarks = "\u0300\u0301\u0302\u0303\u0306\u0307\u0308\u030a\u0327"

// isPlainLetter reports whether a rune belongs to a word or separates words.
func isPlainLetter(r rune) bool {
	switch {
	case r >= 0x300 && r <= 0x36f:
		return strings.ContainsRune(spellingMarks, r)
	case unicode.In(r, unicode.Me):
		return false
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == ' ' || r == '\n' || r == '\t' ||
		r == '\u00a0' || r == '\u3000'
}
