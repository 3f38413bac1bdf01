package broker

import (
	"cmp"
	"slices"

	"hubbub/peers/attention"
	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// create stores a conversation.
func (t conversationHandler) create(p collab.ConversationParams) collab.ConversationResult {
	rules.MustBeOneOf("kind", p.Kind, "dm", "group", "channel", "thread")
	rules.MustBeTexts("a member", p.MemberIDs, rules.MaxList, "a conversation has at most %d members")
	rules.MustFit("title", p.Title, rules.MaxTitle)
	rules.MustBeName("masterId", p.MasterID)
	c := collab.Conversation{
		ID:                t.nonBlankID(p.ID, "conv_"),
		Kind:              p.Kind,
		Title:             p.Title,
		CreatedByID:       t.caller.Name,
		CreatedByIdentity: t.caller.Party().ID,
		CreatedAt:         formatTime(t.now),
	}
	master := t.partyOf(p.MasterID, t.knownParties)
	c.MasterID, c.MasterIdentity = master.Name, master.ID
	for _, member := range p.MemberIDs {
		if m := t.partyOf(member, t.knownParties); !slices.Contains(c.MemberIdentities, m.ID) {
			c.MemberIDs, c.MemberIdentities = append(c.MemberIDs, m.Name), append(c.MemberIdentities, m.ID)
		}
	}
	target := "conversation:" + c.ID
	if old := t.conversations.get(c.ID); old != nil {
		t.mustRepeat(target, "conversation", c.ID)
		return collab.ConversationResult{Conversation: *old, Duplicate: true}
	}
	emit(t.tx, collab.EventConversation, target, c, collab.StepMetadata{Digest: t.digest})
	return collab.ConversationResult{Conversation: c}
}

// get returns a conversation and a page of its messages, oldest first.
func (t conversationHandler) get(p collab.ConversationGetParams) (page collab.ConversationPage) {
	c := mustFind(t.conversations, "conversation", p.ID)
	if p.After != "" {
		ref, ok := t.messages.find(p.After)
		if !ok || ref.ConversationID != p.ID {
			rules.FailInvalid("after %q is not a message of this conversation", text.Clip(p.After, 80))
		}
	}
	posts := t.messages.list(p.ID, p.After, maxLimit+1)
	page.Conversation, page.Messages = *c, []collab.Listed[collab.Message]{}
	n := pageSize(p.Limit, len(posts), func(i int) int {
		e := t.event(posts[i].Seq)
		page.Messages = append(page.Messages, collab.Listed[collab.Message]{RawMessage: e.Payload})
		return len(e.Payload)
	})
	if page.Messages = page.Messages[:n]; 0 < n && n < len(posts) {
		last, err := page.Messages[n-1].Read()
		rules.Must(err)
		page.Next = &last.ID
	}
	return page
}

// A route is the resolution of a message's explicit targets.
type route struct {
	named   []namedTarget
	failure *rules.Resolution // of the first target, if it resolves to nobody
	label   string            // of the failure
}

type namedTarget struct {
	label      string
	resolution rules.Resolution
}

// labelOf returns the label that named a decision's target, or "".
func (r *route) labelOf(dec collab.Decision) (label string) {
	for _, n := range r.named {
		if dec.Rule == collab.RuleExplicit && n.resolution.ID == dec.TargetIdentity {
			label = n.label
		}
	}
	return label
}

// post stores a message and wakes the responsible agent.
func (t conversationHandler) post(p collab.PostParams) collab.PostResult {
	t.openChat(p.ConversationID, p.Chat)
	m := t.newMessage(p)
	if ref, ok := t.messages.find(m.ID); ok {
		t.mustBeSameRequest(ref.Digest, "message", m.ID)
		m, meta := t.message(m.ID)
		return t.posted(m, meta, true)
	}
	r := t.route(&m)
	dec := t.decide(m, r)
	meta := t.postMetadata(m, r, dec)
	planned := t.plan(m, r, dec)
	for range planned {
		meta.Deliveries = append(meta.Deliveries, t.newID("dlv_"))
	}
	notifyChat(t.tx, m.ConversationID, emit(t.tx, collab.EventMessagePosted, "conversation:"+m.ConversationID, m, meta))
	for i, plan := range planned {
		wakeHandler(t).request(meta.Deliveries[i], plan.delivery, plan.decision, subject{
			message: &m,
			record:  t.records.get(m.WorkItemID),
		})
	}
	return t.posted(m, meta, false)
}

func (t conversationHandler) newMessage(p collab.PostParams) collab.Message {
	m := collab.Message{
		ConversationID: p.ConversationID,
		AuthorID:       t.caller.Name,
		AuthorIdentity: t.caller.Party().ID,
		Text:           p.Text,
		Targets:        p.Targets,
		WorkItemID:     p.WorkItemID,
		InReplyTo:      p.InReplyTo,
		FollowUp:       p.FollowUp,
		Kind:           cmp.Or(p.Kind, collab.KindChat),
		CreatedAt:      formatTime(t.now),
		Surface:        cmp.Or(p.Surface, collab.SurfaceHuman),
		Obligation:     rules.MustBeObligation(p.Obligation),
	}
	rules.MustBeOneOf("surface", m.Surface, collab.SurfaceHuman, collab.SurfaceAgent)
	rules.MustBeOneOf("kind", m.Kind, collab.KindChat, collab.KindStatus, collab.KindFinal)
	rules.MustBeText("text", p.Text, rules.MaxText)
	rules.MustBeNames("conversationId", p.ConversationID, "workItemId", p.WorkItemID, "inReplyTo", p.InReplyTo)
	rules.MustBeTexts("a target", p.Targets, rules.MaxMentions, "a message has at most %d targets")
	if !t.caller.Person {
		m.Surface = collab.SurfaceAgent // whatever the agent claims
	}
	mustFind(t.conversations, "conversation", p.ConversationID)
	t.mustFindPlace("", p.WorkItemID)
	m.ID = t.nonBlankID(p.ID, "msg_")
	return m
}

// route resolves the parties that the message names: its targets, then the leading labels of a
// person's text. Other labels are only hints.
func (t conversationHandler) route(m *collab.Message) route {
	var r route
	from := t.LocalityOf(t.caller)
	add := func(label string, st rules.Resolution) {
		first := len(r.named) == 0 && r.failure == nil
		switch {
		case st.Failure == "" && !slices.ContainsFunc(r.named,
			func(n namedTarget) bool { return n.resolution.ID == st.ID }):
			r.named = append(r.named, namedTarget{label, st})
		case st.Failure != "" && first:
			r.failure, r.label = &st, label
		}
	}
	for _, target := range m.Targets {
		add(target, t.Resolve(target, from))
	}
	for _, f := range rules.FindMentions(m.Text) {
		st := t.Resolve(f.Label.String(), from)
		hard := f.Leading && m.Surface == collab.SurfaceHuman
		m.Mentions = append(m.Mentions, collab.Mention{
			Label:    f.Label.String(),
			AgentID:  st.Name,
			Identity: st.ID,
			Hard:     hard,
		})
		if hard {
			add(f.Label.String(), st)
		}
	}
	return r
}

// decide chooses the party that the message wakes.
func (t conversationHandler) decide(m collab.Message, r route) collab.Decision {
	if r.failure != nil {
		dec := collab.Decision{
			Rule:       collab.RuleExplicit,
			Candidates: []collab.Candidate{},
			Reason:     r.label + " was named explicitly",
		}
		rules.ApplyResolution(&dec, *r.failure)
		return dec
	}
	s := rules.Situation{
		Sender:   t.caller,
		FollowUp: m.FollowUp,
		Record:   t.records.get(m.WorkItemID),
		Master:   t.master(m.ConversationID),
		Final:    m.Kind != collab.KindChat,
		Thanks:   attention.IsAcknowledgement(m.Text, m.InReplyTo != "" || len(r.named) == 0),
	}
	for _, n := range r.named {
		s.Explicit = append(s.Explicit, n.resolution.Party)
	}
	// Messages among workers do not wake their lead.
	if m.Surface == collab.SurfaceAgent && m.WorkItemID == "" && t.conversations.get(m.ConversationID).Kind != "dm" {
		s.Master = rules.Party{}
	}
	return wakeHandler(t).choose(s, t.LocalityOf(t.caller), r.named...)
}

// master returns the party that answers for a conversation: the agent to which its chat is bound,
// else its master. In a direct conversation it is the other side if that is an agent.
func (v *view) master(conversationID string) rules.Party {
	c := v.conversations.get(conversationID)
	if by := c.CreatedByIdentity; isBridge(by) {
		b := v.bindings.get(bindingKey(string(protocol.RoleOf(by)), string(by)))
		if b != nil && b.SetByIdentity == by { // anybody may bind itself to an unbound object
			return rules.Party{Name: b.AgentID, ID: b.Identity}
		}
	}
	if c.MasterID != "" || c.Kind != "dm" {
		return rules.Party{Name: c.MasterID, ID: c.MasterIdentity}
	}
	var others []rules.Party
	for i, id := range c.MemberIdentities {
		if !v.caller.Is(id) {
			others = append(others, rules.Party{Name: c.MemberIDs[i], ID: id})
		}
	}
	if len(others) == 1 && len(v.EndpointsOf(others[0].ID)) > 0 {
		return others[0]
	}
	return rules.Party{}
}

// A planned delivery has the decision that caused it.
type planned struct {
	delivery collab.Delivery
	decision collab.Decision
}

// plan lists the deliveries of a message: to the woken party, to the other named ones, and to the
// author of the message that it answers.
func (t conversationHandler) plan(m collab.Message, r route, dec collab.Decision) (list []planned) {
	add := func(d collab.Delivery, dec collab.Decision) {
		own := t.caller.Is(d.TargetIdentity) && !(m.FollowUp && dec.Outcome != "") // a follow-up wakes its sender
		if own || slices.ContainsFunc(list, func(p planned) bool {
			return p.delivery.TargetIdentity == d.TargetIdentity
		}) {
			return
		}
		d.MessageID, d.ConversationID, d.WorkItemID = m.ID, m.ConversationID, m.WorkItemID
		list = append(list, planned{d, dec})
	}
	if dec.Outcome == collab.OutcomeWoken || dec.Outcome == collab.OutcomeUnavailable {
		add(collab.Delivery{
			TargetAgentID:  dec.TargetAgentID,
			TargetIdentity: dec.TargetIdentity,
			Reason:         t.reason(m, dec),
			Policy:         collab.PolicyMustAck,
			AskedLabel:     r.labelOf(dec),
		}, dec)
	}
	for _, n := range r.named {
		if !n.resolution.Person {
			add(collab.Delivery{
				TargetAgentID:  n.resolution.Name,
				TargetIdentity: n.resolution.ID,
				Reason:         collab.ReasonMention,
				Policy:         collab.PolicyDurable,
			}, collab.Decision{Rule: collab.RuleNone, Reason: whyOnlyNamed(dec)})
		}
	}
	if ref, ok := t.messages.find(m.InReplyTo); ok && len(t.EndpointsOf(ref.author().ID)) > 0 {
		add(collab.Delivery{
			TargetAgentID:  ref.author().Name,
			TargetIdentity: ref.author().ID,
			Reason:         collab.ReasonThread,
			Policy:         collab.PolicyBestEffort,
		}, collab.Decision{Rule: collab.RuleNone, Reason: "wrote the message that this one answers"})
	}
	return list
}

// whyOnlyNamed returns the reason for not waking a named party.
func whyOnlyNamed(dec collab.Decision) string {
	if dec.TargetAgentID == "" {
		return "named, but " + dec.Reason
	}
	return "named, but " + dec.TargetAgentID + " is woken"
}

func (s *state) reason(m collab.Message, dec collab.Decision) string {
	switch {
	case s.conversations.get(m.ConversationID).Kind == "dm":
		return collab.ReasonDirect
	case dec.Rule == collab.RuleExplicit:
		return collab.ReasonMention
	case s.messages.get(m.InReplyTo).AuthorIdentity == dec.TargetIdentity && m.InReplyTo != "":
		return collab.ReasonThread
	case dec.Rule == collab.RuleMaster:
		return collab.ReasonVisibility
	}
	return collab.ReasonInvocation // it moves work for which the target is responsible
}

func (t conversationHandler) postMetadata(m collab.Message, r route, dec collab.Decision) collab.PostMetadata {
	meta := collab.PostMetadata{
		Mentions:     []string{},
		TargetAgents: []string{},
		InReplyTo:    m.InReplyTo,
		Wake:         dec,
		Digest:       t.digest,
		AskedLabel:   cmp.Or(r.label, r.labelOf(dec)),
	}
	for _, mention := range m.Mentions {
		meta.Mentions = append(meta.Mentions, cmp.Or(mention.AgentID, mention.Label))
	}
	for _, n := range r.named {
		meta.TargetAgents = append(meta.TargetAgents, n.resolution.Name)
	}
	return meta
}

// posted returns the result for a stored message. It fails if nobody could be woken, although the
// message is kept.
func (t conversationHandler) posted(m collab.Message, meta collab.PostMetadata, duplicate bool) collab.PostResult {
	dec := meta.Wake
	out := collab.PostResult{
		Message:    m,
		Mentions:   m.Mentions,
		Wake:       dec.Summary(),
		Deliveries: []collab.Delivery{},
		Duplicate:  duplicate,
	}
	if out.Mentions == nil {
		out.Mentions = []collab.Mention{}
	}
	for _, id := range meta.Deliveries {
		if d := t.deliveries.get(id); d != nil {
			out.Deliveries = append(out.Deliveries, rules.CurrentDelivery(d, t.now))
		}
	}
	if code := collab.Code(dec.Outcome); rules.IsUnroutable(code) {
		rules.FailUnroutable(code, cmp.Or(meta.AskedLabel, dec.TargetAgentID), dec.Reason, dec.Options, map[string]any{
			"messageId": m.ID, "message": m, "mentions": out.Mentions, "deliveries": out.Deliveries,
			"rule": dec.Rule, "targetAgentId": dec.TargetAgentID, "duplicate": duplicate,
		})
	}
	return out
}
