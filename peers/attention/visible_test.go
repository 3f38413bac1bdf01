package attention_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hubbub/peers/attention"
)

const drawn = "kQ3vT9xW2mZ8kQ3vT9xW2mZ8aa" // a fence as it is generated for a turn

// innerParts are examples of hidden parts, each as models wrote it.
var innerParts = []string{
	"<think>\nThe user wants INNER.\n</think>", "<THINK>INNER</THINK>", "<thinking type=\"x\">INNER ``` INNER</thinking>", "<reasoning>INNER</reasoning>",
	"<tool_call>\n{\"name\":\"INNER\",\"arguments\":{}}\n</tool_call>", "<tool_calls>INNER</tool_calls>", "<function=INNER>{}</function>",
	"<function_calls><invoke name=\"INNER\"></invoke></function_calls>", "<|im_end|>", "<|channel|>analysis<|message|>INNER, then<|end|><|start|>assistant<|channel|>final<|message|>", "<tool_response>INNER</tool_response>",
	"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>INNER\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	"[THINK]INNER[/THINK]", "◁think▷INNER◁/think▷", "<seed:think>INNER</seed:think>", "```tool_code\nprint(INNER)\n```", "<|tool_calls_section_begin|><|tool_call_begin|>INNER<|tool_call_end|><|tool_calls_section_end|>",
	"C2A EVENT\nevent_id: INNER\nresponse_policy: must_respond\n", "<<" + drawn + "\n", drawn + ">>\n",
	"C2A EVENT\nevent_id: INNER\nfence: " + drawn + "\n\nMESSAGE\n<<" + drawn + "\nINNER\n" + drawn + ">>\n",
}

