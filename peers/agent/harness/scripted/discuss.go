package scripted

import (
	"regexp"
	"strings"

	"hubbub/peers/agent/harness"
)

// thoughts are what the agents of a discussion ask each other in turn. No two are alike, so
// that nothing but the bound of their exchange ends it.
var thoughts = []string{
	"Does Friday suit everybody?", "And where do we go when it rains?", "Who brings the lamps?", "Shall we ask for a speech?",
	"How many guests fit on the roof?", "Is there a plan for the music?", "What do the neighbours say?", "May children come along?",
	"Which photographer is free?", "Should we rehearse beforehand?", "Do we need a second kitchen?", "When is it over?",
}

var discussion = regexp.MustCompile(`^discuss .+ with ([a-z0-9-]+)$`)

// discuss begins a discussion with another agent.
func (p *play) discuss(with string) string { return "@" + with + " " + thoughts[0] }

// thoughtAfter returns what is said next to the agent that said a thought, "" if none was said.
func thoughtAfter(e *harness.Event, said string) string {
	author := &e.Author
	for i, t := range thoughts {
		if author.Kind == "agent" && strings.Contains(said, t) {
			return "@" + strings.TrimPrefix(author.ID, "agent:") + " " + thoughts[(i+1)%len(thoughts)]
		}
	}
	return ""
}
