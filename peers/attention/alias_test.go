package attention_test

import (
	"strings"
	"testing"

	"hubbub/peers/attention"
)

// TestCheckAlias checks which names may be aliases.
func TestCheckAlias(t *testing.T) {
	for name, ok := range map[string]bool{
		"timber": true, "Timber": true, "Vær": true, "build_bot-2": true, "東京": true, "7": true,
		"": false, "@timber": false, "two words": false, "a.b": false, "a:b": false, "a#b": false, "a?": false, "a/b": false, "-": false, "__": false,
		"tim\u200bber": false, "tim\nber": false, "all": false, "Everyone": false, strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		if err := attention.CheckAlias(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestLabels_TouchWordsWithoutSpaces checks labels in scripts that join words, and texts that are
// not labels.
func TestLabels_TouchWordsWithoutSpaces(t *testing.T) {
	for text, want := range map[string]string{
		"你好，@lead你在吗":      "@lead",
		"请@lead看看":         "@lead",
		"@lead님, 안녕하세요":    "@lead",
		"@hubbub_botさんへ":   "@hubbub_bot",
		"@lead.main了吗":     "@lead.main",
		"ช่วย@leadดูหน่อย": "@lead",
		"ל@lead יש שאלה":   "@lead",
		"@小红 你好":           "@小红",
		"@josé, hi":        "@josé",
		"hi@lead":          "",
		"ann@lead.example": "",
		"@lead@mia":        "",
	} {
		got := ""
		for _, l := range attention.Labels(text) {
			got += text[l.From:l.To]
		}
		if got != want {
			t.Errorf("%q has the label %q; want %q", text, got, want)
		}
	}
}
