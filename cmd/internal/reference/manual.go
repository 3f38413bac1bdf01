package reference

import (
	"cmp"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
)

// A Page is the manual page of a program, of the command line or of a help page.
type Page struct {
	Name, Section, Version string
	Short                  string // part of a sentence
	Text                   string
	Settings               []program.Setting // for a program
	Commands               []Command         // for the command line
}

// A Command is one command of the command line.
type Command struct {
	Use      string // without the program name
	Text     string
	Example  string // indented lines
	Settings []program.Setting
}

// ProgramPage returns the manual page of a program.
func ProgramPage(version string, d program.Description) Page {
	short, _, _ := strings.Cut(d.Summary, ";")
	return Page{
		Name:     d.Name,
		Section:  "1",
		Version:  version,
		Short:    short,
		Text:     sentence(d.Name + " " + d.Summary),
		Settings: d.Settings,
	}
}

// Roff formats the page for man(1).
func (p *Page) Roff() (string, error) { return execute("manual", p, nil) }

// lines wraps a text.
func lines(text string) string { return escape(strings.Join(term.Wrap(text, 80), "\n")) + "\n" }

// text formats paragraphs. Indented lines stay unchanged.
func text(text string) string {
	var b strings.Builder
	b.WriteString(".PP\n")
	literal := false
	for l := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(l, " "); indented != literal {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			literal = indented
		}
		b.WriteString(cmp.Or(escape(l), ".PP") + "\n")
	}
	if literal {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// meaning describes a flag.
func meaning(s program.Setting) string {
	usage := sentence(s.Usage)
	if d := strings.Trim(shortDuration(s.Default), "[]"); d != "" && d != "false" && d != "0s" && d != "0" {
		usage += " Default " + d + "."
	}
	return usage
}

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// escape escapes roff's special characters.
func escape(s string) string { return strings.TrimPrefix(roff.Replace("\n"+s), "\n") }
