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
		"The function search(words: string) takes text; search(words) finds it.",
		"search(words, limit)",
		"```python\nsearch(words)\n```",
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
		"```python\nask(\"Why?\", who=\"human:7\")\n```":                       "",
		"```python\nchat_send_message(\"hi\")\n```":                            "",
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

// TestVisibleText_KeepsCallsOfOtherChats covers programs that call functions of another chat.
func TestVisibleText_KeepsCallsOfOtherChats(t *testing.T) {
	for _, text := range []string{
		"Then call it:\n```python\nchat.invoke(messages)\n```",
		"```js\nconst result = await chat.sendMessage(\"Hi\");\nconsole.log(result);\n```",
		"```js\nconst reply = await chat.sendMessage({ message: \"Hi\" });\n```",
		"```python\nresponse = chat_completion(\"Hello\")\nprint(response)\n```",
		"```python\nchat_reply(text=\"hello there\")\n```",
		"Call it on a line of its own:\nchat.invoke(messages)\nThen read the result.",
		"chat_completion(\"Hello\")",
		"chat_completion(model=\"m\", messages=[])",
		"chat.completions.create(model=\"m\")",
		"response = chat_reply(text=\"hello\")",
		"const r = await chat.sendMessage({ message: \"Hi\" });",
		"`chat_reply(text=\"hello there\")`",
		"chat_init()",
	} {
		if got := attention.VisibleText(text, ownTools...); got != text {
			t.Errorf("%q\nbecame %q", text, got)
		}
	}
	wantVisible(t, map[string]string{
		"chat_reply(text=\"hello there\")":                             "",
		"chat.respond({ \"text\": \"hello\" })\nA":                     "A",
		"await chat.answer({ inReplyTo: \"e1\" });":                    "",
		"Sure.\nchat_acknowledge(event_id=\"e1\")":                     "Sure.",
		"chat_post_reply(in_reply_to=\"e1\", text=\"hello\")":          "",
		"chat_reply(text=\"cut":                                        "",
		"```python\nr = chat.send_message(text=\"hi\")\nprint(r)\n```": "",
		"```\nchat.react(signal=\"done\")\n```":                        "",
	})
}
