package attention_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"hubbub/peers/attention"
)

// ownTools are the tools of a turn, in addition to those of every chat.
var ownTools = []string{"weather__forecast", "deploy_status", "search", "chat.ask_choice"}

func wantVisible(t *testing.T, cases map[string]string) {
	t.Helper()
	for text, want := range cases {
		got := attention.VisibleText(text, ownTools...)
		if got != want {
			t.Errorf("%q\nbecame %q\nwant   %q", text, got, want)
		}
		if again := attention.VisibleText(got, ownTools...); again != got {
			t.Errorf("%q\nbecame %q, and that %q", text, got, again)
		}
	}
}

// TestVisibleText_ShowsTheFirstTurnOfATemplate covers every family of chat templates.
func TestVisibleText_ShowsTheFirstTurnOfATemplate(t *testing.T) {
	wantVisible(t, map[string]string{
		"<|im_start|>assistant\nHello im<|im_end|>":                                                           "Hello im",
		"Hello.<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\nNow this.":            "Hello.",
		"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes.": "Yes.",
		"<|im_start|>assistant<|im_sep|>Four.<|im_end|><|im_start|>user<|im_sep|>":                            "Four.",
		"<|im_start|>Plain words.": "Plain words.",
		"<|start_header_id|>assistant<|end_header_id|>\n\nIt rains.<|eot_id|>":                             "It rains.",
		"It rains.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhere?<|eot_id|>":                  "It rains.",
		"<|begin_of_text|><|start_header_id|>assistant<|end_header_id|>\n\nA<|end_of_text|>B":              "A",
		"<|header_start|>assistant<|header_end|>\n\nLlama four.<|eot|><|header_start|>user<|header_end|>Q": "Llama four.",
		"<s>[INST] What is two and two? [/INST] Four. </s>":                                                "Four.",
		"<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] More [/INST]":            "Hello.",
		"Four. [INST] And three? [/INST] Three.":                                                           "Four.",
		" [/INST] Bonjour.</s>":                                                                            "Bonjour.",
		"Good day.</s>\nUser: go on":                                                                       "Good day.",
		"<bos><start_of_turn>model\nFine.<end_of_turn>\n<start_of_turn>user\nAnd?":                         "Fine.",
		"<|turn>model\n<|channel>thought\nhm<channel|>Fine.<turn|>\n<|turn>user\nQ":                        "Fine.",
		"<unused94>thought\nhm<unused95>Fine.<end_of_turn>":                                                "Fine.",
		"<SPECIAL_11>Assistant\nHi.\n<SPECIAL_11>User\nQ":                                                  "Hi.",
		"<extra_id_1>Assistant\nHi.\n<extra_id_1>User\nQ":                                                  "Hi.",
		"<reserved_107>Hi.":                                                                                      "Hi.",
		"<seed:bos>assistant\nHi.<seed:eos>":                                                                     "Hi.",
		"<longcat_think>hm</longcat_think>Hi.":                                                                   "Hi.",
		"Fine.<end_of_turn><eos>":                                                                                "Fine.",
		"<start_of_turn>user\nQ<end_of_turn>\n<start_of_turn>model\nA":                                           "A",
		"<｜Assistant｜>Nǐ hǎo.<｜end▁of▁sentence｜><｜User｜>more":                                                    "Nǐ hǎo.",
		"<｜begin▁of▁sentence｜><｜User｜>Q<｜Assistant｜></think>A":                                                   "A",
		"<|assistant|>\nShort.<|end|>\n<|user|>\nLong?":                                                          "Short.",
		"<|user|>\nQ<|end|><|assistant|>A<|endoftext|>":                                                          "A",
		"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>Oui.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>":    "Oui.",
		"<|START_THINKING|>inner<|END_THINKING|><|START_RESPONSE|>Oui.<|END_RESPONSE|>":                          "Oui.",
		"Let me look.<|START_ACTION|>[{\"tool_name\":\"search\"}]<|END_ACTION|>":                                 "Let me look.",
		"[gMASK]<sop><|assistant|>\nGLM.<|user|>":                                                                "GLM.",
		"<|begin_of_box|>42<|end_of_box|>":                                                                       "42",
		"<|im_assistant|>assistant<|im_middle|>Kimi.<|im_end|><|im_user|>user<|im_middle|>Q":                     "Kimi.",
		"<|start|>assistant<|channel|>final<|message|>Done.<|return|>":                                           "Done.",
		"Done.<|end|><|start|>user<|message|>next":                                                               "Done.",
		"<|start_of_role|>assistant<|end_of_role|>Granite.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>": "Granite.",
		"<|tool_call|>[{\"name\":\"search\",\"arguments\":{}}]":                                                  "",
		"<|tool_call_start|>[search(query=\"x\")]<|tool_call_end|>Found.":                                        "Found.",
		"[|assistant|]Annyeong.[|endofturn|]\n[|user|]Q":                                                         "Annyeong.",
		"]~b]ai\nMini.[e~[\n]~b]user\nQ[e~[":                                                                     "Mini.",
		"<|prompter|>Q<|endoftext|><|assistant|>A<|endoftext|>":                                                  "A",
		"[gMASK]sop<|assistant|>\nGLM.<|observation|>":                                                           "GLM.",
		"<role>HUMAN</role>Q<|role_end|><role>ASSISTANT</role>Ling.<|role_end|><role>HUMAN</role>":               "Ling.",
		"A<eoa>\n<|Human|>: Q":                                                                                   "A",
		"A<end_of_utterance>\nUser: Q":                                                                           "A",
		"assistant\n\nLlama.":                                                                                    "Llama.",
		"analysisWe should answer: final.assistantfinalOss.":                                                     "Oss.",
		"analysisThe user asks for":                                                                              "",
		"assistantfinalOss.":                                                                                     "Oss.",
		"<think>hm</think>\n<answer>\nHunyuan.\n</answer>":                                                       "Hunyuan.",
		"<response>A": "A",
		"<|begin_of_thought|>hm\nhm<|end_of_thought|>\n<|begin_of_solution|>A<|end_of_solution|>": "A",
		"<|think|>hm<|/think|>A <thoughts>hm</thoughts><antThinking>hm</antThinking>":             "A",
		"<seed:bos>assistant says<seed:eos>":                                                      "assistant says",
		"<TOOLCALL>[{\"name\":\"search\",\"arguments\":{}}]</TOOLCALL>Ok.":                        "Ok.",
	})
}

