package markdown_test

import "testing"

// TestRender_KeepsMaskedData has asterisks that hide parts of numbers, dates and addresses.
func TestRender_KeepsMaskedData(t *testing.T) {
	keeps(t, []string{
		"SSN: ***-**-1234", "***-**-1234 and ***-**-5678", "***-**-1234 and 1234-**-***", "SSN ***-45-***",
		"+7 916 ***-**-45, +7 925 ***-**-46", "+7 (***) ***-**-45", "8-800-***-**-12", "4111-**-**-1111",
		"Born **-**-1990, died **-**-2020", "12.**.2024 - 14.**.2024", "**.**.1990", "12-**-1990 or **-**-1991",
		"555-**-**, 556-**-**", "AB-**-CD and EF-**-GH", "12**-**34 and 56**-**78", "12**-**-34 and 5**-**-6", "1***-***2 or 3***-***4",
		"IP ***.***.***.12", "IP 10.**.**.12", "key sk-***...***", "sum $**.**", "€**.**", "***-***", "**-**-**",
		"CPF ***.456.789-** e ***.***.123-**", "***.456.***-**", "CNPJ **.***.***/0001-**",
		"Sent to ***@***.com", "***n@g***.com and j***@g***.com", "*n@g*.com, *m@w*.de", "j**n@gmail.com, k**n@gmail.com",
		"a@b***.com and c@d***.org", "**** **** **** 1234", "at 12:**:30 and 13:**:30", "****-****-****-1234",
	})
	renders(t, map[string]string{
		"**SSN: ***-**-1234** **Born: **.**.1990**": "SSN: ***-**-1234 Born: **.**.1990 | bold(SSN: ***-**-1234) | bold(Born: **.**.1990)",
		"from **-9**-**-5** °C":                     "from -9--5 °C | bold(-9) | bold(-5)",
		"tap **+** or **-**.":                       "tap + or -. | bold(+) | bold(-)",
		"die **-**-Taste":                           "die --Taste | bold(-)",
		"**5.**-**7.** Mai, **1.**/**2.** Juni":     "5.-7. Mai, 1./2. Juni | bold(5.) | bold(7.) | bold(1.) | bold(2.)",
		"**A**-**B** and **12**-**34**":             "A-B and 12-34 | bold(A) | bold(B) | bold(12) | bold(34)",
		"**.NET is great.** **-5 °C today.**":       ".NET is great. -5 °C today. | bold(.NET is great.) | bold(-5 °C today.)",
		"It was **-5.**":                            "It was -5. | bold(-5.)",
		"a **U.S.**-based firm":                     "a U.S.-based firm | bold(U.S.)",
		"**a.b@c.example**, *d@e.example*.":         "a.b@c.example, d@e.example. | bold(a.b@c.example) | italic(d@e.example)",
		"**-- Menu --** **...**":                    "-- Menu -- ... | bold(-- Menu --) | bold(...)",
		"**@ann**, ***-12***":                       "@ann, -12 | bold(@ann) | bold(-12) | italic(-12)",
	})
}

