package markdown_test

import (
	"testing"

	"hubbub/peers/markdown"
)

// TestRender_KeepsTextThatIsNotAMark uses one line of each kind that a renderer of documents gets wrong
// in a chat.
func TestRender_KeepsTextThatIsNotAMark(t *testing.T) {
	keeps(t, []string{
		"Opening hours: Mon 9~12, Tue 14~18.", "Low -5~0 °C, high 3~7 °C", "~5 minutes, ~10 at most", "5! = 5*4*3*2*1",
		"2**10 = 1024 and 3**4 = 81",
		"a*b*c + d*e*f", "(*) required, (**) optional", "*.txt and *.md", "src/**/x/**/*.go", "**/node_modules/**",
		"def f(*args, **kwargs):",
		"int *p = *q; int **r", "f*** this s**t", "rated **** out of *****",
		"snake_case_name and __init__.py, __name__", "_private_name_ and __dunder__",
		"https://a.example/x_y_z and https://b.example/_u_v_", "see www.a.example/a_b_c_ or a_b@c_d.example",
		"@some_user_bot #tag_one_two #1",
		`C:\Users\_me_\*.txt and \\server\share_a\_b`, `¯\_(ツ)_/¯`, "^_^ -_- T_T (>_<) *_* o_O (*_*)", ":* and :-*",
		"Total\n-----\n12 €", "Price\n===",
		"fill in: ____ and ___", "+ 7 by day\n+ 3 by night", "> 90: A\n> 80: B", ">5 people", "- 5 °C", "-5 °C\n-3 °C",
		"--flag and -x", "1.1 Scope\n1.1.2 Terms",
		"§ 2.1(a)(ii) applies [1][2]", "arr[i](x) and m[a][b]", "[1]: https://a.example/x_y", "I love C#",
		"<b>raw</b> 1 < 2 > 0",
		"cmd \\\n  --flag", "$x_1$ and $$y_2$$", `\( x^2 \) and \[ E=mc^2 \]`, "24. Dezember 2026",
		"1. Mai: A\n1. Juni: B", "2026. What a year", "3 * 4 = 12 * 1",
		"价格*数量*税率", "共3~5天", "5 * 3 = 15", "a_b@example.org", "x = y ** 2 ** 3", "*required", "5 stars: *****",
		"e = mc^2 ~ 9e16",
		"type \"*\" for all and \"*\" for none", "'**' or '**'", "“*” and “*”", "«_», «_»", "\"~~\" and \"~~\"",
		"the keys '*', '#' and '*'", "\"*_test\" or \"test_*\"", "begins with \"_x\" or ends with \"y_\"", ">", "> \n>",
		"1. e4 e5 2. Nf3 Nc6 3. Bb5 a6", "|x| + |y| >= |x+y|", "||spoiler||", "a || b && c | d", "~/.config/_x_/y~",
		"~~~", "hello ~ world ~", "9:00~10:00~11:00",
		"AT&T, R&D &copy 2026", "50% off ~ no", "10 * * * * /bin/x", "*/5 * * * * /bin/y", "H~2~O and x^2^", "*", "**",
		"_", "***a", "**a", "a**", "a* b*",
		"It's 5`C and 6`F", "п`ять і м`яких слів", "l`amour d`été", "press '`' or \"`\"", "``like this'' and ``that''",
		"gql`query`", "5'10`` tall", "_private, %s_%d and a_%", "a `stray and more", "text \\- a \\> b 5. c",
		`The regex is \d+\.\d+ ok\.`, `Use \. and \! in it. Ok`, `foo\.example\.com`, `C:\.git and D:\-x`, `not \. here`,
		"int *p, 3**", "*_test.go,*.md", "f(a=1,**kw) x**=2", "copy **/src to **/dst, **/node_modules/**",
		"参考 https://a.example/a_b，以及 https://b.example/c_d。", "见https://a.example/?a=*x*&b=*y*",
		`Use ^foo\.bar\.baz here`, `find a \( x \) \! b`, `[a\-z] or [0\-9]`, `10\.0\.0\.1`, `dir\.git or dir\.svn`,
	})
}

