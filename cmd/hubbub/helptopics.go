package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed help/*.txt
var helpTexts embed.FS

// A topic is a text of `hubbub help NAME`.
type topic struct {
	name, short string
	text        string
}

// topics returns the texts, in the order in which help lists them.
func topics() []topic {
	list := []topic{
		{name: "protocol", short: "How to write a peer, in any language"},
		{name: "operating", short: "Backup, retention, upgrades, credentials, what metrics mean"},
		{name: "security", short: "Who is trusted with what, and what is not defended against"},
		{name: "limits", short: "Every bound, and what happens when it is reached"},
		{name: "attention", short: "How agents decide what is theirs to answer"},
		{name: "chorus", short: "Agents and channels over HTTP"},
	}
	for i := range list {
		text, err := helpTexts.ReadFile("help/" + list[i].name + ".txt")
		if err != nil {
			panic(err) // the file is embedded, and a test reads all
		}
		list[i].text = strings.TrimSuffix(string(text), "\n")
	}
	return list
}

// addTopics adds the texts to `hubbub help`. If a command has the name of a topic, the
// topic's text is added to the command's own.
func addTopics(root *cobra.Command) {
	for _, t := range topics() {
		own := true
		for _, c := range root.Commands() {
			if c.Name() == t.name {
				c.Long = strings.TrimSpace(c.Long) + "\n\n" + t.text
				own = false
			}
		}
		if own {
			root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: t.text})
		}
	}
}