// TestRender_KeepsFacesAndKeys has faces of signs, and the key *️⃣ of a telephone.
func TestRender_KeepsFacesAndKeys(t *testing.T) {
	keeps(t, []string{
		"(*'▽'*)", "(*ﾟ▽ﾟ*)", "(*・ω・*)", "(*°ー°*)", "(*@_@*)", "(*◕‿◕*)", "ヽ(*⌒▽⌒*)ﾉ", "(*ΦωΦ*)", "(*T_T*)",
		"（*ﾟДﾟ*）", "(**'▽'**)", "(_'▽'_)", "(*'▽') and (*'▽'*)", "(*'▽'*) 5*", "*°▽°* 5*", "(*ﾟ∀ﾟ) und (ﾟ∀ﾟ*)", "hi *°▽°* and *@_@*", "(*^▽^*)",
		"(●_●) (●_●)", "(◑_◐) (◕_◕) ☆_☆ ☆_☆", "(´∀`) and (´▽`)", "(`・ω・´) und (`・ω・´)", "(´_ゝ`) (´・ω・`)",
		"(*required) and a 5* hotel", "a 5* hotel (see 4*)", "*Note (4*)",
		"*️⃣*️⃣", "1️⃣*️⃣ to 2️⃣*️⃣", "press *️⃣ or #️⃣, then *️⃣", "*\u20e3 a *\u20e3", "dial *️⃣21#️⃣ or *️⃣",
	})
	renders(t, map[string]string{
		"**press *️⃣ now** *️⃣":               "press *️⃣ now *️⃣ | bold(press *️⃣ now)",
		"***️⃣ first** and **last *️⃣**":      "*️⃣ first and last *️⃣ | bold(*️⃣ first) | bold(last *️⃣)",
		"1️⃣*a* 2️⃣**b**":                     "1️⃣a 2️⃣b | italic(a) | bold(b)",
		"(*important*) (*don't*) (*«so»*)":    "(important) (don't) («so») | italic(important) | italic(don't) | italic(«so»)",
		"(*€5*) (*R&D*) (*C++*) (*ABA*)":      "(€5) (R&D) (C++) (ABA) | italic(€5) | italic(R&D) | italic(C++) | italic(ABA)",
		"(*注意！*) （*重要*） (*コーヒー*)":             "(注意！) （重要） (コーヒー) | italic(注意！) | italic(重要) | italic(コーヒー)",
		"(*a) first, b) second*) (*nice :)*)": "(a) first, b) second) (nice :)) | italic(a) first, b) second) | italic(nice :))",
		"*★★★* **(^_^)** *🎉✨🎉*":               "★★★ (^_^) 🎉✨🎉 | italic(★★★) | bold((^_^)) | italic(🎉✨🎉)",
		"(see *a (b)* and `f´(x)`)":           "(see a (b) and f´(x)) | italic(a (b)) | code(f´(x))",
		"🔥_hot_ ● _x_ ●":                      "🔥hot ● x ● | italic(hot) | italic(x)",
	})
}

// TestRender_ReadsMarksNextToSymbols has marks next to signs of currencies, degrees and operators.
func TestRender_ReadsMarksNextToSymbols(t *testing.T) {
	renders(t, map[string]string{
		"costs **5**€, **49**$ or **10**₽":     "costs 5€, 49$ or 10₽ | bold(5) | bold(49) | bold(10)",
		"€**49**, US$**5**, ₹**7**":            "€49, US$5, ₹7 | bold(49) | bold(5) | bold(7)",
		"**20**°C, **70**℉ and *50*°":          "20°C, 70℉ and 50° | bold(20) | bold(70) | italic(50)",
		"**3**~**5**天, ~~**6**~~ ~**7** *~8*":  "3~5天, 6 ~7 ~8 | bold(3) | bold(5) | bold(6) | strikethrough(6) | bold(7) | italic(~8)",
		"**5**%**off**, 5%**off**":             "5%off, 5%off | bold(5) | bold(off) | bold(off)",
		"**x**=5, =**12**, ±**3**":             "x=5, =12, ±3 | bold(x) | bold(12) | bold(3)",
		"**5**>**3** and ≈**2**×**4**":         "5>3 and ≈2×4 | bold(5) | bold(3) | bold(2) | bold(4)",
		"takes <**5 min**, >**10 min**":        "takes <5 min, >10 min | bold(5 min) | bold(10 min)",
		"**a title**<br>**b**</p>":             "a title<br>b</p> | bold(a title) | bold(b)",
		"<b>**x**</b> **Foo**™ **Bar**®":       "<b>x</b> Foo™ Bar® | bold(x) | bold(Foo) | bold(Bar)",
		"**m**² and **CO**₂, **v**^2":          "m² and CO₂, v^2 | bold(m) | bold(CO) | bold(v)",
		"**Run:**`npm i`, **R**&**D**":         "Run:npm i, R&D | bold(Run:) | code(npm i) | bold(R) | bold(D)",
		"#**5**, №**6**, ~**7** ~~8~~€":        "#5, №6, ~7 8€ | bold(5) | bold(6) | bold(7) | strikethrough(8)",
		">**Note:** text\n> more":              "Note: text\nmore | blockquote(Note: text\nmore) | bold(Note:)",
		"**Net:**=5, **数量 单价**=6, **x**≤**y**": "Net:=5, 数量 单价=6, x≤y | bold(Net:) | bold(数量 单价) | bold(x) | bold(y)",
	})
	keeps(t, []string{
		"f(a=1,**kw) x**=2", "use **kw and x**=2", "f(**p, set<int**>)", "char **a, int**& b", "g(x=**kw, y=**kw2)",
		"2**€ = 2*$5*3", "a=**b; c=**d", "**p and (int**)", ">**5 people", "x **= 2; y **= 3", "3*4=12*1", "5*€ and 6*€", "&**argv",
	})
}

