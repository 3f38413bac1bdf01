package attention

import (
	"slices"
	"strings"
)

// A Decision says how one agent treats one event. Every field is set.
type Decision struct {
	Directedness Directedness `json:"directedness"`
	Policy       Policy       `json:"policy"` // in the terms of the configured draft
	Injection    Mode         `json:"injection"`
	Context      string       `json:"context,omitempty"` // ContextThread, or empty for none
	Priority     Priority     `json:"priority"`
	DeadlineMS   int64        `json:"deadlineMs,omitempty"` // for an answer; 0 if none is expected
	Reason       string       `json:"reason"`               // name of the rule and of further influences, joined by "+"
	Action       Action       `json:"action,omitempty"`     // what else the host does
	Knock        *Knock       `json:"knock,omitempty"`      // set if Injection is notify
	// the author waits for this agent until they close the event
	Obliges bool `json:"obliges,omitempty"`
}

// AddressedToMe is the directedness in draft 2026-06-24.
func (d Decision) AddressedToMe() bool { return d.Directedness == DirectedToMe }

// NeedsClaim reports whether the agent must claim the event before it answers, because others may
// see the same offer. It applies only if a broker grants claims.
func (d Decision) NeedsClaim() bool {
	return d.Directedness == DirectedToMyRole && d.Policy == PolicyMayRespond
}

// An Action is what the host does for an event apart from injecting it.
type Action string

// The actions.
const (
	ActionNone   Action = ""
	ActionCancel Action = "cancel" // stop the running turns for this author in this conversation
	ActionLeave  Action = "leave"  // answer once more, then stop participating here
	ActionReturn Action = "return" // participate again
	ActionSettle Action = "settle" // close the message reacted to, or the message that it answers: it is handled
)

// Decide returns how the agent self treats the event e, given its records (facts) and its
// configuration. It is total and pure.
func Decide(e Event, self Self, facts Facts, cfg Config) Decision {
	v := newSituation(&e, &self, &facts, &cfg)
	r := rules[slices.IndexFunc(rules, func(r rule) bool { return r.when(&v) })]
	d := Decision{
		Directedness: r.aim(&v), Policy: r.policy, Injection: r.mode, Priority: e.priority(), Reason: r.reason,
		Action: r.action,
	}
	if r.action == ActionCancel {
		d.Priority = PriorityUrgent
	}
	if d.Injection == ModeBuffered && d.Priority == PriorityUrgent {
		d.Injection = ModeImmediate
	}
	weaken(&d, &v)
	applyObligation(&d, &v)
	fitHarness(&d, &v)
	return d
}

// weaken lowers must_respond for old and already answered events, and marks returns and mere quotations.
func weaken(d *Decision, v *situation) {
	if v.facts.Left && v.mentions.me && d.Action == ActionNone {
		d.Action = ActionReturn
		d.Reason += "+returned"
	}
	if onlyQuotes(v.event.Text) {
		d.Reason += "+quoted"
	}
	if d.Policy != PolicyMustRespond {
		return
	}
	switch {
	case v.event.kind() == KindEdit && v.facts.Answered:
		d.Policy = PolicyMayRespond
		d.Reason = ReasonEdited
	case v.facts.Age > v.cfg.freshness():
		d.Policy = PolicyMayRespond
		d.Reason += "+stale"
	}
}

// fitHarness converts a decision to the terms of the draft and the modes of the harness.
func fitHarness(d *Decision, v *situation) {
	if d.Injection == ModeDigest && !v.cfg.Digests {
		d.Injection = ModeSilent
	}
	if !v.cfg.Inject.Supports(d.Injection) {
		d.Reason += "+no_" + string(d.Injection)
		d.Injection = ModeToolMailbox
		// it must reach the model: the host wrote its text
		if v.event.kind() == KindReturn && v.cfg.Inject.Supports(ModeBuffered) {
			d.Injection = ModeBuffered
		}
	}
	d.Policy = d.Policy.In(v.cfg.Version)
	if d.Injection.Injects() {
		d.Context = ContextThread
	}
	if d.Policy == PolicyMustRespond || d.Policy == PolicyMayRespond {
		d.DeadlineMS = v.cfg.deadline().Milliseconds()
	}
	if d.Injection == ModeNotify {
		d.Knock = newKnock(v, d)
	}
}

// Reasons that code compares: those of decisions that may change when the author writes more, of edits
// that programs are notified of, and of turns whose final texts are messages.
const (
	ReasonAmbient     = "ambient"
	ReasonFragment    = "fragment"
	ReasonEdited      = "edited_after_response"
	reasonStream      = "owned_stream"
	reasonThread      = "owned_thread"
	reasonParticipant = "thread_participant"
	reasonReminder    = "reminder"
	reasonProceeds    = "reaction_proceeds"
)

