package attention_test

import (
	"testing"

	"hubbub/peers/attention"
)

// wordTools are tools whose names are words of sentences.
var wordTools = []string{"ask", "owe", "blocking", "search"}

// TestVisibleText_KeepsWordsThatNameTools covers sentences with the name of a tool as an ordinary word.
func TestVisibleText_KeepsWordsThatNameTools(t *testing.T) {
	for _, text := range []string{
		"You owe (total: 20 €) to Ann.",
		"You owe (\"as agreed\") 5 € to Ann, and owe (since: May) 3 € to Bo.",
		"Then ask (note: politely) for the bill.",
		"If a child says nothing, ask (\"What happened?\") and wait.",
		"Ask (\"What happened?\")\nand wait.",
		"Steps:\nSearch (optional)\nRead",
		"Blocking (synchronous)\nThe caller waits.",
		"Ask (price: 101), bid (price: 100)",
		"What do I owe (\"including tax",
		"[ask (\"What happened?\")] is the first step, [search (beta)](https://a.example) the second.",
		"Use re.search(\"a+\", s) or $this->search(\"a\").",
		"Set <blocking>true</blocking> in the pom.",
		"HTML has <search>, <dialog> and <time>.",
		"```xml\n<blocking>true</blocking>\n```",
	} {
		if got := attention.VisibleText(text, wordTools...); got != text {
			t.Errorf("%q\nbecame %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"Sure. ask(question=\"Why?\", who=\"human:7\")":                        "Sure.",
		"ask (question=\"Why?\")":                                              "",
		"search ({\"query\": \"x\"})\nA":                                       "A",
		"search(\"x\")":                                                        "",
		"Looking: search(query: \"x\")":                                        "Looking:",
		"functions.search(\"x\")":                                              "",
		"[search(query=\"x\")]":                                                "",
		"<search><query>x</query></search>":                                    "",
		"<search>\n{\"query\": \"x\"}\n</search>A":                             "A",
		"<ask question=\"Why?\"/>A":                                            "A",
		"```\nask(question=\"Why?\")\n```":                                     "",
		"I do: chat_send_message (text=\"hi\")":                                "I do:",
		"It is 4, so I call chat.react (\"done\") at once.":                    "It is 4, so I call at once.",
		"```python\nanswer = await ask(question=\"Why?\")\nprint(answer)\n```": "",
	} {
		if got := attention.VisibleText(text, wordTools...); got != want {
			t.Errorf("%q\nbecame %q\nwant   %q", text, got, want)
		}
	}
}
