package tg

import "strings"

// reactionOf maps signals to the emoji that show them. Telegram accepts 73
// emoji as reactions; of the usual ones for signals it takes only two.
var reactionOf = map[string]string{
	"seen":     "👀",
	"agree":    "👍",
	"working":  "👨‍💻",
	"queued":   "✍",
	"claimed":  "🫡",
	"done":     "👌",
	"declined": "🤷",
	"blocked":  "😨",
	"unclear":  "🤔",
}

// signalOf returns the signal that a person's reaction gives, empty for emoji
// without a meaning. Variation selectors and genders do not matter.
func signalOf(emoji string) string {
	plain, _, _ := strings.Cut(strings.ReplaceAll(emoji, "\ufe0f", ""), "\u200d♂")
	plain, _, _ = strings.Cut(plain, "\u200d♀")
	for signal, e := range reactionOf {
		if e == plain {
			return signal
		}
	}
	return ""
}
