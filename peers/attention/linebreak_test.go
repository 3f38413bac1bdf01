package attention_test

import (
	"testing"

	"hubbub/peers/attention"
)

func TestWithLineBreaks_ReadsOnlyEscapedOnes(t *testing.T) {
	for text, want := range map[string]string{
		`Line one.\nLine two.\n- a\n- b`:             "Line one.\nLine two.\n- a\n- b",
		`Hello!\n\nHow are you?`:                     "Hello!\n\nHow are you?",
		`Steps:\n1. Cut\n2. Boil\n\nEnjoy \"it\"!\n`: "Steps:\n1. Cut\n2. Boil\n\nEnjoy \"it\"!",
		`Eins\nZwei\nDrei`:                           "Eins\nZwei\nDrei",
		`Привет!\n\nкак дела?`:                       "Привет!\n\nкак дела?",
		`買い物：\n- 牛乳\n- 卵`:                            "買い物：\n- 牛乳\n- 卵",
		`One.\nTwo.`:                                 "One.\nTwo.",
		`"Hi," she said.\nThen left.\nEnd.`:          "\"Hi,\" she said.\nThen left.\nEnd.",
		`a.\r\n\r\nB`:                                "a.\n\nB",
	} {
		if got := attention.WithLineBreaks(text); got != want {
			t.Errorf("%q became %q; want %q", text, got, want)
		}
	}
	for _, text := range []string{
		"", "  ", " a ", `C:\new`, `C:\new\nothing`, `D:\notes and E:\notes`, `\\nas\new\notes`, `\n is a new line, \n\n two`,
		`a line ends with \n`, `split at '\n\n' or "\n"`, "print(`a.\\n\\nb.`)", "a.\\n\\nb.\nc", `{"a": "x.\ny.\nz."}`,
		`^a\nb\n$`, `one.\ntwo.`, `printf("%d\n%d\n", a, b)`, `the regex \w+\n\w+\n`, `dir\new.\notes`,
		`$f(x)\neq 0$ and $g(x)\neq 0$`, `(a),\nu,\nabla`, `D:\Data\nUnit\nBase`, `/foo.*\nbar.*\nbaz/`,
		`print("One.\nTwo.\nThree.")`,
	} {
		if got := attention.WithLineBreaks(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
