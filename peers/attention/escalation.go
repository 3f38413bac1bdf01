package attention

import (
	"cmp"
	"strings"
	"time"
)

// A Level says who is asked about an event that the agent must answer and cannot.
type Level string

// The levels of escalation. At the last one, LevelAuthor, the author is notified that there is no
// answer.
const (
	LevelLead   Level = "lead"
	LevelOwner  Level = "owner"
	LevelPerson Level = "person"
	LevelAuthor Level = "author"
)

// An EscalationPolicy says who answers in place of the agent, by name or identity ("lead",
// "agent:lead", "tg:77"). An empty level is skipped.
type EscalationPolicy struct {
	Lead   string `flag:"lead" json:"lead,omitempty" usage:"agent, or person such as tg:77 or cli:ann, who is asked first to answer what this agent must answer but cannot"`
	Owner  string `flag:"owner" json:"owner,omitempty" usage:"agent or person who answers for this agent, asked next; the owner of a work item comes before them"`
	Person string `flag:"person" json:"person,omitempty" usage:"person who is asked last, before the author is notified, and who decides on tools if no person asked for anything"`
	// members of the chat, asked in this order if nobody above can be asked
	People  []string      `json:"people,omitempty"`
	Timeout time.Duration `flag:"escalate-after" positive:"10m" json:"eachNs,omitempty" usage:"time that each of --lead, --owner and --person has for an answer"`
}

// An Escalation is the recorded state of the escalation of one event.
type Escalation struct {
	Self, Author string
	Asked        map[Level]string // who was asked at each level
	Unreachable  map[Level]bool   // cannot be asked: no broker is running, or no chat is known
	Busy         map[Level]bool   // has the maximum number of such questions
}

// An EscalationStep is the next level. Its reason names each level that was skipped, and why.
type EscalationStep struct {
	Level  Level
	To     string // an identity; at LevelAuthor, the author
	Reason string
}

// Next returns the next level. It asks each level once and nobody twice.
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

// identity returns the identity for a name in a policy: a bare name is an agent's.
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

// WithOwners returns the policy for work that names its own lead and owner, which override those
// of the agent.
func (l EscalationPolicy) WithOwners(lead, owner string) EscalationPolicy {
	l.Lead, l.Owner = cmp.Or(lead, l.Lead), cmp.Or(owner, l.Owner)
	return l
}

// Target returns the identity at a level.
func (l EscalationPolicy) Target(r Level) string {
	return identity(map[Level]string{LevelLead: l.Lead, LevelOwner: l.Owner, LevelPerson: l.Person}[r])
}