// TestRender_ReadsMarksAsPeopleMeanThem uses marks of each kind in the places in which models
// write them.
func TestRender_ReadsMarksAsPeopleMeanThem(t *testing.T) {
	renders(t, map[string]string{
		"**注意：**内容":                       "注意：内容 | bold(注意：)",
		">>> Coming?\n>> Yes.\n> Good.":   "Coming?\n\nYes.\n\nGood. | blockquote(Coming?\n\nYes.\n\nGood.)",
		"这是**重点**内容，共**3**个。":             "这是重点内容，共3个。 | bold(重点) | bold(3)",
		"**「引用」**と**強調**です":               "「引用」と強調です | bold(「引用」) | bold(強調)",
		"이것은 **중요**합니다":                   "이것은 중요합니다 | bold(중요)",
		"ราคา**พิเศษ**วันนี้":             "ราคาพิเศษวันนี้ | bold(พิเศษ)",
		"，*重点*，":                          "，重点， | italic(重点)",
		"**Note:**text and **What?** Yes": "Note:text and What? Yes | bold(Note:) | bold(What?)",
		"(**x**) \"**y**\" **\"z\"**":     "(x) \"y\" \"z\" | bold(x) | bold(y) | bold(\"z\")",
		"**bold *it* more** and *a **b** c*": "bold it more and a b c | bold(bold it more) | italic(it) | italic(a b " +
			"c) | bold(b)",
		"***both***, **a *b***":            "both, a b | bold(both) | italic(both) | bold(a b) | italic(b)",
		"**🔥 Hot** 🔥**x**":                 "🔥 Hot 🔥x | bold(🔥 Hot) | bold(x)",
		"**-5 °C** **€5** **#1** **.NET**": "-5 °C €5 #1 .NET | bold(-5 °C) | bold(€5) | bold(#1) | bold(.NET)",
		"__two words__ and _it_, _it too_.": "two words and it, it too. | bold(two words) | italic(it) | italic(it " +
			"too)",
		"**a**/**b** *c*/d":                        "a/b *c*/d | bold(a) | bold(b)",
		"It's *really* good—*very*!":               "It's really good—very! | italic(really) | italic(very)",
		"*\"Hello\"*, she said. *(aside)*":         "\"Hello\", she said. (aside) | italic(\"Hello\") | italic((aside))",
		"~~a~~ ~~b c~~, 5~~6~~7":                   "a b c, 5~~6~~7 | strikethrough(a) | strikethrough(b c)",
		"10:00~12:00 ~~not 13:00~~":                "10:00~12:00 not 13:00 | strikethrough(not 13:00)",
		"snake\\_case \\*x\\* \\`y\\`":             "snake_case *x* `y`",
		"**https://a.example/x_y**":                "https://a.example/x_y | bold(https://a.example/x_y)",
		"*50*% of **9**%":                          "50% of 9% | italic(50) | bold(9)",
		"*a_b@example.org*":                        "a_b@example.org | italic(a_b@example.org)",
		"2. Agreed.\n5. Changed.\n9. Later.":       "2. Agreed.\n5. Changed.\n9. Later.",
		"1. a\n1. b\n1. c":                         "1. a\n2. b\n3. c",
		"1) a\n2) b\n   - c\n   - d":               "1) a\n2) b\n  • c\n  • d",
		"1. a\n\n   more\n\n2. b":                  "1. a\n\n  more\n2. b",
		"- a\n\t- b\n\t\t- c\n- d":                 "• a\n  • b\n    • c\n• d",
		"1. a\n\t1. b\n\t2. c\n2. d":               "1. a\n  1. b\n  2. c\n2. d",
		"* a\n\t* b\n\t* c\n* d":                   "• a\n  • b\n  • c\n• d",
		"- a\n\tmore\n- b":                         "• a\n  more\n• b",
		"3. a\n\n\tmore\n\n4. b":                   "3. a\n\n  more\n4. b",
		"- a\n \t- b":                              "• a\n  • b",
		"one\\\ntwo\\\nthree":                      "one\ntwo\nthree",
		"Roses are red.\\\n*Violets* are blue.":    "Roses are red.\nViolets are blue. | italic(Violets)",
		"- a\\\n  b":                               "• a\n  b",
		"日本\\\n東京":                                 "日本\n東京",
		"curl -s \\\n  https://a.example":          "curl -s \\\n  https://a.example",
		"C:\\dir\\\nD:\\x":                         "C:\\dir\\\nD:\\x",
		"src\\lib\\\nnext":                         "src\\lib\\\nnext",
		"the last one\\":                           "the last one\\",
		"- a\n\n  - b\n- c":                        "• a\n  • b\n• c",
		"* a\n* b":                                 "• a\n• b",
		"- **Milk**: 2 l\n- 3 eggs":                "• Milk: 2 l\n• 3 eggs | bold(Milk)",
		"See:\n- a\n- b":                           "See:\n\n• a\n• b",
		"> a\n> b\nnot quoted":                     "a\nb\n\nnot quoted | blockquote(a\nb)",
		"> Buy:\n> - milk\n> - eggs":               "Buy:\n\n• milk\n• eggs | blockquote(Buy:\n\n• milk\n• eggs)",
		"> 1. a\n> 2. b\n\nok":                     "1. a\n2. b\n\nok | blockquote(1. a\n2. b)",
		"> In\n> 2024 it was\n> -5 °C\n>= 3":       "In\n2024 it was\n-5 °C\n\n>= 3 | blockquote(In\n2024 it was\n-5 °C)",
		"_What?_ _(aside)_ _«e»_":                  "What? (aside) «e» | italic(What?) | italic((aside)) | italic(«e»)",
		"_Updated: May 2024._ __Note:__ x":         "Updated: May 2024. Note: x | italic(Updated: May 2024.) | bold(Note:)",
		"*'tis 'so' it's*, '*it's*' \"*x*\"":       "'tis 'so' it's, 'it's' \"x\" | italic('tis 'so' it's) | italic(it's) | italic(x)",
		"و**مهم** وال**قصة**، ل**محمد**":           "ومهم والقصة، لمحمد | bold(مهم) | bold(قصة) | bold(محمد)",
		"ה**ספר** של **דני**ו":                     "הספר של דניו | bold(ספר) | bold(דני)",
		"|was|now|\n|-|-|\n|~~5 €~~|4 €|":          "was     | now\n--------+----\n~~5 €~~ | 4 € | pre(was     | now\n--------+----\n~~5 €~~ | 4 €)",
		"> „Zitat“\n>\n> — X":                      "„Zitat“\n\n— X | blockquote(„Zitat“\n\n— X)",
		"a\n\n***\n\nb":                            "a\n\n———\n\nb",
		"```\n*x* _y_\n```":                        "*x* _y_ | pre(*x* _y_)",
		"``a`b`` `*c*`":                            "a`b *c* | code(a`b) | code(*c*)",
		"[a_b_](https://a.example/c_d_)":           "a_b_ | text_link(a_b_)=https://a.example/c_d_",
		"[**x**](https://a.example \"t\")":         "x | text_link(x)=https://a.example | bold(x)",
		"[w](https://e.org/a_(b))":                 "w | text_link(w)=https://e.org/a_(b)",
		"**https://a.example/**, *www.b.example/*": "https://a.example/, www.b.example/ | bold(https://a.example/) | italic(www.b.example/)",
		"**C:\\Users\\** (**a.b@c.example**)":      "C:\\Users\\ (a.b@c.example) | bold(C:\\Users\\) | bold(a.b@c.example)",
		"*   a\n*   b\n    *   c\n        *   d":   "• a\n• b\n  • c\n    • d",
		"1. a\n   * b\n2. c\n\n* note":             "1. a\n  • b\n2. c\n\n* note",
		"- a\n  - b\n    * c":                      "• a\n  • b\n    • c",
		"`Widget`s, 这是`代码`的 (\"`y`\")":             "Widgets, 这是代码的 (\"y\") | code(Widget) | code(代码) | code(y)",
		"a `stray and `code` here":                 "a `stray and code here | code(code)",
		"|a|b|\n|-|-|\n|9~12|5*4*3|x|": "a    | b\n-----+-------+--\n9~12 | 5*4*3 | x | pre(a    | " +
			"b\n-----+-------+--\n9~12 | 5*4*3 | x)",
	})
}