// Rule returns the name of the rule that decided.
func (d *Decision) Rule() string {
	rule, _, _ := strings.Cut(d.Reason, "+")
	return rule
}

// SaysFinalText reports whether the text with which a model ends the turn of an event is a message: the
// event must be answered, or it is a reminder or a thumb under a question, after which people wait for
// words. The final texts of other turns are remarks.
func (d *Decision) SaysFinalText() bool {
	return d.Policy == PolicyMustRespond || d.Policy == PolicyMayRespond &&
		slices.Contains([]string{reasonReminder, reasonProceeds}, d.Rule())
}

// NamesNobody reports whether the event names no addressee, so that only the place where it was written
// decided.
func (d *Decision) NamesNobody() bool {
	return slices.Contains([]string{ReasonAmbient, reasonStream, reasonThread, reasonParticipant}, d.Rule())
}

// AsFragment returns the decision for a part of the message that d is about.
func AsFragment(d Decision) Decision {
	d.Reason = ReasonFragment
	return d
}

// AfterClaim returns the decision for an event that the agent has claimed: its content is
// injected now, with its context.
func AfterClaim(d Decision, inject *Capabilities) Decision {
	d.Injection, d.Context, d.Knock, d.Reason = ModeBuffered, ContextThread, nil, "claim_granted"
	if !inject.Supports(ModeBuffered) {
		d.Injection, d.Context = ModeToolMailbox, ""
		d.Reason += "+no_buffered"
	}
	return d
}

// A situation holds everything that the rules need.
type situation struct {
	event      *Event
	self       *Self
	facts      *Facts
	cfg        *Config
	mentions   mentions
	words      []string // of the spoken part, without labels
	replyMe    bool     // it answers a message from this agent
	replyOther bool     // it answers a message from another agent
}

func newSituation(e *Event, self *Self, facts *Facts, cfg *Config) situation {
	spoken := spokenPart(e.Text)
	v := situation{
		event: e, self: self, facts: facts, cfg: cfg,
		mentions: resolveMentions(e, self, cfg.words(), spoken),
		words:    tokens(withoutLabels(spoken)),
	}
	if e.ReplyTo != nil && e.ReplyTo.Author != "" {
		v.replyMe = self.is(e.ReplyTo.Author)
		v.replyOther = !v.replyMe
	}
	return v
}

// isOwn reports whether the agent wrote the event itself.
func (v *situation) isOwn() bool {
	return v.event.authorKind() == AuthorAgent && v.self.is(v.event.Author.ID) ||
		v.self.ID != "" && v.event.Author.ID == v.self.ID
}

// isDirect reports whether the event is a direct message to this agent. Its recipient, if known,
// is the agent, and it does not mention only other agents that are in the same chat.
func (v *situation) isDirect() bool {
	if v.event.conversationKind() != ConversationDM {
		return false
	}
	if v.event.Recipient != "" {
		return v.self.is(v.event.Recipient)
	}
	return !v.namesOnlyAnother()
}

func (v *situation) namesOnlyAnother() bool {
	if v.mentions.me || v.mentions.role || len(v.facts.OtherAgents) == 0 {
		return false
	}
	named := slices.Concat(v.event.Mentions, textMentions(spokenPart(v.event.Text)))
	return slices.ContainsFunc(named, func(name string) bool {
		return slices.ContainsFunc(v.facts.OtherAgents, func(other string) bool {
			return (&Self{ID: other}).is(strings.TrimPrefix(name, "@"))
		})
	})
}

// isDirected reports whether the event is directed at this agent: it is a direct message,
// mentions the agent, answers it, or continues such a message.
func (v *situation) isDirected() bool {
	return v.mentions.me || v.isDirect() || v.replyMe && !v.mentions.others || v.continues() || v.answers()
}

// answers reports whether a person answers the agent's open question without naming anybody.
func (v *situation) answers() bool {
	return v.facts.Answers && v.event.authorKind() == AuthorHuman && v.namesNobody() && v.event.ReplyTo == nil
}

// continues reports whether the event is a fragment of a person's message to this agent.
func (v *situation) continues() bool {
	return v.facts.Continues && v.event.authorKind() == AuthorHuman && v.namesNobody() && !v.replyOther
}