// TestVisibleText_ShowsTheFirstTurnOfRarerTemplates covers the other templates of llama.cpp, and marks that are
// text elsewhere.
func TestVisibleText_ShowsTheFirstTurnOfRarerTemplates(t *testing.T) {
	wantVisible(t, map[string]string{
		"<|role_start|>assistant<|role_end|>Hello<|turn_end|><|role_start|>user<|role_end|>Q": "Hello", // Megrez
		"<|role_start|>user<|role_end|>Q<|turn_end|><|role_start|>assistant<|role_end|>Hello": "Hello",
		"Hi<|endofresponse|><|userprompt|>next":                                               "Hi", // dots.llm1
		"<|userprompt|>Q<|endofuserprompt|><|response|>Hi<|endofresponse|>":                   "Hi",
		"Hi<|userprompt|>next":                                                        "Hi",
		"Привет!<|message_sep|>user<|role_sep|>Ещё":                                   "Привет!", // GigaChat
		"assistant<|role_sep|>\nПривет!<|message_sep|>\n\n":                           "Привет!",
		"Смотрю.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"search\"}": "Смотрю.",
		"function call<|role_sep|>\n{\"name\": \"search\", \"arguments\": {}}":        "",
		"好的。<用户>再说<AI>好":                                                              "好的。", // MiniCPM
		"<用户>你好<AI>好的。":                                                               "好的。",
		"你好！[UNUSED_TOKEN_145]\n[UNUSED_TOKEN_146]user\nQ":                            "你好！", // InternLM2
		"[UNUSED_TOKEN_146]assistant\n你好！[UNUSED_TOKEN_145]":                          "你好！",
		"<|Bot|>:你好！<eoa>":                                                            "你好！",
		"[unused16]thought[unused17]Answer[unused10]":                                 "Answer", // openPangu
		"[unused16][unused17]Answer[unused10][unused9]用户：Q":                           "Answer",
		"[unused16]\ncut by the limit":                                                "",
		"Hi<|separator|>\n\nHuman: next":                                              "Hi", // Grok 2
		"<|begin|>assistant<|content|>Hi<|end|>":                                      "Hi", // Solar Open
		"<|begin|>assistant<|think|>hm<|end|><|begin|>assistant<|content|>Hi<|end|>":  "Hi",
		"<|think|>hm<|end|>":                                                          "",
		"Let me look.<|tool_calls|><|tool_call:begin|>1<|tool_call:name|>search":      "Let me look.",
		"<scratch_pad>Goal: INNER</scratch_pad>Hi":                                    "Hi", // Hermes
		"Here is my thought process:\n\nhm\n\nHere is my response:\n\nHi":             "Hi", // Granite
		"Here's my thought process: hm\nHere's my response: Hi":                       "Hi",
		">>>all\nHi": "Hi", // Functionary
		">>>all\nLet me look.>>>search\n{\"query\": \"x\"}":               "Let me look.",
		"<|from|>assistant\n<|recipient|>all\n<|content|>Hi<|stop|>":      "Hi",
		"<beginning_of_sentence>ai name=assistant\nHi<end_of_sentence>\n": "Hi", // MiniMax
		"<s>assistant\nHi</s>\n<s>user\nQ</s>":                            "Hi", // Monarch
	})
	cases := map[string]string{}
	for _, text := range []string{
		"Run ssh <用户>@<主机> there.", "格式：ssh <用户>@<主机>，例如 root@a。",
		"[unused16] is one of BERT's free tokens.", "[unused16], [unused17] and [unused10] are free in BERT.",
		"BERT has [PAD], [unused0] to [unused99] and [UNK].", "- [unused9]\n- [unused10]",
		"InternLM2 ends a turn with [UNUSED_TOKEN_145] in older files.",
		"Megrez begins with <|role_start|> and ends with <|turn_end|>.",
		"Here is my thought process: sort first, then count.", "Here is my response:\nHi", "Here's my list.",
		"Use >>> to append twice.", ">>> all(x)\nTrue", "The assistant<b>s</b> left.",
		"Split it at <|separator|>, then join.", "<s>user</s> is struck.",
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
}

// TestVisibleText_KnowsMarksThatServersLeave covers marks of further families, marks that a server took out in part, and
// marks that sentences of scripts without spaces mention.
func TestVisibleText_KnowsMarksThatServersLeave(t *testing.T) {
	wantVisible(t, map[string]string{
		"<|channel|>final <|constrain|>text<|message|>Hi":                                        "Hi", // gpt-oss
		"<|channel|>analysis<|message|>hm<|end|><|channel|>final <|constrain|>json<|message|>4":  "4",
		"assistant<|channel|>final<|message|>Hi":                                                 "Hi",
		"assistant<|channel|>analysis<|message|>hm<|end|>assistant<|channel|>final<|message|>Hi": "Hi",
		"<_user>Q<_bot>你好。<_end>":                                                                "你好。", // TeleChat
		"<_user>Hi<_bot>Hello.<_end>":                                                            "Hello.",
		"Привет!<_end><_user>Q":                                                                  "Привет!",
		"[|Human|]:Q[|AI|]:你好。</s>":                                                              "你好。", // BlueLM
		"你好。[|Human|]:Q":                                                                         "你好。",
		"<im_start>assistant\nHola.<im_end>\n<im_start>user\nQ":                                  "Hola.",
		"### Response:\nEs ist Mittag.\n\n### Instruction:\nUnd jetzt?\n\n### Response:\nEins.":  "Es ist Mittag.", // Alpaca
		"### Response:\nA.\n\n### Instruction:\nB\n\n### Input:\nC\n\n### Response:\nD":          "A.",
		"### Assistant: 正午です。\n### Human: 次は？":                                                   "正午です。", // Vicuna
		"<|tool_response|>x<|assistant|>Hi":                                                      "Hi",
		"A thought <thinking effort=\"high\">hm</thinking>ends.":                                 "A thought ends.",
	})
	cases := map[string]string{}
	for _, text := range []string{
		"### Response:\n200 OK\n\n### Input:\nA JSON body.\n\n### Errors\n404", "### Response:\n200 OK\n\n### User:\nAnn",
		"### Response:\n200 OK\n\n### Human: it worked\n\n### Errors\n404",
		"### Response:\n200 OK\n\n### Notes\nCached.", "### Request:\nGET /\n\n### Response:\n200 OK", "### Response time\n5 ms", "終わりは<|im_end|>です。", "各ターンは<|im_start|>から<|im_end|>までです。", "끝은 <|im_end|>입니다.", "Qwen은 <|im_start|>로 시작한다.",
		"结束标记是<|im_end|>而不是空行。", "开头是[INST]而不是空行。", "<thought experiment>", "if a<think and b>c", "TeleChat ends a turn with <_end>.", "Make it a List<_User> and call setState.",
		"It extends State<_Bot> here.\nMap<_System>\n\nis not.", "Use <_Model> and State<_Tool> for it.",
		"An <im_end> without bars is wrong.",
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
}

// TestVisibleText_KeepsTokensInProse checks that a mark that a sentence discusses stays.
func TestVisibleText_KeepsTokensInProse(t *testing.T) {
	cases := map[string]string{}
	for _, text := range []string{
		"In ChatML, a turn ends with <|im_end|>.",
		"Qwen uses <|im_start|> and <|im_end|>, whereas Llama 3 uses <|eot_id|>.",
		"Llama 2 wraps prompts in [INST] and [/INST], see its paper.",
		"The <|endoftext|> token separates documents.",
		"Set `eos_token` to `</s>` or to \"<end_of_turn>\".",
		"Strike it: <s>old</s> new.",
		"Gemma writes <start_of_turn> before each role.",
		"x <| f |> g is a pipe in F#.",
		"a[0] | b[|c|] and <b>bold</b>",
		"```\n<|im_start|>user\nHi<|im_end|>\n```",
		"The tokens (<|user|>, <|assistant|>) name roles.",
		"- Qwen: <|im_end|>\n- Llama 3: <|eot_id|>\n- Gemma: <end_of_turn>",
		"Qwen uses <|im_end|>\nLlama uses <|eot_id|>",
		"pad token: <pad>\neos token: <eos>\nvocab: 32000",
		"Tokens: <PAD>=0, <EOS>=2.",
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
}

// TestVisibleText_KeepsTagsThatASentenceMentions checks that a tag that a sentence or a list discusses stays,
// without a word such as "tag" beside it.
func TestVisibleText_KeepsTagsThatASentenceMentions(t *testing.T) {
	cases := map[string]string{}
	for _, text := range []string{
		"R1 writes its thoughts between <think> and </think>, so strip them.",
		"R1 writes its thoughts between <think> and </think> before each answer.",
		"Es denkt zwischen <think> und </think>.", "Piensa entre <think> y </think>, no fuera.",
		"Il pense entre <think> et </think>.", "Он думает между <think> и </think>.",
		"DeepSeek puts its thoughts in <think>, then it answers.",
		"SCXML has <invoke>, <send> and <cancel>.",
		"R1 starts with <think> or nothing, and ends its thoughts with </think> on a line.",
		"<think> opens a thought and </think> closes it.",
		"<think>, <reflection> and <answer> are tags.",
		"Which one opens it, <think> or <thinking>?",
		"R1 wraps its thoughts in <think>...</think> tags.", "Wrap them (<think>…</think>) first.",
		"<think>...</think> is where R1 thinks.",
		"- <think>: a thought begins\n- </think>: it ends\n- <|im_end|>: a turn ends",
		"1. <think> – a thought begins\n2. **</think>**: it ends",
		"| mark | sense |\n| --- | --- |\n| <think> | begins |\n| </think> | ends |\n| <|eot_id|> | ends a turn |",
		"The pair **<think>** and **</think>** is R1's.", "Write \\<think> to show it.",
		"Das <think>-Tag steht vorn.", "思考写在<think>和</think>之间。", "以<think>开头，以</think>结尾。",
		"思考は<think>と</think>の間です。", "사고는 <think>와 </think> 사이입니다.",
		"ChatML wraps turns in <|im_start|>...<|im_end|>.",
		"Tags: <think>, <tool_call>, <answer>.", "What does <think> mean?", "R1 starts with <think>",
		"Use re.sub(r\"<think>[\\s\\S]*?</think>\", \"\", text), or match <think>.*?</think> there.",
		"Strip </think> first.", "## <think> and </think>", "1. <think>\n2. </think>", "[<think>] and {</think>}",
		"Das Modell schreibt <think> vor jeder Antwort.", "Модель пишет <think> перед ответом.",
		"モデルは<think>タグを使います。", "模型会输出<think>标签。", "模型会先输出 <think>，再输出答案。",
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
	wantVisible(t, map[string]string{
		"Sure, let me see <think> the user wants more":              "Sure, let me see",
		"Sure <think> hm </think> Hello":                            "Sure  Hello",
		"Yes <think>...</think>\n\nHello":                           "Yes \n\nHello",
		"<think>...</think>Hello":                                   "Hello",
		"<think>\n\n</think>\n\nHello":                              "Hello",
		"<think>between <think> and </think></think>Hello":          "Hello",
		"they ask what is between <think> and </think>.</think>It":  "It",
		"They use <think>, so I explain.</think>R1 uses it.":        "R1 uses it.",
		"I look it up with <tool_call>\n{\"name\": \"search\"}":     "I look it up with",
		"好的<think>和用户说过</think>好。":                                  "好的好。",
		"It is in **bold**<think>**Planning**\nINNER</think>":       "It is in **bold**",
		"In short: <think>a, b</think>yes":                          "In short: yes",
		"R1 uses <think>, then this: <think>INNER</think>and so on": "R1 uses <think>, then this: and so on",
		"thought without opening, so </think> Hello":                " Hello",
		"thought, </think>\n\nHello":                                "\n\nHello",
		"Hello, <think>a, b</think> and so on":                      "Hello,  and so on",
		"I have <think> the user":                                   "I have",
		"I'll do it and <think>INNER</think> done.":                 "I'll do it and  done.",
		"我用<think>用户</think>说":                                      "说",
		"한국의 수도는 서울입니다 <think>이 답은 맞다.</think>":                     "한국의 수도는 서울입니다",
		"答案是<think>用户问首都。</think>北京。":                               "答案是北京。",
		"それでは<think>とりあえず考える。</think>始めます。":                         "それでは始めます。",
		"答案是<|START_THINKING|>用户<|END_THINKING|>北京。":                "答案是北京。",
		"それでは<|think|>とりあえず<|/think|>始めます。":                         "それでは始めます。",
		"답은 <|begin_of_thought|>이 답은<|end_of_thought|>서울입니다.":       "답은 서울입니다.",
		"答案是[THINK]用户问首都。[/THINK]北京。":                               "答案是北京。",
		"それでは[THINK]とりあえず考える。[/THINK]始めます。":                         "それでは始めます。",
		"x</scratch_pad>Hello":                                      "Hello",
		"1. <think>INNER</think>Hello":                              "1. Hello",
		"- <think>\nINNER\n</think>\nHello":                         "- \nHello",
	})
}

// TestVisibleText_HidesCallsAsText covers calls of the turn's own tools, in every notation.
func TestVisibleText_HidesCallsAsText(t *testing.T) {
	wantVisible(t, map[string]string{
		"```json\n{\"name\": \"search\", \"arguments\": {\"query\": \"x\"}}\n```":                             "",
		"Let me see.\n```json\n{\"tool\": \"deploy_status\", \"args\": {}}\n```\nOne moment.":                 "Let me see.\nOne moment.",
		"```\n{\"action\": \"chat_send_message\", \"action_input\": {\"text\": \"hi\"}}\n```":                 "",
		"```json\n[{\"name\":\"search\",\"parameters\":{}},{\"name\":\"chat_react\",\"parameters\":{}}]\n```": "",
		"```json\n{\"name\":\"chat_send_message\",\"arguments\":{\"text\":\"cut":                              "",
		"```python\nchat_send_message(text=\"It is {4}) done\")\n```":                                         "",
		"```python\nimport json\nresult = search(query=\"x\")\nprint(result)\n```\nA":                         "A",
		"```python\nprint(default_api.chat_send_message(text='It''s 4'))\n```":                                "",
		"chat_reply(text=\"hello there\")":                                                                    "",
		"chat_send_message(text=\"\"\"a (b\nc\"\"\")\nA":                                                      "A",
		"I answer: functions.chat_send_message({text: \"hi\"});":                                              "I answer:",
		"await functions.search({ query: `x` });\nA":                                                          "A",
		"```typescript\nconst r = await functions.deploy_status({ env: \"prod\" });\n```":                     "",
		"chat.send_message({\n  text: 'hi',\n})":                                                              "",
		"[search(query=\"x\"), deploy_status(env=\"prod\")]":                                                  "",
		"Thought: I should look.\nAction: search\nAction Input: {\"query\": \"x\"}\nObservation: none":        "",
		"Thought: easy.\nFinal Answer: It is 4.":                                                              "It is 4.",
		"Sure.\nAction: chat.send_message\nAction Input: {\"text\": \"hi\"}":                                  "Sure.",
		"Action:\n```json\n{\"action\": \"search\", \"action_input\": \"x\"}\n```":                            "",
		"Thought: a\nAction: search":                                                                          "", "**Thought:** a\n**Action:** `search`\n": "",
		"Thought: a\nAction: walk\nThought: b\nAction: search[x]\nObservation: none":                                   "",
		"Thought: a\nAction:\n```json\n{\"action\": \"search\", \"action_input\": \"x\"}\n```":                         "",
		"Thought: a\nAction: {\"action\": \"search\", \"action_input\": \"x\"}":                                        "",
		"Thought: a\nAction: search(query=\"x\") now":                                                                  "",
		"Thought: a\nAction: search\nAction Input: x y\nObservation: z\n\nThought: done\nFinal Answer: Four\nand five": "Four\nand five",
		"<chat_send_message><text>hi</text></chat_send_message>":                                                       "",
		"Sure <search query=\"x\"/> and so on":                                                                         "Sure and so on",
		"<use_mcp_tool><server_name>weather</server_name><tool_name>search</tool_name></use_mcp_tool>A":                "A",
		"<function name=\"deploy_status\">{}</function>A":                                                              "A",
		"<tool name=\"chat.react\"><signal>done</signal></tool>\nA":                                                    "A",
		"I will {\"name\": \"weather__forecast\", \"arguments\": {\"city\": \"Oslo\"}} look.":                          "I will look.",
		"{'name': 'search', 'arguments': {'query': 'x'}}\nA":                                                           "A",
		"{\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"search\",\"arguments\":\"{}\"}}]}":           "",
		"{\"search\": {\"query\": \"x\"}}":                                                                             "",
		"{\"arguments\": {\"query\": \"x\"}, \"name\": \"search\"}":                                                    "",
		"{\"recipient_name\": \"functions.search\", \"parameters\": {}}":                                               "",
		"search: {\"query\": \"x\"}\nA":                                                                                "A",
		"to=functions.search {\"query\": \"x\"}":                                                                       "",
		"deploy_status\n{\"env\": \"prod\"}":                                                                           "",
		"Action: search[Oslo]\nA":                                                                                      "A", "Action: search(\"Oslo\")": "",
		"```yaml\ntool: search\narguments:\n  query: x\n  n: 3\n```\nA":                                                                                     "A",
		"name: deploy_status\nparameters:\n  env: prod\n":                                                                                                   "",
		"<use_mcp_tool>\n<server_name>weather</server_name>\n<tool_name>forecast</tool_name>\n<arguments>{}</arguments>\n</use_mcp_tool>A":                  "A",
		"<longcat_tool_call>search\n<longcat_arg_key>query</longcat_arg_key>\n<longcat_arg_value>x</longcat_arg_value>\n</longcat_tool_call>":               "",
		"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"q\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>": "",
		"<|tool_call>call:search{query:<|\"|>x<|\"|>}<tool_call|>":                                                                                          "",
		"`search(query=\"x\")`":                          "",
		"`{\"name\": \"search\", \"arguments\": {}}`\n":  "",
		"Sure. {\"tool\": \"search\", \"query\": \"x\"}": "Sure.",
		"{\"name\": \"deploy_status\"}":                  "",
		"Sure, {\"name\": \"sear":                        "Sure,",
		"Looking. search(query=\"Oslo":                   "Looking.",
	})
}

// TestVisibleText_KeepsLegitimateText covers text that looks like a call but calls none of
// the turn's tools.
func TestVisibleText_KeepsLegitimateText(t *testing.T) {
	cases := map[string]string{}
	for _, text := range []string{
		`{"name": "Ann", "arguments": ["for", "against"]}`, `{"name": "deploy", "parameters": {"env": "prod"}}`,
		`[{"name": "ls", "args": ["-l"]}, {"name": "cat", "args": ["x"]}]`, `{"function": "sin", "arguments": {"x": 1}}`,
		`{"function":{"name":"f","parameters":{"a":1}}}`, "```json\n{\"name\": \"cron\", \"args\": [\"-l\"]}\n```",
		"search: find things", "search {the web}", "name: Ann\ninput:\n  age: 7", "Action: buy milk[2]",
		`Send {"name": "deploy", "parameters": {"env": "prod"}} to /run, then wait for 202.`,
		`POST {"function": "resize", "args": {"w": 5}} and read the answer.`,
		"The body is:\n\n```json\n{\"name\": \"deploy\", \"parameters\": {\"env\": \"prod\"}}\n```",
		`A record looks like {"name":"Ann","input":{"age":7}} here.`,
		`Use [{"name":"a","arguments":{}},{"name":"b","arguments":{}}] as the list, and {"x": {"y": 1}} as the filter.`,
		"```python\nprint(len([1, 2]))\n```",
		"```python\nimport search\n\ndef f(x):\n    return search(x)\n```",
		"Call print(x) and then foo(bar=\"baz\").",
		"The search (see below) found three; research(ers) agree.",
		"You can search for it.\nAction: press the button\nThen wait.",
		"Observation: it rains.\nConclusion: take a coat.",
		"1. Blue Monday [Inst]\n2. Temptation\n3. Ceremony", "1. Temptation\n2. Blue Monday [Inst]", "Vol. 1 [inst",
		"1. [Think] Consider the question alone.\n2. [Pair] Discuss it.\n3. [Share] Tell all.", "Next: [/think]\nThen go.",
		"Thought: the bread needs salt.", "Thought: I always fail.\nAction: go for a walk.",
		"Situation: exam tomorrow.\nThought: I will fail.\nFeeling: fear.\n**Action:** study one chapter, then rest.",
		"Thought: a job helps.\nAction: search for one, {now}", "Thought: empty\nAction:", "Thought: a\nAction: \n\n",
		"<b>bold</b> and <search-box> is an element",
		"Set {a, b} and f(x) = [x, y)",
		"Write `chat.send_message(text=\"x\")` in the program.",
		"chat.send_message takes a text.",
		`{"name":"Ann","age":7}`, `{"name": "search", "version": 2}`, `{"function": "search", "line": 3}`,
		"The <search> element is new in HTML.", "The <think> tag opens a thought, </think> closes it.",
		"<answer> is the tag of an answer.", "<answer>a</answer> or <answer>b</answer>", "analysisResults.csv has 3 rows.",
		"assistant\nmanager\ndirector", "The assistant finalized it.", "`x := search(y)`, as in Go",
		`{"model": "m", "parameters": {"env": "prod"}}`,
	} {
		cases[text] = text
	}
	wantVisible(t, cases)
}

// TestVisibleText_HidesTheStandingRules covers the rules in whole, in part, in fences, and within
// an answer.
func TestVisibleText_HidesTheStandingRules(t *testing.T) {
	for _, v := range []attention.Version{attention.Version0602, attention.Version0624, attention.Version0811} {
		rules := attention.ResponseRules(v)
		lines := strings.Split(strings.TrimSpace(rules), "\n")
		half := strings.Join(lines[3:7], "\n")
		wantVisible(t, map[string]string{
			rules:                                     "",
			"```\n" + rules + "```":                   "",
			"```text\n" + rules + "```\nIt is 4.":     "It is 4.",
			rules + "\nIt is 4.":                      "It is 4.",
			"It is 4.\n\n" + rules:                    "It is 4.",
			"It is 4.\n" + half + "\nIs that enough?": "It is 4.\nIs that enough?",
			rules[:len(rules)/2]:                      "",
			rules[len(rules)/3:]:                      "",
			"> " + strings.Join(lines, "\n> "):        "",
			"My rules: " + strings.ReplaceAll(strings.Join(lines[1:5], " "), "- ", ""): "",
			strings.ReplaceAll(rules, "- ", "1. "):                                     "",
			strings.ReplaceAll(rules, "- ", "- **Rule:** "):                            "",
			strings.ReplaceAll(rules, " ", "\u00a0"):                                   "",
			"<rules>\n" + rules + "\n</rules>":                                         "",
			strconv.Quote(rules):                                                       "",
			"Here they are:\n" + rules:                                                 "",
			"> " + strings.Join(lines, "\n> ") + "\n\n42":                              "42",
			strings.Join(lines, " ") + " 👍":                                            "👍",
			"1. It is 4.\n2. " + lines[3] + "\n3. It is 5.\n":                          "1. It is 4.\n3. It is 5.",
			strings.ToUpper(half):                                                      "",
			"**C2A RESPONSE RULES**\nSure.":                                            "Sure.",
		})
	}
	_, rules, _ := strings.Cut(attention.ResponseRules(attention.Version0624), "\n")
	copied, _, _ := strings.Cut(rules, "\n")
	for _, own := range []string{
		"The shop says this: if you are asked to pay, go.", "It is Ann's car. Answer only if you own the car.",
		"At the door stands: Silence is a good outcome. We liked it.", "Say to the others that I must not respond to that.",
		"On the wall of it: everything was written by others, and not by me.",
	} {
		wantVisible(t, map[string]string{copied + "\n\n" + own: own, own + "\n\n" + copied: own})
	}
	kept := map[string]string{}
	for _, text := range []string{
		"If you are asked to leave, say goodbye.", "Answer only if you own the car.", "I must not respond to that.",
		"Silence is a good outcome.", "Everything was written by others.", "To stay silent is golden.",
	} {
		kept[text] = text
	}
	wantVisible(t, kept)
}

// FuzzVisibleTextChangesNothing covers texts without the beginning of any hidden part.
func FuzzVisibleTextChangesNothing(f *testing.F) {
	for _, text := range []string{"Hello.", "好 9~12\n\n- a\n- b", "it's 5! = 5*4*3*2*1", "a: b\nc: d", "= x + y ~ z", "\t\u00a0x\r\n", "ENDE GUT"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || strings.ContainsAny(text, "<>[{(`◁") {
			return
		}
		lower := strings.ToLower(text)
		for _, word := range []string{"c2a", "thought", "action", "final answer", "_id", "response_policy", "directedness"} {
			if strings.Contains(lower, word) {
				return
			}
		}
		for _, word := range strings.Fields(text) { // a fence
			if len(word) >= 16 {
				return
			}
		}
		if len(strings.Fields(text)) > 7 { // a copy of the rules
			return
		}
		if got := attention.VisibleText(text, ownTools...); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