// TestRender_ReadsMarksNextToSigns has marks next to signs, addresses and commands, and in tables.
func TestRender_ReadsMarksNextToSigns(t *testing.T) {
	renders(t, map[string]string{
		"**§ 5** und *§ 6*, **†**":             "§ 5 und § 6, † | bold(§ 5) | italic(§ 6) | bold(†)",
		"**※注意**事項，**…重点…**内容":                 "※注意事項，…重点…内容 | bold(※注意) | bold(…重点…)",
		"**A**→**B**, **a**|**b**":             "A→B, a|b | bold(A) | bold(B) | bold(a) | bold(b)",
		"**・a** **‼️ b** **c**[1], **d:**.":    "・a ‼️ b c[1], d:. | bold(・a) | bold(‼️ b) | bold(c) | bold(d:)",
		"1️⃣**a** 2️⃣*b*":                      "1️⃣a 2️⃣b | bold(a) | italic(b)",
		"\u200e**a**\u200e **b**\u200b내":       "\u200ea\u200e b\u200b내 | bold(a) | bold(b)",
		"**/help** or *//x*, **/work <text>**": "/help or *//x*, /work <text> | bold(/help) | bold(/work <text>)",
		"a![b](https://a.example)":             "a!b | text_link(b)=https://a.example",
		"看：https://a.example/doc。**注意：**请":     "看：https://a.example/doc。注意：请 | bold(注意：)",
		"**https://a.example**：x，~~www.b.example~~は": "https://a.example：x，www.b.exampleは | bold(https://a.example) | " +
			"strikethrough(www.b.example)",
		"|a|b|\n|-|-|\n|x<br>y <BR /> z|`<br>`|\n|<br>|u<br>|": "a    | b\n-----+------\nx    | <br>\ny    |\nz    |\n<br> | u<br>" +
			" | pre(a    | b\n-----+------\nx    | <br>\ny    |\nz    |\n<br> | u<br>)",
		"- a\n  ```\n  b\n   c\n  ```\n- d": "• a\n\nb\n c\n• d | pre(b\n c)",
		"|a|\n|-|\n|[**b** c](https://a.example/_d_), <https://e.example>|": "a\n----------------------------------------------\n" +
			"b c (https://a.example/_d_), https://e.example | pre(a\n----------------------------------------------\n" +
			"b c (https://a.example/_d_), https://e.example)",
	})
}

