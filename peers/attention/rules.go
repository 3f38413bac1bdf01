package attention

// An outcome is what a rule decides. The directedness may be computed instead.
type outcome struct {
	directedness Directedness
	policy       Policy
	mode         Mode
}

// A rule is one row of the decision table.
type rule struct {
	name     string // the reason that the decision carries
	when     func(*view) bool
	directed func(*view) Directedness // if set, wins over the outcome's
	outcome  outcome
	urgent   bool
	action   Action
}

// rules is the decision table of C2A. The first row that applies decides; the
// last one always applies. The order is the precedence: what happened, then
// whether the agent takes part here, then what is said, then to whom.
var rules = []rule{
	{name: "own_message", when: (*view).own, outcome: outcome{DirectedAmbient, PolicyMustNotRespond, ModeSilent}},
	{name: "deleted", when: ofKind(KindDelete), directed: nominal, outcome: outcome{policy: PolicyMustNotRespond, mode: ModeSilent}},
	{name: "membership", when: ofKind(KindMembership), outcome: outcome{DirectedAmbient, PolicyMustNotRespond, ModeSilent}},

	{name: "reaction_removed", when: all(ofKind(KindReaction), withSignal("")), directed: reacted,
		outcome: outcome{policy: PolicyMustNotRespond, mode: ModeSilent}},
	{name: "reaction_asks", when: all(ofKind(KindReaction), onMine, withSignal(SignalDeclined, SignalBlocked, SignalUnclear)),
		outcome: outcome{DirectedToMe, PolicyMayRespond, ModeNotify}},
	{name: "reaction", when: all(ofKind(KindReaction), onMine), outcome: outcome{DirectedToMe, PolicyMustNotRespond, ModeNotify}},
	{name: "reaction_elsewhere", when: ofKind(KindReaction), directed: reacted,
		outcome: outcome{policy: PolicyMustNotRespond, mode: ModeToolMailbox}},

	{name: "status", when: (*view).status, outcome: outcome{DirectedAmbient, PolicyMustNotRespond, ModeDigest}},

	{name: "left", when: func(v *view) bool { return v.facts.Left && !v.mentions.me }, directed: nominal,
		outcome: outcome{policy: PolicyMustNotRespond, mode: ModeToolMailbox}},
	{name: "asked_to_leave", when: (*view).asksToLeave,
		outcome: outcome{DirectedToMe, PolicyMustRespond, ModeImmediate}, action: ActionLeave},

	{name: "work_of_another", when: func(v *view) bool { return v.work() && !v.workForMe() },
		outcome: outcome{DirectedToOther, PolicyMustNotRespond, ModeToolMailbox}},
	{name: "assignment", when: ofKind(KindAssignment), outcome: outcome{DirectedToMe, PolicyMustRespond, ModeBuffered}},
	{name: "approval", when: ofKind(KindApproval), outcome: outcome{DirectedToMe, PolicyMustRespond, ModeImmediate}},
	{name: "blocker", when: ofKind(KindBlocker), outcome: outcome{DirectedToMe, PolicyMustRespond, ModeImmediate}},

	{name: "answer", when: ofKind(KindAnswer), outcome: outcome{DirectedToMe, PolicyMayRespond, ModeBuffered}},

	{name: "acknowledgement", when: all((*view).acknowledges, (*view).aimed), outcome: outcome{DirectedToMe, PolicyAckOnly, ModeSilent}},
	{name: "acknowledgement", when: (*view).acknowledges, directed: nominal,
		outcome: outcome{policy: PolicyMustNotRespond, mode: ModeToolMailbox}},
	{name: "stop_word", when: all((*view).stops, (*view).aimed),
		outcome: outcome{DirectedToMe, PolicyMustRespond, ModeImmediate}, urgent: true, action: ActionCancel},

	{name: "direct_message", when: (*view).direct, outcome: outcome{DirectedToMe, PolicyMustRespond, ModeBuffered}},
	{name: "mention", when: func(v *view) bool { return v.mentions.me }, outcome: outcome{DirectedToMe, PolicyMustRespond, ModeBuffered}},
	{name: "direct_question", when: (*view).aimed, outcome: outcome{DirectedToMe, PolicyMustRespond, ModeBuffered}},

	{name: "role_mention", when: func(v *view) bool { return v.mentions.role },
		outcome: outcome{DirectedToMyRole, PolicyMayRespond, ModeNotify}},
	{name: "addressed_to_other", when: (*view).toOther, outcome: outcome{DirectedToOther, PolicyMustNotRespond, ModeToolMailbox}},
	{name: "owned_stream", when: (*view).ownsStream, outcome: outcome{DirectedToMyRole, PolicyMayRespond, ModeNotify}},
	{name: "owned_thread", when: func(v *view) bool { return v.event.inThread() && v.facts.OwnsThread },
		outcome: outcome{DirectedToMyRole, PolicyMayRespond, ModeNotify}},
	{name: "thread_participant", when: func(v *view) bool { return v.event.inThread() && v.facts.Participating },
		outcome: outcome{DirectedToMyRole, PolicyMayRespond, ModeNotify}},
	{name: "agent_without_task", when: func(v *view) bool { return v.event.authorKind() == AuthorAgent },
		outcome: outcome{DirectedToOther, PolicyMustNotRespond, ModeToolMailbox}},
	{name: "ambient", when: func(*view) bool { return true }, outcome: outcome{DirectedAmbient, PolicyMustNotRespond, ModeToolMailbox}},
}

// Reasons lists the names of the rules, in the order of their precedence.
func Reasons() []string {
	names := make([]string, 0, len(rules))
	for i := range rules {
		if i == 0 || rules[i-1].name != rules[i].name {
			names = append(names, rules[i].name)
		}
	}
	return names
}

func matchingRule(v *view) *rule {
	for i := range rules {
		if rules[i].when(v) {
			return &rules[i]
		}
	}
	return &rules[len(rules)-1]
}

func all(conditions ...func(*view) bool) func(*view) bool {
	return func(v *view) bool {
		for _, holds := range conditions {
			if !holds(v) {
				return false
			}
		}
		return true
	}
}

func ofKind(kind EventKind) func(*view) bool {
	return func(v *view) bool { return v.event.kind() == kind }
}

func withSignal(signals ...Signal) func(*view) bool {
	return func(v *view) bool {
		for _, s := range signals {
			if Signal(v.event.Signal) == s {
				return true
			}
		}
		return false
	}
}

// onMine reports whether a reaction was put on a message of this agent.
func onMine(v *view) bool { return v.replyMe }

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
