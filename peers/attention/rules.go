package attention

import "slices"

// A rule is one row of the decision table.
type rule struct {
	reason string // its name, which becomes the decision's reason
	when   func(*situation) bool
	aim    func(*situation) Directedness
	policy Policy
	mode   Mode
	action Action
}

// rules is the decision table of C2A. The first row that applies decides; the last one always
// applies. The order is the precedence: the kind of event, whether the agent participates here,
// the text, and the addressee.
var rules = []rule{
	{"own_message", (*situation).isOwn, ambient, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"deleted", ofKind(KindDelete), mentionDirectedness, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"membership", ofKind(KindMembership), ambient, PolicyMustNotRespond, ModeSilent, ActionNone},

	{"stop_pressed", all(ofKind(KindReaction), withSignal(SignalStop), byPerson, ofNoAgent), reactionDirectedness,
		PolicyMustNotRespond, ModeToolMailbox, ActionSettle},
	{"chat_stopped", all(ofKind(KindMessage), withSignal(SignalStop), byPerson), toMe, PolicyMustNotRespond,
		ModeToolMailbox, ActionCancel},
	{"reaction_removed", all(ofKind(KindReaction), withSignal(""), func(v *situation) bool { return v.event.Text == "" }),
		reactionDirectedness, PolicyMustNotRespond, ModeSilent, ActionNone},
	{"reaction_unknown", all(ofKind(KindReaction), withSignal("")), reactionDirectedness, PolicyMustNotRespond,
		ModeSilent, ActionNone},
	{"reaction_asks", all(ofKind(KindReaction), onMine, isNews,
		withSignal(SignalDeclined, SignalBlocked, SignalUnclear)), toMe, PolicyMayRespond, ModeNotify, ActionNone},
	{reasonProceeds, all(ofKind(KindReaction), onMine, isNews, withSignal(SignalAgree),
		func(v *situation) bool { return v.facts.Asked }),
		toMe, PolicyMayRespond, ModeNotify, ActionNone},
	{"reaction", all(ofKind(KindReaction), onMine, withSignal(SignalDone), byPerson), toMe, PolicyMustNotRespond,
		ModeNotify, ActionSettle},
	{"reaction_elsewhere", all(ofKind(KindReaction), withSignal(SignalDone), byPerson, ofNoAgent), reactionDirectedness,
		PolicyMustNotRespond, ModeToolMailbox, ActionSettle},
	{"reaction", all(ofKind(KindReaction), onMine), toMe, PolicyMustNotRespond, ModeNotify, ActionNone},
	{"reaction_elsewhere", ofKind(KindReaction), reactionDirectedness, PolicyMustNotRespond, ModeToolMailbox,
		ActionNone},

	{"undelivered", ofKind(KindUndelivered), toMe, PolicyMayRespond, ModeBuffered, ActionNone},
	{reasonReminder, all(ofKind(KindReminder), func(v *situation) bool { return !v.facts.Left }), toMe,
		PolicyMayRespond, ModeBuffered, ActionNone},
	{"obligation_returns", ofKind(KindReturn), toMe, PolicyMustRespond, ModeNotify, ActionNone},
	{"status", (*situation).isStatus, ambient, PolicyMustNotRespond, ModeDigest, ActionNone},

	{"left", func(v *situation) bool { return v.facts.Left && !v.mentions.me }, mentionDirectedness,
		PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"asked_to_leave", (*situation).asksToLeave, toMe, PolicyMustRespond, ModeImmediate, ActionLeave},

	{"work_of_another", func(v *situation) bool { return v.isWork() && !v.isWorkForSelf() },
		toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"assignment", ofKind(KindAssignment), toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"approval", ofKind(KindApproval), toMe, PolicyMustRespond, ModeImmediate, ActionNone},
	{"blocker", ofKind(KindBlocker), toMe, PolicyMustRespond, ModeImmediate, ActionNone},

	{"answer", ofKind(KindAnswer), toMe, PolicyMayRespond, ModeBuffered, ActionNone},

	{"told_nobody", declares(DirectedAmbient), ambient, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"addressed_to_other", (*situation).declaredForOther, toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{"told_role", all(declares(DirectedToMyRole), (*situation).namesNobody), toMyRole, PolicyMayRespond, ModeNotify,
		ActionNone},

	{"acknowledgement", all((*situation).acknowledges, (*situation).isDirected), toMe, PolicyAckOnly, ModeSilent,
		ActionNone},
	{"acknowledgement", (*situation).acknowledges, mentionDirectedness, PolicyMustNotRespond, ModeToolMailbox,
		ActionNone},
	{"stop_word", all((*situation).stops, (*situation).isDirected), toMe, PolicyMustRespond, ModeImmediate,
		ActionCancel},
	{"repeated", (*situation).repeats, mentionDirectedness, PolicyMustNotRespond, ModeToolMailbox, ActionNone},

	{"direct_message", (*situation).isDirect, toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"mention", func(v *situation) bool { return v.mentions.me }, toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{ReasonFragment, (*situation).continues, toMe, PolicyMustRespond, ModeBuffered, ActionNone},
	{"direct_question", (*situation).isDirected, toMe, PolicyMustRespond, ModeBuffered, ActionNone},

	{"role_mention", func(v *situation) bool { return v.mentions.role }, toMyRole, PolicyMayRespond, ModeNotify,
		ActionNone},
	{"addressed_to_other", (*situation).toOther, toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{reasonStream, (*situation).ownsStream, toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{reasonThread, func(v *situation) bool { return v.event.inThread() && v.facts.OwnsThread },
		toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{reasonParticipant, func(v *situation) bool { return v.event.inThread() && v.facts.Participating },
		toMyRole, PolicyMayRespond, ModeNotify, ActionNone},
	{"agent_without_task", func(v *situation) bool { return v.event.authorKind() == AuthorAgent },
		toOther, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
	{ReasonAmbient, func(*situation) bool { return true }, ambient, PolicyMustNotRespond, ModeToolMailbox, ActionNone},
}

func all(conditions ...func(*situation) bool) func(*situation) bool {
	return func(v *situation) bool {
		return !slices.ContainsFunc(conditions, func(holds func(*situation) bool) bool { return !holds(v) })
	}
}

func ofKind(kind EventKind) func(*situation) bool {
	return func(v *situation) bool { return v.event.kind() == kind }
}

func withSignal(signals ...Signal) func(*situation) bool {
	return func(v *situation) bool { return slices.Contains(signals, Signal(v.event.Signal)) }
}

// onMine reports whether a reaction was put on a message from this agent.
func onMine(v *situation) bool { return v.replyMe }

// isNews reports whether a reaction is the first one of its kind to its message.
func isNews(v *situation) bool { return !v.facts.Repeated }

func ofNoAgent(v *situation) bool { return !v.replyOther }

func byPerson(v *situation) bool { return v.event.authorKind() == AuthorHuman }

// declares selects messages from agents that declare whom they oblige.
func declares(d Directedness) func(*situation) bool {
	return func(v *situation) bool { return v.event.authorKind() == AuthorAgent && v.event.Directedness == d }
}

func (v *situation) namesNobody() bool { return v.mentions == mentions{} }

// declaredForOther reports whether a message from an agent declares that it obliges others: it
// names neither this agent nor one of its roles, and if it is directed at the author of the
// message that it answers, that is somebody else.
func (v *situation) declaredForOther() bool {
	if v.mentions.me || v.mentions.role {
		return false
	}
	return declares(DirectedToOther)(v) || declares(DirectedToMe)(v) && !v.isDirected()
}

// reactionDirectedness returns the directedness of a reaction, which is directed at the author of
// its message.
func reactionDirectedness(v *situation) Directedness {
	switch {
	case v.replyMe:
		return DirectedToMe
	case v.replyOther:
		return DirectedToOther
	}
	return DirectedAmbient
}

// repeats reports whether an agent repeats a text that it had a turn for, without being asked.
func (v *situation) repeats() bool {
	return v.facts.Repeated && v.event.authorKind() == AuthorAgent && !v.facts.Asked
}

// toOther reports whether somebody else is the clear recipient.
func (v *situation) toOther() bool {
	return v.mentions.others || v.replyOther || v.event.conversationKind() == ConversationDM
}

// mentionDirectedness returns the directedness by mentions, for rules that do not depend on it.
func mentionDirectedness(v *situation) Directedness {
	switch {
	case v.isDirected():
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

// Conditions of rules that set one directedness.
var (
	toMe     = always(DirectedToMe)
	toMyRole = always(DirectedToMyRole)
	toOther  = always(DirectedToOther)
	ambient  = always(DirectedAmbient)
)

func always(d Directedness) func(*situation) Directedness {
	return func(*situation) Directedness { return d }
}
