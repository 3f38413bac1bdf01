//go:build ignore

// Command secretrules selects the rules of gitleaks that protocol/redact can apply. The secret of
// such a rule begins with fixed letters, by which it is found without a search, and is one word,
// so that it ends within its JSON string. The command reads the rules from standard input and
// prints one line for each: id, minimum entropy, whether no letter or digit may follow,
// beginnings, expression. See scripts/secret-rules.
package main

import (
	"fmt"
	"os"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/BurntSushi/toml"
)

// follows is the end of those expressions of gitleaks that require the secret to end there.
const follows = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"

func main() {
	var from struct {
		Rules []struct {
			ID, Regex string
			Entropy   float64
		}
	}
	if _, err := toml.NewDecoder(os.Stdin).Decode(&from); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, r := range from.Rules {
		core, ends := strings.CutSuffix(r.Regex, follows)
		tree, err := syntax.Parse(core, syntax.Perl)
		if err != nil || r.Regex == "" || !word(tree) {
			continue
		}
		begin, _ := beginnings(tree)
		slices.Sort(begin)
		begin = slices.Compact(begin)
		if len(begin) == 0 || slices.ContainsFunc(begin, func(s string) bool { return len(s) < 3 }) {
			continue
		}
		end := "-"
		if ends {
			end = "ends"
		}
		fmt.Printf("%s\t%g\t%s\t%s\t%s\n", r.ID, r.Entropy, end, strings.Join(begin, " "), core)
	}
}

// word reports whether an expression matches only characters that need no escape in JSON and are
// not white space.
func word(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return false
	case syntax.OpLiteral:
		return !slices.ContainsFunc(re.Rune, func(r rune) bool { return !inWord(r) })
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if !inWord(r) {
					return false
				}
			}
		}
	}
	return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !word(sub) })
}

func inWord(r rune) bool {
	return r > ' ' && r < 0x7f && r != '"' && r != '\\' || r == 0x17f || r == 0x212a // the last two fold to s and k
}

// beginnings returns the possible beginnings of a match, and whether they are whole matches.
func beginnings(re *syntax.Regexp) (list []string, whole bool) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpWordBoundary:
		return []string{""}, true
	case syntax.OpCapture:
		return beginnings(re.Sub[0])
	case syntax.OpLiteral:
		text := string(re.Rune)
		if re.Flags&syntax.FoldCase != 0 && strings.IndexFunc(text, unicode.IsLetter) >= 0 {
			return []string{strings.ToLower(text), strings.ToUpper(text)}, true
		}
		return []string{text}, true
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1] && r < 0x7f; r++ {
				list = append(list, string(r))
			}
		}
		if len(list) > 8 {
			return []string{""}, false
		}
		return list, true
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			more, all := beginnings(sub)
			list, whole = append(list, more...), whole && all
		}
		return list, whole
	case syntax.OpConcat:
		list = []string{""}
		for _, sub := range re.Sub {
			more, all := beginnings(sub)
			var longer []string
			for _, a := range list {
				for _, b := range more {
					longer = append(longer, a+b)
				}
			}
			if len(longer) > 32 {
				return list, false
			}
			list = longer
			if !all {
				return list, false
			}
		}
		return list, true
	case syntax.OpPlus:
		list, _ = beginnings(re.Sub[0])
		return list, false
	}
	return []string{""}, false
}