// acknowledges reports whether the text is only thanks or similar, or only emoji that express no doubt,
// and neither asks anything nor shows code.
func (v *situation) acknowledges() bool {
	spoken := withoutLabels(spokenPart(v.event.Text))
	emoji := onlyEmoji(spoken) && !strings.ContainsAny(spoken, doubtfulEmoji)
	if v.event.Attachments > 0 || v.showsCode() || strings.ContainsAny(spoken, questionMarks) ||
		!emoji && !consistsOf(v.words, v.cfg.words().Acks, nil) {
		return false
	}
	asked := v.facts.Asked || v.facts.Offered && (!emoji || strings.ContainsAny(spoken, yesEmoji))
	answers := asked && v.event.authorKind() == AuthorHuman &&
		(emoji || !consistsOf(v.words, v.cfg.words().Thanks, nil) || offers(v.facts.Question, v.words)) &&
		v.isDirected()
	return !answers
}

// offers reports whether a question contains words as a phrase.
func offers(question string, words []string) bool {
	return len(words) > 0 && containsPhrase(spokenPart(question), []string{" " + strings.Join(words, " ") + " "})
}

// OffersChoice reports whether a text names an answer beside a word for "or", as "Say heat or cool." names "cool".
func OffersChoice(text, answer string) bool {
	choice := strings.Join(tokens(withoutLabels(spokenPart(answer))), " ")
	var phrases []string
	for _, or := range orWords {
		phrases = append(phrases, " "+or+" "+choice+" ", " "+choice+" "+or+" ")
	}
	return choice != "" && containsPhrase(spokenPart(text), phrases)
}

// orWords are words for "or" in languages that separate words.
var orWords = strings.Fields("or oder ou o u или або veya ya yoki atau lub czy of eller või nebo ή یا أو या")

// IsAcknowledgement reports whether a text is only thanks or similar, apart from labels, in the
// default words. If the text may be an answer, words that can answer, such as "ok", do not count.
func IsAcknowledgement(text string, answer bool) bool {
	said, w := tokens(withoutLabels(spokenPart(text))), &defaultWords().Words
	return consistsOf(said, w.Acks, nil) && !(answer && consistsOf(said, w.Yes, said))
}

// showsCode reports whether the text has code, which is not among its words.
func (v *situation) showsCode() bool { return strings.Contains(v.event.Text, "`") }

func (v *situation) stops() bool {
	spoken := withoutLabels(spokenPart(v.event.Text))
	sign := onlyEmoji(spoken) && strings.ContainsAny(spoken, stopEmoji) && !strings.ContainsAny(spoken, questionMarks)
	return v.event.Attachments == 0 && !v.showsCode() &&
		(sign || consistsOf(v.words, v.cfg.words().Stop, stopFillers))
}

// Stops reports whether the text of an event is a stop word of the configuration.
func (c Config) Stops(e *Event) bool {
	v := newSituation(e, &Self{}, &Facts{}, &c)
	return v.stops()
}

// asksToLeave reports whether the event asks the agent to leave: by its name or, unless that answers a
// question, in reply to its message. Nobody leaves a direct chat by a reply.
func (v *situation) asksToLeave() bool {
	asked := v.mentions.me || v.replyMe && v.namesNobody() && !v.facts.Asked &&
		v.event.conversationKind() != ConversationDM
	return asked && !v.showsCode() && consistsOf(v.words, v.cfg.words().Leave, leaveFillers) && !v.choosesLeave()
}

// choosesLeave reports whether leave words answer a question that offers them and is not about the agent
// itself, such as "Which button is it, join or leave?".
func (v *situation) choosesLeave() bool {
	isFiller := func(word string) bool { return slices.Contains(leaveFillers, word) }
	said := slices.DeleteFunc(slices.Clone(v.words), isFiller)
	return v.facts.Asked && offers(v.facts.Question, said) &&
		!slices.ContainsFunc(selfWords, func(word string) bool { return offers(v.facts.Question, []string{word}) })
}

// isWork reports whether the event assigns, requests or blocks work.
func (v *situation) isWork() bool {
	return slices.Contains([]EventKind{KindAssignment, KindApproval, KindBlocker, KindAnswer}, v.event.kind())
}

// isWorkForSelf reports whether work is for this agent: by recipient, by mention, or else because
// it was sent to this agent.
func (v *situation) isWorkForSelf() bool {
	if v.event.Recipient != "" {
		return v.self.is(v.event.Recipient)
	}
	return v.mentions.me || !v.mentions.others && !v.mentions.role
}

// isStatus reports whether the event is not conversation: logs, progress, system and tool
// conversations, and unknown kinds of events.
func (v *situation) isStatus() bool {
	said := v.event.kind() == KindMessage || v.event.kind() == KindEdit
	talk := slices.Contains([]ConversationKind{ConversationDM, ConversationChannel, ConversationThread},
		v.event.conversationKind())
	return !talk || !v.isWork() && (!said || v.event.authorKind() == AuthorSystem && !v.isDirected())
}

func (v *situation) ownsStream() bool {
	return v.event.Conversation.StreamID != "" && slices.Contains(v.self.Streams, v.event.Conversation.StreamID)
}
