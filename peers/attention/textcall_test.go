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
		"See [search(\"cats\")](https://a.example), or write [search(\"cats\")] there.",
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
		"[search(\"cats\")]\nA":                                                "A",
		"[search(\"cats\"), search(\"dogs\")]":                                 "",
		"```python\nsearch(\"cats\")  # look\n```\nA":                          "A",
		"search(\"cats\")  # look\nA":                                          "A",
		"```js\nsearch(\"cats\"); // look\n```":                                "",
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

// TestVisibleText_HidesCallsInAnyBlockOfCode has calls in blocks of code of every form, and blocks that call nothing.
func TestVisibleText_HidesCallsInAnyBlockOfCode(t *testing.T) {
	const called = `{"name": "deploy_status", "arguments": {"env": "prod"}}`
	cases := map[string]string{
		"```go\nsearch(\"x\")\n```":                         "```go\nsearch(\"x\")\n```",
		"~~~\n~~~ wavy":                                     "~~~\n~~~ wavy",
		"````md\n```json\n" + called + "\n```\n````\nA":     "````md\n```json\n" + called + "\n```\n````\nA",
		"```{r}\nsearch(\"x\")\n```":                        "```{r}\nsearch(\"x\")\n```",
		"```search\nhow it works\n```":                      "```search\nhow it works\n```",
		"```search\n[1, 2, 3]\n```":                         "```search\n[1, 2, 3]\n```",
		"~~~ so <think>hm</think> it is":                    "~~~ so  it is",
		"```css\n.search { color: red }\n```":               "```css\n.search { color: red }\n```",
		"~~~json\n{\"name\": \"deploy\", \"args\": 1}\n~~~": "~~~json\n{\"name\": \"deploy\", \"args\": 1}\n~~~",
	}
	for _, block := range []string{
		"~~~json\n" + called + "\n~~~", "  ~~~\n" + called + "\n  ~~~", "````json\n" + called + "\n````", "```yml\ntool: search\narguments:\n  query: x\n```",
		"```plain\n" + called + "\n```", "```markdown\n" + called + "\n```", "```json title=\"call\"\n" + called + "\n```", "```" + called + "```",
		"```json " + called + " ```", "```deploy_status\n{\"env\": \"prod\"}\n```", "```call\ndeploy_status(env=\"prod\")\n```", "```ruby\n" + called + "\n```",
		"```xquery\n<deploy_status><env>prod</env></deploy_status>\n```",
	} {
		cases["Ich sehe nach.\n"+block+"\nMoment."] = "Ich sehe nach.\nMoment."
	}
	wantVisible(t, cases)
	for _, body := range []string{"[1, 2, 3]", "42", "{\"a\": 1}"} { // of a program, though a tool has its language's name
		text := "```python\n" + body + "\n```"
		if got := attention.VisibleText(text, "python"); got != text {
			t.Errorf("%q\nbecame %q", text, got)
		}
	}
}

