package bridge

import "testing"

// TestIsQuestion_KeepsHurriedStops checks that words such as "all" and "at once" leave a stop a stop in any language, and
// that other words make a message of it.
func TestIsQuestion_KeepsHurriedStops(t *testing.T) {
	for _, words := range []string{
		"", "immediately!", "at once", "right away!", "everything straight away, please", "alle sofort", "alles, bitte", "todo ahora mismo", "tudo agora mesmo, por favor", "всё!", "все немедленно",
		"прямо сейчас", "всі негайно", "همه الان", "الكل فورا", "semua sekarang", "सब अभी", "hammasi darhol", "hepsi hemen", "tutti subito",
	} {
		if IsQuestion("/stop", words) {
			t.Errorf("%q makes a message of a stop", words)
		}
	}
	for _, words := range []string{
		"sending me news", "the music at ten", "mit den Emojis", "de responder en inglés", "присылать новости", "çeviri yapmayı", "推送新闻",
	} {
		if !IsQuestion("/stop", words) {
			t.Errorf("%q is lost in a stop", words)
		}
	}
}
