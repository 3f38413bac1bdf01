package bridge

import "testing"

// TestParseHalt_ReadsPeople checks that signs and courtesies after a command do not change it, and that other words
// make a message of it.
func TestParseHalt_ReadsPeople(t *testing.T) {
	for text, want := range map[string]string{
		"/halt": "on", "/HALT!": "on", " /halt now ": "on", "/halt, please!": "on", "/halt\nall": "on", "/resume": "off",
		"/resume please.": "off", "/resume\tagora": "off", "/halt the build": "", "/haltet": "", "halt": "", "/": "", "": "",
		"/stop": "", "/resume of Ann": "", "/ halt": "",
	} {
		if got := ParseHalt("/", text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

// TestIsQuestion_AllowsFillersAfterStop checks that words such as "all" and "at once" do not change a stop in any
// language, and that other words make a message of it.
func TestIsQuestion_AllowsFillersAfterStop(t *testing.T) {
	for _, words := range []string{
		"", "immediately!", "at once", "right away!", "everything straight away, please", "for now", "working, please", "for a moment", "alle sofort", "alles, bitte", "todo ahora mismo", "tudo agora mesmo, por favor", "всё!", "все немедленно",
		"прямо сейчас", "всі негайно", "همه الان", "الكل فورا", "semua sekarang", "सब अभी", "hammasi darhol", "hepsi hemen", "tutti subito",
	} {
		if IsQuestion("/stop", words) {
			t.Errorf("%q makes a message of a stop", words)
		}
	}
	for _, words := range []string{
		"sending me news", "working on the release", "for the others", "the music at ten", "mit den Emojis", "de responder en inglés", "присылать новости", "çeviri yapmayı", "推送新闻",
	} {
		if !IsQuestion("/stop", words) {
			t.Errorf("%q is lost in a stop", words)
		}
	}
}
