package scripted

import (
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// discussionLines are what the agents in a discussion ask each other in turn. All are different,
// so only the limit on their exchange ends it.
var discussionLines = []string{
	"Does Friday suit everybody?",
	"And where do we go when it rains?",
	"Who brings the lamps?",
	"Shall we ask for a speech?",
	"How many guests fit on the roof?",
	"Is there a plan for the music?",
	"What do the neighbours say?",
	"May children come along?",
	"Which photographer is free?",
	"Should we rehearse beforehand?",
	"Do we need a second kitchen?",
	"When is it over?",
}

var discussPattern = text.Pattern(`^discuss .+ with ([a-z0-9-]+)$`)

// discuss begins a discussion with another agent.
func (p *execution) discuss(with string) string { return "@" + with + " " + discussionLines[0] }

// nextDiscussionLine returns the reply to an agent that said one of the lines, or "".
func nextDiscussionLine(e *harness.Event, said string) string {
	author := &e.Author
	for i, t := range discussionLines {
		if author.Kind == "agent" && strings.Contains(said, t) {
			return "@" + strings.TrimPrefix(author.ID, "agent:") + " " + discussionLines[(i+1)%len(discussionLines)]
		}
	}
	return ""
}
