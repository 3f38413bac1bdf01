// Package docs embeds the pages of the documentation.
//
// Each page is a Markdown file in this folder. `hubbub help TOPIC` prints it,
// so every text exists once.
package docs

import (
	"cmp"
	"embed"
	"slices"
	"strings"
)

//go:embed *.md
var pages embed.FS

// A Topic is a page that `hubbub help NAME` prints.
type Topic struct {
	Name    string // the file without its extension, or the beginning of its name
	Summary string // one line for the list of topics
	page    string // the file without its extension, if its name is longer
}

// File returns the name of the topic's file in this folder.
func (t Topic) File() string { return cmp.Or(t.page, t.Name) + ".md" }

// Text returns the page: Markdown, at most 80 columns wide outside of tables and code.
func (t Topic) Text() string {
	text, err := pages.ReadFile(t.File())
	if err != nil {
		panic(err) // every listed page is embedded, which a test checks
	}
	return strings.TrimRight(string(text), "\n")
}

// summaries lists the topics in the order in which `hubbub help` lists them.
var summaries = []Topic{
	{Name: "guarantees", Summary: "What Hubbub promises, and the tests that keep it true"},
	{Name: "limits", Summary: "Every bound, and what happens when it is reached"},
	{Name: "compatibility", Summary: "The programs and models that were tested"},
	{Name: "protocol", Summary: "The wire protocol, for authors of peers"},
	{Name: "specification", Summary: "Where Hubbub differs from its specifications, and why"},
	{Name: "peers", Summary: "How to write a peer in Go, JavaScript or Python"},
	{Name: "sending", Summary: "What a sender should do after each outcome"},
	{Name: "models", Summary: "How to give agents a model or a coding agent"},
	{Name: "attention", Summary: "How agents decide which messages to answer"},
	{Name: "c2a", page: "c2a-programs", Summary: "How to write a program that an agent runs"},
	{Name: "broker", Summary: "How to delegate work and be woken, in any language"},
	{Name: "chorus", Summary: "Agents, channels and webhooks over HTTP, and A2A"},
	{Name: "matrix", Summary: "Matrix rooms: who is admitted, what agents see, commands"},
	{Name: "operating", Summary: "Start, observe, back up, upgrade and repair"},
	{Name: "security", Summary: "Who is trusted with what, and what is not defended"},
	{Name: "architecture", Summary: "How the code is organized, and two journeys through it"},
	{Name: "performance", Summary: "What messages cost, beside other systems"},
}

// Topics returns every page in the order in which `hubbub help` lists them.
func Topics() []Topic { return slices.Clone(summaries) }