// TestVisibleText_HidesCallsOfEveryAPI has objects of other programs around calls, in their ways to write members.
func TestVisibleText_HidesCallsOfEveryAPI(t *testing.T) {
	cases := map[string]string{}
	for _, call := range []string{
		`{"functionCall": {"name": "search", "args": {"q": "x"}}}`, `{"toolName": "search", "toolInput": {"q": "x"}}`,
		`{"toolCalls": [{"name": "search", "arguments": {}}]}`, `{"tool_use": {"name": "search", "input": {}}}`,
		`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {}}}`,
		`{"name": "call_1", "function": "search", "arguments": {"q": "x"}}`, `{"name": "step", "tool": "search", "args": {}}`,
		`{"choices": [{"message": {"tool_calls": [{"function": {"name": "search", "arguments": "{}"}}]}}]}`,
		`{"content": [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "t", "name": "search", "input": {}}]}`,
		`{"parts": [{"functionCall": {"name": "search", "args": {}}}]}`, `{"thought": "hm", "action": {"name": "search", "args": {}}}`,
		`{"thoughts": {"text": "hm"}, "command": {"name": "search", "args": {}}}`, `{"plan": [{"tool": "search", "args": {}}]}`,
		`{"steps": [{"name": "deploy_status", "input": {}}]}`, `{"name": "chatSendMessage", "arguments": {"text": "x"}}`,
		`{"name": "deployStatus", "parameters": {}}`, `{'toolName': 'deployStatus', 'toolInput': {'env': 'prod'}}`,
		`{"name": "mcp__weather__forecast", "arguments": {}}`, `{"name": "weather.forecast", "arguments": {}}`,
		`<tool>search</tool><args>{"q": "x"}</args>`, "<tool_name>search</tool_name>\n<parameters>{\"q\": \"x\"}</parameters>",
		`<function>deploy_status</function><parameter=env>prod</parameter>`, "<FunctionCall>\n{'tool': 'search', 'arguments': {}}\n</FunctionCall>",
		`<functioncall> {"name": "search", "arguments": '{}'}</functioncall>`, "<execute>\nsearch(query=\"x\")\n</execute>",
		`[search] {"q": "x"}`, `@deploy_status {"env": "prod"}`, `Calling search with {"q": "x"}`, "Using tool `search` with arguments: {\"q\": \"x\"}",
		`Calling "search": {"q": "x"}`, `"search" {"q": "x"}`, "<tool>deploy_status</tool>", " <tool_name>deploy_status</tool_name>\n",
		`Tool call: search {"q": "x"}`, `Running deploy_status with parameters {"env": "prod"}`,
	} {
		cases[call], cases["Секунду.\n"+call] = "", "Секунду."
	}
	wantVisible(t, cases)
	kept := map[string]string{}
	for _, text := range []string{
		`{"name": "search", "description": "d", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}`,
		`[{"type": "function", "function": {"name": "deploy_status", "parameters": {"type": "object", "properties": {}}}}]`,
		`{"services": {"deploy_status": {"ok": true}}}`, `{"commands": [{"name": "search", "args": ["-x"]}]}`,
		`{"result": [{"name": "Ann", "input": 7}]}`, `{"toolName": "hammer", "toolInput": {"kg": 2}}`,
		`Using search with {the web}`, `[deploy] {"env": "prod"}`, `Running search with {"q": "x"} is quick.`,
		"```json\n\"search\": {\"exclude\": true}\n```", `"search": {"exclude": true}`, `'deploy_status': {"q": true}`,
		`I added <tool>deploy_status</tool> to tools.xml.`, `I added <tool_name>deploy_status</tool_name> there.`,
		`<tool>search</tool>`, `<function>sin</function><args>x</args>`, `<p>search</p>`,
	} {
		kept[text] = text
	}
	wantVisible(t, kept)
}

// TestVisibleText_KeepsHTMLAndWordsWithToolNames has elements of HTML and sentences with the names of tools of one word.
func TestVisibleText_KeepsHTMLAndWordsWithToolNames(t *testing.T) {
	cases := map[string]string{
		"<call name=\"search\">{\"q\": 1}</call>A":      "A",
		"<use_tool name=\"search\"><q>x</q></use_tool>": "",
		"Нашёл: search(\"кошки\")":                      "Нашёл:",
		"search(\"猫\")":                                 "",
		"<search query=\"x\"/>":                         "",
	}
	for _, text := range []string{
		`<input name="search">`, `<form name="search" action="/x">`, `<meta name="search" content="x">`, `<a name="search">x</a>`,
		`<button name="deploy_status">x</button>`, `<xs:element name="search" type="x"/>`, `<search class="top">x</search>`,
		"```html\n<search>\n  <form><input name=\"q\"></form>\n</search>\n```", "<search>\n<p>x</p>\n</search>",
		`Type search("cats") in the box.`, `Tapez search("chats"), puis Entrée.`, `Gib search("Katzen") ein.`, `先输入search("猫")，再回车。`,
		`In the shell, search("x") and search('y') are the same.`,
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
}