// TestRender_TakesOutEscapes has escapes of list marks, runs of escapes, and texts in which a model escapes
// every sign that a parse mode reserves.
func TestRender_TakesOutEscapes(t *testing.T) {
	renders(t, map[string]string{
		"1\\. a\n2\\) b\n\\- c\n\\> d\n\\# e":          "1. a\n2) b\n- c\n> d\n# e",
		"Hi\\! It costs 5\\.00 \\(approx\\)":           "Hi! It costs 5.00 (approx)",
		"Use \\-\\-help or \\-v":                       "Use --help or -v",
		"A state\\-of\\-the\\-art 2\\.0":               "A state-of-the-art 2.0",
		"你好\\!今天是 5\\.1":                               "你好!今天是 5.1",
		"*A:* x\\.\n- [b](https://b.example/x-y.z)\\!": "A: x.\n\n• b! | italic(A:) | text_link(b)=https://b.example/x-y.z",
		"\\- 2\\.5 \\+ 3 \\= 5\\.5\n\\- \\#done":       "- 2.5 + 3 = 5.5\n- #done",
		`\*\*no bold\*\*, 2\*\*3, \*\*\*`:              "**no bold**, 2**3, ***",
		`\_\_init\_\_ and a \_\_call\_\_() do`:         "__init__ and a __call__() do",
		`\~\~gone\~\~` + "\n" + `\#\# two`:             "~~gone~~\n## two",
		`del C:\temp\* and C:\*\*.txt, ¯\_(ツ)_/¯`:      `del C:\temp\* and C:\*\*.txt, ¯\_(ツ)_/¯`,
	})
}

