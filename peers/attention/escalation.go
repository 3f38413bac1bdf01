package attention

import (
	"cmp"
	"strings"
	"time"
)

// A Level is who is turned to about what an agent must answer and cannot.
type Level string

// The rungs. LevelAuthor is the last: whoever waits is told that there is no answer.
const (
	LevelLead   Level = "lead"
	LevelOwner  Level = "owner"
	LevelPerson Level = "person"
	LevelAuthor Level = "author"
)

// A EscalationPolicy is who answers what the agent must answer and cannot, by name or identity ("lead",
// "agent:lead", "tg:77"); an empty rung is passed over.
type EscalationPolicy struct {
	Lead    string        `json:"lead,omitempty"`
	Owner   string        `json:"owner,omitempty"`  // of the work, or of the agent
	Person  string        `json:"person,omitempty"` // whom policy names
	People  []string      `json:"people,omitempty"` // of the chat, asked in this order where nobody of the above can be
	Timeout time.Duration `json:"eachNs,omitempty"` // that each of them has for an answer
}

// DefaultLevelTimeout is how long each rung has unless something else is asked for.
const DefaultLevelTimeout = 10 * time.Minute

// A Escalation is what the records say about an event that the agent cannot answer.
type Escalation struct {
	Self, Author string
	Asked        map[Level]string // who was asked already
	Unreachable  map[Level]bool   // who cannot be asked: no broker is there, and no chat of theirs
	Busy         map[Level]bool   // who has as many such questions as one may have
}

// A EscalationStep is the next rung. Its reason names each rung that was passed over, and why.
type EscalationStep struct {
	Level  Level
	To     string // an identity; of LevelAuthor the author
	Reason string
}

// Next returns who is asked next: each rung once, and nobody twice.
func (l EscalationPolicy) Next(c Escalation) EscalationStep {
	reason := "unanswered"
	for _, r := range []struct {
		rung Level
		who  string
	}{{LevelLead, l.Lead}, {LevelOwner, l.Owner}, {LevelPerson, l.Person}} {
		who := identity(r.who)
		why := ""
		switch {
		case who == "":
			continue
		case c.Asked[r.rung] != "", wasAsked(c.Asked, who):
			why = "asked"
		case who == identity(c.Self):
			why = "itself"
		case who == identity(c.Author):
			why = "waits"
		case c.Unreachable[r.rung]:
			why = "unreached"
		case c.Busy[r.rung]:
			why = "busy"
		default:
			return EscalationStep{r.rung, who, reason}
		}
		reason += "+" + string(r.rung) + "_" + why
	}
	for _, who := range l.People {
		if who = identity(who); who != "" && who != identity(c.Author) && !wasAsked(c.Asked, who) {
			return EscalationStep{LevelPerson, who, reason}
		}
	}
	return EscalationStep{LevelAuthor, c.Author, reason}
}

// identity returns the identity that a rung's name means: a bare name is an agent's.
func identity(name string) string {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	if name == "" || strings.Contains(name, ":") {
		return name
	}
	return "agent:" + name
}

func wasAsked(before map[Level]string, who string) bool {
	for _, b := range before {
		if identity(b) == who {
			return true
		}
	}
	return false
}

// WithOwners returns the ladder of work that names its own lead and owner, which come before those of
// the agent.
func (l EscalationPolicy) WithOwners(lead, owner string) EscalationPolicy {
	l.Lead, l.Owner = cmp.Or(lead, l.Lead), cmp.Or(owner, l.Owner)
	return l
}

// Target returns who stands on a rung, as an identity.
func (l EscalationPolicy) Target(r Level) string {
	return identity(map[Level]string{LevelLead: l.Lead, LevelOwner: l.Owner, LevelPerson: l.Person}[r])
}
