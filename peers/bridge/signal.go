package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Glyphs are the emoji of signals. A bridge has the emoji that its chat system accepts.
type Glyphs map[string]string

// Signals are the signals that agents may send, in the order of the drafts of C2A.
var Signals = []string{"seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear"}

// plainEmoji removes variation selectors, skin tones and genders.
var plainEmoji = strings.NewReplacer("\ufe0f", "", "\ufe0e", "", "\u200d♂", "", "\u200d♀", "",
	"🏻", "", "🏼", "", "🏽", "", "🏾", "", "🏿", "")

// emojiAliases are further emoji that people use for a signal.
var emojiAliases = map[string]string{
	"👍": "agree", "👌": "agree", "💯": "agree", "🆗": "agree", "🙆": "agree", "☑": "agree", "✔": "agree",
	"👎": "declined", "🙅": "declined", "❌": "declined", "✖": "declined", "🚫": "declined", "⛔": "declined",
	"✅": "done", "❓": "unclear", "❔": "unclear",
}

// SignalOf returns the signal that an emoji means, or "".
func (g Glyphs) SignalOf(emoji string) string {
	plain := plainEmoji.Replace(emoji)
	for signal, glyph := range g {
		if plainEmoji.Replace(glyph) == plain {
			return signal
		}
	}
	return emojiAliases[plain]
}

// With returns a copy of the glyphs in which others replace those of the same signals.
func (g Glyphs) With(others Glyphs) Glyphs {
	all := maps.Clone(g)
	maps.Copy(all, others)
	return all
}

// ParseGlyphs parses emoji for signals, such as working=🔥.
func ParseGlyphs(list []string) (Glyphs, error) {
	glyphs := Glyphs{}
	for _, given := range list {
		signal, emoji, _ := strings.Cut(given, "=")
		if !slices.Contains(Signals, signal) || emoji == "" {
			return nil, fmt.Errorf("%q is not of the form SIGNAL=EMOJI with one of the signals %s", given,
				strings.Join(slices.Sorted(slices.Values(Signals)), ", "))
		}
		glyphs[signal] = emoji
	}
	return glyphs, nil
}