// TestRender_CountsLazyNumbersOnly has lists whose items all begin with "1.": because they are counted
// by the reader, or because the number means "first" or is a part of a date.
func TestRender_CountsLazyNumbersOnly(t *testing.T) {
	keeps(t, []string{
		"1. Klasse: 89 €\n1. Klasse mit BahnCard: 66 €", "1. FC Köln\n1. FC Union Berlin\n1. FSV Mainz 05",
		"1. Advent: 30.11.\n1. Weihnachtstag: 25.12.", "1. Bundesliga: Bayern\n1. Mannschaft: 3:1", "1. sal t.v.\n1. sal t.h.",
		"1. Vorsitzender: Ann\n1. Bürgermeister: Bob", "1. kerros: A\n1. kerros: B", "1. liga\n1. místo: Brno",
		"1. Gang: Suppe\n1. Gang: Salat", "1. Mai\n1. Weihnachtstag\n1. Termin",
		"1. januára: A\n1. májá: B\n1. října: C", "1. Okt. 2024\n1. Nov. 2024", "1. Korinther 13\n1. Johannes 4,8",
		"1. e4 – open\n1. d4 – closed\n1. Nf3 – Réti", "1. 5.: A\n1. 6.: B", "01. Intro\n01. Outro", "2. a\n2. b",
	})
	renders(t, map[string]string{
		"1. Die Tür\n1. Die Wand":                        "1. Die Tür\n2. Die Wand",
		"1. Open A\n1. Open B\n1. Tap C":                 "1. Open A\n2. Open B\n3. Tap C",
		"1. List the files\n1. Describe them":            "1. List the files\n2. Describe them",
		"1. Market\n1. Student\n1. Maybe\n1. Separate":   "1. Market\n2. Student\n3. Maybe\n4. Separate",
		"1) Jan Meier\n1) Octopus":                       "1) Jan Meier\n2) Octopus",
		"1. Tag anlegen\n1. Klasse schreiben\n1. Pushen": "1. Tag anlegen\n2. Klasse schreiben\n3. Pushen",
		"1. 10.50 € Ann\n1. 12.00 € Bob":                 "1. 10.50 € Ann\n2. 12.00 € Bob",
		"1. **Klasse**\n1. **Liga**":                     "1. Klasse\n1. Liga | bold(Klasse) | bold(Liga)",
		"1. `a`\n1. `b`":                                 "1. a\n2. b | code(a) | code(b)",
	})
}

// TestRender_KeepsFormulas has formulas between \[ and \], and words with escaped brackets.
func TestRender_KeepsFormulas(t *testing.T) {
	keeps(t, []string{
		`\[x=\frac{1}{2}\]`, `So \[x=\frac{1}{2}\] holds.`, `\[E=mc^2\]`, `\[F=ma\]`, `then \[a=b\], or \[ x=1\]`, `\[x=1 \]`,
		`\[x_1 < x_2\]`, "\\[\nx = 1\n\\]", "\\[\\begin{matrix} a \\\\[4pt] b \\end{matrix}\\]", `a \\[4pt] b`, `\[\sum_{i} (a^*)*(b^*)\]`,
		`\( x \) and \[ y \]`, `\[\alpha\] and \[\beta\]`, `\[a \le b\]`,
	})
	renders(t, map[string]string{
		`\[INFO\] started`:                "[INFO] started",
		`\[1\] and \[^2\]`:                "[1] and [^2]",
		`- \[x\] done`:                    "• [x] done",
		`\[no link\](https://a.example)`:  "[no link](https://a.example)",
		`run \[--name=me\] \[--all\] now`: "run [--name=me] [--all] now",
		`a\[0\] of \[a_bc\]`:              "a[0] of [a_bc]",
		`\[see [b](http://c)\] **x**`:     "[see b] x | text_link(b)=http://c | bold(x)",
	})
}
