package reference

import (
	"fmt"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
)

// A Command is one command of the command line.
type Command struct {
	Use      string // without the name of the program
	Text     string
	Example  string // lines, indented
	Settings []program.Setting
}

// ProgramPage writes the manual page (section 1) of a program.
func ProgramPage(version string, d program.Description) string {
	var p page
	p.head(d.Name, "1", version, strings.SplitN(d.Summary, ";", 2)[0])
	p.section("SYNOPSIS")
	p.line(`.B ` + escape(d.Name))
	p.line(`[\fIflags\fR]`)
	p.section("DESCRIPTION")
	p.paragraph(sentence(d.Name + " " + d.Summary))
	p.paragraph("Every flag is also an environment variable (--log-level: HUBBUB_LOG_LEVEL) and a key of the TOML file given by " +
		"--config (log-level). Flags win over variables, and variables over the file.")
	p.section("FLAGS")
	p.settings(d.Settings)
	p.section("EXIT STATUS")
	p.paragraph("0 after a clean stop (SIGTERM), 1 after a failure, 2 when flags, variables or the file are wrong.")
	p.see()
	return p.String()
}

// CommandPage writes the manual page (section 1) of the command line.
func CommandPage(version, text string, commands []Command) string {
	var p page
	p.head("hubbub", "1", version, "run, watch and use a message bus of chats and agents")
	p.section("SYNOPSIS")
	p.line(`.B hubbub`)
	p.line(`\fIcommand\fR [\fIflags\fR]`)
	p.section("DESCRIPTION")
	p.paragraph(text)
	p.section("COMMANDS")
	for _, c := range commands {
		p.line(`.SS ` + escape("hubbub "+c.Use))
		p.text(c.Text)
		p.settings(c.Settings)
		if c.Example != "" {
			p.text(c.Example)
		}
	}
	p.see()
	return p.String()
}

// TopicPage writes the manual page (section 7) of a text.
func TopicPage(version, name, short, text string) string {
	var p page
	p.head(name, "7", version, strings.ToLower(short[:1])+short[1:])
	p.section("DESCRIPTION")
	p.text(text)
	p.see()
	return p.String()
}

// A page is a text in the language of man(1).
type page struct{ strings.Builder }

func (p *page) line(s string) { p.WriteString(s + "\n") }

func (p *page) head(name, section, version, short string) {
	p.line(`.\" Made by hubbub manual; do not edit.`)
	p.line(fmt.Sprintf(`.TH "%s" "%s" "" "Hubbub %s" "Hubbub"`, strings.ToUpper(escape(name)), section, escape(version)))
	p.section("NAME")
	p.line(escape(name) + ` \- ` + escape(short))
}

func (p *page) section(name string) { p.line(".SH " + name) }

func (p *page) paragraph(text string) {
	p.line(".PP")
	for _, l := range screen.Wrap(text, 80) {
		p.line(escape(l))
	}
}

// text writes paragraphs. Indented lines stay as they are.
func (p *page) text(text string) {
	literal := false
	p.line(".PP")
	for l := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(l, " ")
		switch {
		case indented && !literal:
			p.line(".nf")
		case !indented && literal:
			p.line(".fi")
		}
		literal = indented
		if l == "" {
			p.line(".PP")
			continue
		}
		p.line(escape(l))
	}
	if literal {
		p.line(".fi")
	}
}

func (p *page) settings(list []program.Setting) {
	for _, s := range list {
		p.line(".TP")
		if s.Type == "bool" {
			p.line(`\fB` + escape("--"+s.Name) + `\fR`)
		} else {
			p.line(`\fB` + escape("--"+s.Name) + `\fR \fI` + escape(s.Type) + `\fR`)
		}
		usage := sentence(s.Usage)
		if d := strings.Trim(short(s.Default), "[]"); d != "" && d != "false" && d != "0s" && d != "0" {
			usage += " Default " + d + "."
		}
		for _, l := range screen.Wrap(usage, 80) {
			p.line(escape(l))
		}
	}
}

func (p *page) see() {
	p.section("SEE ALSO")
	p.line(`.BR hubbub (1),`)
	p.line(`.BR hubbub\-operating (7),`)
	p.line(`.BR hubbub\-protocol (7),`)
	p.line(`.BR hubbub\-security (7)`)
}

// escape escapes what has a meaning in roff.
func escape(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
