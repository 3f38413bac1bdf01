package attention

import (
	"cmp"
	"strings"
	"time"
)

// A Rung is who is turned to about what an agent must answer and cannot.
type Rung string

// The rungs. RungAuthor is the last: whoever waits is told that there is no answer.
const (
	RungLead   Rung = "lead"
	RungOwner  Rung = "owner"
	RungPerson Rung = "person"
	RungAuthor Rung = "author"
)

// A Ladder is who answers what the agent must answer and cannot, by name or identity ("lead",
// "agent:lead", "tg:77"); an empty rung is passed over.
type Ladder struct {
	Lead   string        `json:"lead,omitempty"`
	Owner  string        `json:"owner,omitempty"`  // of the work, or of the agent
	Person string        `json:"person,omitempty"` // whom policy names
	People []string      `json:"people,omitempty"` // of the chat, asked in this order where nobody of the above can be
	Each   time.Duration `json:"eachNs,omitempty"` // that each of them has for an answer
}

// DefaultRung is how long each rung has unless something else is asked for.
const DefaultRung = 10 * time.Minute

// A Climb is what the records say about an event that the agent cannot answer.
type Climb struct {
	Self, Author string
	Asked        map[Rung]string // who was asked already
	Unreached    map[Rung]bool   // who cannot be asked: no broker is there, and no chat of theirs
	Busy         map[Rung]bool   // who has as many such questions as one may have
}

// A Step is the next rung. Its reason names each rung that was passed over, and why.
type Step struct {
	Rung   Rung
	To     string // an identity; of RungAuthor the author
	Reason string
}

// Next returns who is asked next: each rung once, and nobody twice.
func (l Ladder) Next(c Climb) Step {
	reason := "unanswered"
	for _, r := range []struct {
		rung Rung
		who  string
	}{{RungLead, l.Lead}, {RungOwner, l.Owner}, {RungPerson, l.Person}} {
		who := identity(r.who)
		why := ""
		switch {
		case who == "":
			continue
		case c.Asked[r.rung] != "", asked(c.Asked, who):
			why = "asked"
		case who == identity(c.Self):
			why = "itself"
		case who == identity(c.Author):
			why = "waits"
		case c.Unreached[r.rung]:
			why = "unreached"
		case c.Busy[r.rung]:
			why = "busy"
		default:
			return Step{r.rung, who, reason}
		}
		reason += "+" + string(r.rung) + "_" + why
	}
	for _, who := range l.People {
		if who = identity(who); who != "" && who != identity(c.Author) && !asked(c.Asked, who) {
			return Step{RungPerson, who, reason}
		}
	}
	return Step{RungAuthor, c.Author, reason}
}

// identity returns the identity that a rung's name means: a bare name is an agent's.
func identity(name string) string {
	name = strings.TrimPrefix(strings.TrimSpace(name), "@")
	if name == "" || strings.Contains(name, ":") {
		return name
	}
	return "agent:" + name
}

func asked(before map[Rung]string, who string) bool {
	for _, b := range before {
		if identity(b) == who {
			return true
		}
	}
	return false
}

// On returns the ladder of work that names its own lead and owner, which come before those of
// the agent.
func (l Ladder) On(lead, owner string) Ladder {
	l.Lead, l.Owner = cmp.Or(lead, l.Lead), cmp.Or(owner, l.Owner)
	return l
}

// Who returns who stands on a rung, as an identity.
func (l Ladder) Who(r Rung) string {
	return identity(map[Rung]string{RungLead: l.Lead, RungOwner: l.Owner, RungPerson: l.Person}[r])
}