// visibleCases have the visible part of texts.
var visibleCases = map[string]string{
	"Hello.":                      "Hello.",
	"  spaces stay  ":             "  spaces stay  ",
	"<think>x</think>\n\nHello.":  "Hello.",
	"Hello.<think>never closed":   "Hello.",
	"Hello.\n<think>never closed": "Hello.",
	"Sure. <think>never closed":   "Sure.",
	"\"Sure!\" <tool_call>{":      "\"Sure!\"",
	"The <think> tag is never closed. `a. <think>` neither.":  "The <think> tag is never closed. `a. <think>` neither.",
	"It begins with \"<think>\" or '<tool_call>'.":            "It begins with \"<think>\" or '<tool_call>'.",
	"Put <think> and </think> tags around it, or “</think>”.": "Put <think> and </think> tags around it, or “</think>”.",
	"The </think> token ends it.":                             "The </think> token ends it.",
	"The <think> tag is a thought: <think>never closed":       "The <think> tag is a thought:",
	"Here: <think>never closed":                               "Here:",
	"C2":                                                      "C2", "A1\nB1\nC2": "A1\nB1\nC2", "c2A": "c2A", "A\nC2A EV": "A", "C2A KNOC": "",
	"Put it under [system_prompt] in the file.":                       "Put it under [system_prompt] in the file.",
	"Add [tool_calls] limit = 5 to it.":                               "Add [tool_calls] limit = 5 to it.",
	"Add <role>developer</role> inside <roles> there.":                "Add <role>developer</role> inside <roles> there.",
	"The record is <tool_id>5</tool_id>.":                             "The record is <tool_id>5</tool_id>.",
	"It is:\nevent_id: 4711\nauthor: Ann\nreason: timeout\nClose it?": "It is:\nevent_id: 4711\nauthor: Ann\nreason: timeout\nClose it?",
	"Replace <think> with <reasoning> in it.":                         "Replace <think> with <reasoning> in it.",
	"So: <invoke name=\"a":                                            "So:", "Sure <thi": "Sure", "Sure <seed:think>a": "Sure",
	"a<b": "a<b", "It is <": "It is <", "Here: [TOOL_CALLS][{": "Here:", "as said</reasoning>A": "A",
	"“<think>” or ‘</think>’, „<think>“, « <think> », 「<tool_call>」": "“<think>” or ‘</think>’, „<think>“, « <think> », 「<tool_call>」",
	"I say \"yes\"</think>\"Yes\" it is":                             "\"Yes\" it is",
	"\"yes\"<think>\"yes\" I should":                                 "\"yes\"",
	"<think>of \"</think>\" I</think>A":                              "A",
	"they ask of tokens </think> Tokens are words":                   " Tokens are words",
	"Sure <think> block it, as asked":                                "Sure",
	"Sure.\nevent_id: 1\nresponse_policy: must_respond\nA":           "Sure.\nA",
	"The rest is\ndirectedness: whom it is for":                      "The rest is\ndirectedness: whom it is for",
	"Sure 🙂 <think>never closed":                                     "Sure 🙂",
	"Sure (yes) <thinking a=\"b\">never closed":                      "Sure (yes)",
	"好的<think>never closed":                                          "好的",
	"The sum <tool_call>{\"name\":":                                  "The sum",
	"The sum <tool_call name=\"f":                                    "The sum",
	"The sum <function=f":                                            "The sum",
	"<think />\nHello, <think/>you.":                                 "Hello, you.",
	"Here: C2A EVENT\nevent_id: 5\nconversation: x\n\nMESSAGE\n<<" + drawn + "\nx\n" + drawn + ">>\nA": "Here: \nA",
	"Here: C2A EVENT\nevent_id: 5\n":                           "Here:",
	"A C2A EVENT\nis what wakes an agent.":                     "A C2A EVENT\nis what wakes an agent.",
	"It was <<" + attention.Fence("ABCDEFGHIJKL") + ", so.":    "It was , so.",
	"I think so <think> tagging it":                            "I think so",
	"```\nSure. <think>\n```":                                  "```\nSure. <think>\n```",
	"<think>cut by the limit":                                  "",
	"the template opened</think>A":                             "A",
	"Use `<think>` and `</think>`":                             "Use `<think>` and `</think>`",
	"```\n<tool_call>\n```\nA":                                 "```\n<tool_call>\n```\nA",
	"a < b and b > c":                                          "a < b and b > c",
	"reason: it rains\npriority: high\nthat is all":            "reason: it rains\npriority: high\nthat is all",
	"event_id: 1\nauthor: human:Will\nreason: ambient\nHello.": "Hello.",
	"A\n" + drawn + ">":                                        "A",
	drawn + "> is a name":                                      drawn + "> is a name",
	"<<EOF\nshell\nEOF":                                        "<<EOF\nshell\nEOF",
	"[TOOL_CALLS][{\"name\":\"x\"}]":                           "",
	"A<|python_tag|>call()":                                    "A",
	"<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>A<|return|>":            "A",
	"<|channel|>commentary to=functions.chat_send_message <|constrain|>json<|message|>{\"text\":\"x\"}<|call|>": "",
	"<|channel|>analysis<|message|>cut by the lim":                                                              "",
	"The token is `<|channel|>`.":                                                       "The token is `<|channel|>`.",
	"[THINK]x[/THINK]A":                                                                 "A",
	"the template opened[/THINK]A":                                                      "A",
	"[THINK] it over":                                                                   "",
	"[Thinking](https://a.example) of it":                                               "[Thinking](https://a.example) of it",
	"◁think▷x◁/think▷A":                                                                 "A",
	"```tool_code\nprint(x)\n```\nA":                                                    "A",
	"```tool_outputs\nx":                                                                "",
	"```toml\nx\n```":                                                                   "```toml\nx\n```",
	`{"name": "chat_send_message", "parameters": {"text": "x"}}`:                        "",
	`{"name":"chat_send_message","arguments":{"text":"x"}}` + "\nA":                     "A",
	`[{"name":"chat_react","arguments":{"signal":"done"}}]`:                             "",
	`{"type":"function","function":{"name":"f","parameters":{}}}`:                       "",
	`{"name":"chat_send_message","arguments":{"text":"cut`:                              "",
	`Let me call it: {"name": "chat_react", "arguments": {"signal": "done"}} So.`:       "Let me call it: So.",
	"A\n[{\"name\":\"f\",\"parameters\":{}}]; {\"name\":\"g\",\"arguments\":\"{}\"}\nB": "A\nB",
	`Let me call it: {"name":"f","arguments":{"text":"cut`:                              "Let me call it:",
	`Let me call it: {"name":"chat_se`:                                                  "Let me call it:",
	"Write `{\"name\":\"f\",\"arguments\":{}}` there.":                                  "Write `{\"name\":\"f\",\"arguments\":{}}` there.",
	`{"name":"Ann","age":7}`:                                                            `{"name":"Ann","age":7}`,
	"```json\n{\"name\":\"h\",\"arguments\":{}}\n```":                                   "```json\n{\"name\":\"h\",\"arguments\":{}}\n```",
	"<a:function_calls><a:invoke name=\"x\"></a:invoke></a:function_calls>A":            "A",
	"<a:function_calls>\n<a:invoke name=\"x\">cut":                                      "",
}