// TestEmphasis_AroundInvisibleCharacters checks words that begin or end with marks of direction or
// zero-width spaces, which models put around words of Hebrew and Arabic, and into tables.
func TestEmphasis_AroundInvisibleCharacters(t *testing.T) {
	for source, want := range map[string]string{
		"**\u200fשלום** עולם":           "<strong>\u200fשלום</strong> עולם",
		"\u200f**שלום**\u200f עולם":     "\u200f<strong>שלום</strong>\u200f עולם",
		"שלום **עולם\u200f** טוב":       "שלום <strong>עולם\u200f</strong> טוב",
		"*\u2067مرحبا\u2069* يا":        "<em>\u2067مرحبا\u2069</em> يا",
		"a\u200b**bold**\u200bb":        "a\u200b<strong>bold</strong>\u200bb",
		"**\u200bbold\u200b** x":        "<strong>\u200bbold\u200b</strong> x",
		"\ufeff**Note:** x":             "\ufeff<strong>Note:</strong> x",
		"2\u200b*\u200b3\u200b*\u200b4": "",
	} {
		if got := markdown.Messages(source, 4096)[0].HTML; got != want {
			t.Errorf("%q becomes %q; want %q", source, got, want)
		}
	}
}

// TestRender_KeepsPatternsAndPrompts has patterns of names of files, prompts of programs, and lines of asterisks.
func TestRender_KeepsPatternsAndPrompts(t *testing.T) {
	keeps(t, []string{
		"*_test.py or test_*.py", "test_*.py or *_test.py", "the *config*.json and *config*.yaml files", "die *foo*.js-Dateien", "_a_.c и _b_.c",
		"find . -name '*_a*' -o -name '*_b*'", "grep '*_x' '*_y'", "use *_id* here", "und *id_* da", "匹配*_日志*.log文件",
		">>> print(1)\n1", ">>> print(1)\n>>> 2 > 1", "Try:\n>>> import this\n>>> x = 5*4*3", "*****", "****", "PIN:\n\n****\n\nKarte", "Оценка:\n*****\nСпасибо", "Note\n\n**********",
		"(*•̀ᴗ•́*)و ̑̑", "(*•̀ㅂ•́*) and (*•̀ᴗ•́*)",
	})
	renders(t, map[string]string{
		"*See*.Then *it*. *e.g.*":          "See.Then it. e.g. | italic(See) | italic(it) | italic(e.g.)",
		"*_x_* and *a _b_* and *_c_ d*":    "x and a b and c d | italic(x) | italic(a b) | italic(c d)",
		"*__init__* и *_два слова_*":       "__init__ и два слова | italic(__init__) | italic(два слова)",
		"a\n\n***\n\nb\n\n* * *\n\nc":      "a\n\n———\n\nb\n\n———\n\nc",
		"> a\n>> b\n>>> c":                 "a\n\nb\n\nc | blockquote(a\n\nb\n\nc)",
		"(*कि*) (*ñandú*) *Žluťoučký kůň*": "(कि) (ñandú) Žluťoučký kůň | italic(कि) | italic(ñandú) | italic(Žluťoučký kůň)",
	})
}
