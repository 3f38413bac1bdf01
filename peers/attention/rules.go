package attention

import "slices"

// A rule is one row of the decision table.
type rule struct {
	reason string // its name, which the decision carries
	when   func(*view) bool
	aim    func(*view) Directedness
	policy Policy
	mode   Mode
	action Action
}

// rules is the decision table of C2A. The first row that applies decides; the
// last one always applies. The order is the precedence: what happened, then
// whether the agent takes part here, then what is said, then to whom.
var rules = []rule{
	{"own_message", (*view).own, ambient, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"deleted", ofKind(KindDelete), nominal, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"membership", ofKind(KindMembership), ambient, PolicyMustNotRespond, ModeSilent, ActionNone},

	{"stop_pressed", all(ofKind(KindReaction), withSignal(SignalStop), byPerson, ofNoAgent), reacted, PolicyMustNotRespond, ModeToolMailbox, ActionSettle},
	{"reaction_removed", all(ofKind(KindReaction), withSignal("")), reacted, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"reaction_asks", all(ofKind(KindReaction), onMine, withSignal(SignalDeclined, SignalBlocked, SignalUnclear)),
		toMe, PolicyMayRespond, ModeNotify, ActionNone},
	{"reaction_proceeds", all(ofKind(KindReaction), onMine, withSignal(SignalAgree), func(v *view) bool { return v.facts.Asked }),
		toMe, PolicyMayRespond, ModeNotify, ActionNone},
	{"reaction", all(ofKind(KindReaction), onMine, withSignal(SignalDone), byPerson), toMe, PolicyMustNotRespond, ModeNotify, ActionSettle},
	{"reaction_elsewhere", all(ofKind(KindReaction), withSignal(SignalDone), byPerson, ofNoAgent), reacted, PolicyMustNotRespond, ModeToolMailbox, ActionSettle},
	{"reaction", all(ofKind(KindReaction), onMine), toMe, PolicyMustNotRespond, ModeNotify, ActionNone},
	{"reaction_elsewhere", ofKind(KindReaction), reacted, PolicyMustNotRespond, ModeToolMailbox, ActionNone},

	{"undelivered", ofKind(KindUndelivered), toMe, PolicyMayRespond, ModeBuffered, ActionNone},
	{"reminder", all(ofKind(KindReminder), func(v *view) bool { return !v.facts.Left }), toMe, PolicyMayRespond, ModeBuffered, ActionNone},
	{"obligation_returns", ofKind(KindReturn), toMe, PolicyMustRespond, ModeNotify, ActionNone},
	{"status", (*view).status, ambient, PolicyMustNotRespond, ModeDigest, ActionNone},

	{"left", func(v *view) bool { return v.facts.Left && !v.mentions.me }, nominal, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"asked_to_leave", (*view).asksToLeave, toMe, PolicyMustRespond, ModeImmediate, ActionLeave},

	{"work_of_another", func(v *view) bool { return v.work() && !v.workForMe() },
		toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"assignment", ofKind(KindAssignment), toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"approval", ofKind(KindApproval), toMe, PolicyMustRespond, ModeImmediate, ActionNone},
	{"blocker", ofKind(KindBlocker), toMe, PolicyMustRespond, ModeImmediate, ActionNone},

	{"answer", ofKind(KindAnswer), toMe, PolicyMayRespond, ModeBuffered, ActionNone},

	{"told_nobody", carrying(DirectedAmbient), ambient, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"addressed_to_other", (*view).carriedPast, toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"told_role", all(carrying(DirectedToMyRole), (*view).namesNobody), toMyRole, PolicyMayRespond, ModeNotify, ActionNone},

	{"acknowledgement", all((*view).acknowledges, (*view).aimed), toMe, PolicyAckOnly, ModeSilent, ActionNone},
	{"acknowledgement", (*view).acknowledges, nominal, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"stop_word", all((*view).stops, (*view).aimed), toMe, PolicyMustRespond, ModeImmediate, ActionCancel},
	{"repeated", (*view).repeats, nominal, PolicyMustNotRespond, ModeToolMailbox, ActionNone},

	{"direct_message", (*view).direct, toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"mention", func(v *view) bool { return v.mentions.me }, toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"direct_question", (*view).aimed, toMe, PolicyMustRespond, ModeBuffered, ActionNone},

	{"role_mention", func(v *view) bool { return v.mentions.role }, toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{"addressed_to_other", (*view).toOther, toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"owned_stream", (*view).ownsStream, toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{"owned_thread", func(v *view) bool { return v.event.inThread() && v.facts.OwnsThread },
		toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{"thread_participant", func(v *view) bool { return v.event.inThread() && v.facts.Participating },
		toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{"agent_without_task", func(v *view) bool { return v.event.authorKind() == AuthorAgent },
		toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"ambient", func(*view) bool { return true }, ambient, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
}

func all(conditions ...func(*view) bool) func(*view) bool {
	return func(v *view) bool {
		return !slices.ContainsFunc(conditions, func(holds func(*view) bool) bool { return !holds(v) })
	}
}

func ofKind(kind EventKind) func(*view) bool {
	return func(v *view) bool { return v.event.kind() == kind }
}

func withSignal(signals ...Signal) func(*view) bool {
	return func(v *view) bool { return slices.Contains(signals, Signal(v.event.Signal)) }
}

// onMine reports whether a reaction was put on a message of this agent.
func onMine(v *view) bool { return v.replyMe }

func ofNoAgent(v *view) bool { return !v.replyNot }

func byPerson(v *view) bool { return v.event.authorKind() == AuthorHuman }

// carrying selects what an agent wrote that says so itself whom it obliges.
func carrying(d Directedness) func(*view) bool {
	return func(v *view) bool { return v.event.authorKind() == AuthorAgent && v.event.Directedness == d }
}

func (v *view) namesNobody() bool { return v.mentions == mentions{} }

// carriedPast reports whether what an agent wrote obliges somebody, as it says itself, who
// is not this agent: it names neither this agent nor a role that it has, and if it is for
// whom it answers, it answers somebody else.
func (v *view) carriedPast() bool {
	if v.mentions.me || v.mentions.role {
		return false
	}
	return carrying(DirectedToOther)(v) || carrying(DirectedToMe)(v) && !v.aimed()
}

// reacted returns at whom a reaction is aimed: at the author of its message.
func reacted(v *view) Directedness {
	switch {
	case v.replyMe:
		return DirectedToMe
	case v.replyNot:
		return DirectedToOther
	}
	return DirectedAmbient
}

// repeats reports whether an agent says what it was heard for already, and was not asked to.
func (v *view) repeats() bool {
	return v.facts.Repeated && v.event.authorKind() == AuthorAgent && !v.facts.Asked
}

// toOther reports whether somebody else is the clear recipient.
func (v *view) toOther() bool {
	return v.mentions.others || v.replyNot || v.event.conversationKind() == ConversationDM
}

// nominal returns at whom an event is aimed, for rules that do not depend on it.
func nominal(v *view) Directedness {
	switch {
	case v.aimed():
		return DirectedToMe
	case v.mentions.role:
		return DirectedToMyRole
	case v.toOther():
		return DirectedToOther
	case v.ownsStream(), v.event.inThread() && (v.facts.OwnsThread || v.facts.Participating):
		return DirectedToMyRole
	}
	return DirectedAmbient
}

// The aims of rules for which one directedness holds.
var (
	toMe     = always(DirectedToMe)
	toMyRole = always(DirectedToMyRole)
	toOther  = always(DirectedToOther)
	ambient  = always(DirectedAmbient)
)

func always(d Directedness) func(*view) Directedness { return func(*view) Directedness { return d } }