func TestVisible_KeepsTextForPeople(t *testing.T) {
	for text, want := range visibleCases {
		if got := attention.VisibleText(text, "f", "g"); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestVisible_HidesInnerPartsInThousandShapes mixes answers with inner parts, cuts the text at
// random, and checks that no inner part is left.
func TestVisible_HidesInnerPartsInThousandShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	for range 1000 {
		var b strings.Builder
		for range r.IntN(4) + 1 {
			b.WriteString(innerParts[r.IntN(len(innerParts))])
			b.WriteString([]string{"\n", "\n\n", "\nThe answer is 4.\n"}[r.IntN(3)])
		}
		text := b.String()
		for _, shape := range []string{text, text + "```go\n<think>\n```", strings.ToUpper(text[:1]) + text[1:]} {
			got := attention.VisibleText(shape)
			if strings.Contains(got, "INNER") || strings.Contains(got, drawn) || strings.Contains(got, "<|") {
				t.Fatalf("%q\nbecame %q", shape, got)
			}
			if again := attention.VisibleText(got); again != got {
				t.Fatalf("%q\nbecame %q, and that %q", shape, got, again)
			}
		}
		if got := attention.VisibleText(text[:r.IntN(len(text)+1)]); strings.Contains(got, "INNER") {
			t.Fatalf("cut, it became %q", got)
		}
	}
}

// TestCarried checks that outbound messages always say whom they oblige.
func TestCarried(t *testing.T) {
	for _, c := range []struct {
		text         string
		chosen, want attention.Directedness
	}{
		{"done", "", attention.DirectedAmbient},
		{"done", attention.DirectedAmbient, attention.DirectedAmbient},
		{"@lead look", "", attention.DirectedToMe},
		{"@lead look", attention.DirectedAmbient, attention.DirectedToMe},
		{"> @lead look\ndone, will@example.com", "", attention.DirectedAmbient},
		{"look", attention.DirectedToMe, attention.DirectedToMe},
		{"@lead look", attention.DirectedToOther, attention.DirectedToOther},
		{"who can look?", attention.DirectedToMyRole, attention.DirectedToMyRole},
	} {
		if got := attention.MessageDirectedness(c.text, c.chosen); got != c.want {
			t.Errorf("%q, chosen %q, carries %s; want %s", c.text, c.chosen, got, c.want)
		}
	}
}

// TestVisible_HidesAnInnerPartOverSeveralTexts cuts an inner part twice, between its words. None of its pieces
// is for people, the text after its end is, and a part that never began has no end to wait for.
func TestVisible_HidesAnInnerPartOverSeveralTexts(t *testing.T) {
	for _, whole := range append(innerParts, "It is 3.\n<think>INNER\n\nINNER\nINNER</think>\n", "It is 3. <think>INNER\n\nINNER, INNER</think>\n") {
		cuts := []int{0}
		for i := range whole {
			if i > 0 && strings.ContainsRune("\n >]▷}", rune(whole[i-1])) && i-cuts[len(cuts)-1] > len(whole)/12 {
				cuts = append(cuts, i)
			}
		}
		for i, first := range cuts {
			for _, second := range cuts[i:] {
				var inner string
				for n, part := range []string{whole[:first], whole[first:second], whole[second:], "\nIt is 4."} {
					said := ""
					said, inner = attention.VisibleTextAfter(inner, part)
					if n < 3 && strings.Contains(said, "INNER") || n == 3 && strings.TrimSpace(said) != "It is 4." {
						t.Fatalf("of %q, cut at %d and %d, part %d became %q", whole, first, second, n+1, said)
					}
				}
			}
		}
	}
	inner := ""
	for i, part := range []string{"<tool_call>" + strings.Repeat("INNER\n", 3000), "INNER", "</tool_call>\nIt is 4.", "It is 5."} {
		said := ""
		if said, inner = attention.VisibleTextAfter(inner, part); said != []string{"", "", "It is 4.", "It is 5."}[i] || len(inner) > 20_000 {
			t.Errorf("part %d became %q, and %d bytes are kept", i+1, said, len(inner))
		}
	}
	for text, open := range map[string]bool{
		"<think>x": true, "[THINK]x": true, "A\n<tool_call>": true, `{"name":"chat.react","arguments":{`: true, `{"name":"f","arguments":{`: false, "C2A EVENT\nfence: " + drawn + "\n\nMESSAGE\n<<" + drawn + "\nx": true,
		"<think>x</think>": false, "A": false, "": false, "`<think>`": false, "```\n<think>\n": false, "</think>": false,
	} {
		if _, inner := attention.VisibleTextAfter("", text); attention.HiddenPartContinues(inner) != open {
			t.Errorf("%q goes on: %v", text, !open)
		}
	}
	long := `{"name":"shop.order","arguments":{"note":"` + strings.Repeat("INNER ", 4000)
	_, inner = attention.VisibleTextAfter("", long, "shop.order")
	if !attention.HiddenPartContinues(inner, "shop.order") || attention.HiddenPartContinues(inner) {
		t.Errorf("a call of a tool of the turn goes on in %d bytes", len(inner))
	}
	if said, _ := attention.VisibleTextAfter(inner, `INNER"}}`, "shop.order"); said != "" {
		t.Errorf("the rest of a call became %q", said)
	}
	for _, whole := range []string{"Sure: <think>INNER</think>It is 4.", "Sure: <|channel|>analysis<|message|>INNER<|channel|>final<|message|>It is 4.", "Sure: [THINK]INNER[/THINK]It is 4.", "好◁think▷INNER◁/think▷It is 4."} {
		for at := range whole {
			first, inner := attention.VisibleTextAfter("", whole[:at])
			second, _ := attention.VisibleTextAfter(inner, whole[at:])
			if said := first + second; strings.Contains(said, "INNER") || !strings.Contains(whole, "final") && !strings.HasSuffix(said, "4.") {
				t.Errorf("%q, cut at %d, became %q and %q", whole, at, first, second)
			}
		}
	}
	for _, whole := range []string{"a <5", "It is <b>4", "a [link]"} {
		for at := range whole {
			first, inner := attention.VisibleTextAfter("", whole[:at])
			if second, _ := attention.VisibleTextAfter(inner, whole[at:]); first+second != whole {
				t.Errorf("%q, cut at %d, became %q and %q", whole, at, first, second)
			}
		}
	}
	_, inner = attention.VisibleTextAfter("", "<tool_call>{")
	if said, inner := attention.VisibleTextAfter(inner, "</think>\nIt is 4."); strings.TrimSpace(said) != "It is 4." || inner != "" {
		t.Errorf("what ended it gives %q, and then %q", said, inner)
	}
}

// TestVisible_SearchesAStrangeTextFewTimes checks that the time for a text grows with its length, if a
// model repeats itself.
func TestVisible_SearchesAStrangeTextFewTimes(t *testing.T) {
	const n = 2000
	for _, text := range []string{
		strings.Repeat("chat.react(", n),
		"x " + strings.Repeat("chat.react(", n) + strings.Repeat(")", n),
		strings.Repeat("chat.react {\n", n),
		strings.Repeat("chat.react {\n", n) + strings.Repeat("}", n),
		"chat.react " + strings.Repeat(`{"name": `, n),
	} {
		if got := attention.Searches(text); got < 2 || got > 60 {
			t.Errorf("%.30q is searched %d times", text, got)
		}
	}
}

// Little is read for each mark, so that long texts take linear time. Tags, headers and calls end where they did before.
func TestVisible_LimitsWhatItReadsForEachMark(t *testing.T) {
	letters := strings.Repeat("a", 300)
	fence := strings.Repeat("A", 16)
	part := "C2A EVENT\n\nMESSAGE\n<<" + fence + "\nx\n" + fence + ">>\n"
	for text, want := range map[string]string{
		"<think\na=1>x</think>b":                                  "b",
		"<think a\n>b":                                            "<think a\n>b",
		"<think <think <think\nb":                                 "<think <think <think\nb",
		"<think <think a=\"b\">x</think>c":                        "<think c",
		"<function=a <function=b>x</function>c":                   "c",
		"a: C2A EVENT\nb: C2A EVENT\nc":                           "a: C2A EVENT\nb: C2A EVENT\nc",
		"a: " + part + "b":                                        "a: \nb",
		"\n  <s>a</s>\n</s>":                                      "a",
		"a\n<s>b</s>":                                             "a\n<s>b</s>",
		"  name: a\n  args: b\n  name: chat.react\n  args: c\nd":  "name: a\n  args: b\nd",
		strings.Repeat("[", 8) + "{'name': 'chat.react', 'args'}": "",
		strings.Repeat("[", 9) + "{'name': 'chat.react', 'args'}": "[",
		"x = chat_react(signal='seen')":                           "",
		letters + " = chat_react(signal='seen')":                  letters + " =",
		strings.Repeat("a.", 200) + "chat_react(signal='seen')":   strings.Repeat("a.", 200),
	} {
		if got := attention.VisibleText(text); got != want {
			t.Errorf("VisibleText(%.80q) = %.80q; want %.80q", text, got, want)
		}
	}
	for _, copies := range []int{11, 12, 20} { // of the last ones, only what follows the very last is shown
		got := attention.VisibleText(strings.Repeat(part+"c", copies))
		if n := strings.Count(got, "c"); n != 11 || strings.ContainsAny(got, "xA") {
			t.Errorf("%d copies leave %q", copies, got)
		}
	}
}
