package bridge

import "testing"

// TestSignalOf_ReadsTheEmojiOfPeople checks emoji with skin tones and variants, and others with the same meaning.
func TestSignalOf_ReadsTheEmojiOfPeople(t *testing.T) {
	glyphs := Glyphs{"agree": "👍", "working": "👨‍💻", "done": "✅", "declined": "🙅", "unclear": "🤔"}
	for emoji, want := range map[string]string{
		"👍": "agree", "👍🏽": "agree", "👍🏿": "agree", "👍️": "agree", "👌": "agree", "👌🏻": "agree", "💯": "agree", "🆗": "agree",
		"☑️": "agree", "✔️": "agree", "✔": "agree", "🙆🏼‍♀️": "agree", "✅": "done",
		"👎": "declined", "👎🏾": "declined", "🙅🏽‍♀️": "declined", "🙅‍♂️": "declined", "❌": "declined", "✖️": "declined", "⛔": "declined",
		"🤔": "unclear", "❓️": "unclear", "👨🏽‍💻": "working",
		"❤️": "", "🎉": "", "🤞🏽": "", "👏": "", "🔥": "", "🖕🏽": "", "👍👎": "", "👍👍": "", "🏽": "", "": "", "custom emoji 👍": "",
	} {
		if got := glyphs.SignalOf(emoji); got != want {
			t.Errorf("%q means %q; want %q", emoji, got, want)
		}
	}
	if got := (Glyphs{"done": "👌", "agree": "👍"}).SignalOf("👌🏽"); got != "done" {
		t.Errorf("the emoji of a signal means %q; want done", got)
	}
}
