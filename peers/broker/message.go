package broker

import (
	"cmp"
	"slices"
	"strings"
)

// The surfaces that a message comes from, and what it is.
const (
	SurfaceHuman = "human"
	SurfaceAgent = "agent"

	KindChat   = "chat"
	KindStatus = "status" // informational: wakes nobody but those that are named
	KindFinal  = "final"  // the last word: likewise
)

type postParams struct {
	ID             *string  `json:"id"`
	ConversationID string   `json:"conversationId"`
	Text           string   `json:"text"`
	Surface        string   `json:"surface"`
	Kind           string   `json:"kind"`
	Targets        []string `json:"targets"`
	WorkItemID     string   `json:"workItemId"`
	InReplyTo      string   `json:"inReplyTo"`
}

// A route is where the explicit targets of a message lead.
type route struct {
	named    []named
	mentions []Mention
	failure  *Standing // of the first target, when it leads to nobody
	label    string    // of the failure
}

type named struct {
	label    string
	standing Standing
}

// postMessage stores a message and wakes the one who is responsible now.
func (t *turn) postMessage(p postParams) (any, error) {
	m, err := t.newMessage(p)
	if err != nil {
		return nil, err
	}
	if ref, ok := t.messages[m.ID]; ok {
		if ref.digest != t.digest {
			return nil, refuse(CodeConflict, "message %s exists with other content", m.ID)
		}
		return t.postedBefore(m.ID)
	}
	r := t.route(&m)
	dec := t.decide(m, r)
	meta := t.postMetadata(m, r, dec)
	planned := t.plan(m, r, dec)
	for range planned {
		meta.Deliveries = append(meta.Deliveries, t.mint("dlv_"))
	}
	t.emit(EventMessagePosted, "conversation:"+m.ConversationID, m, meta)
	for i, plan := range planned {
		t.requestAs(meta.Deliveries[i], plan.delivery, plan.decision, subject{message: &m, work: t.work[m.WorkItemID]})
	}
	return t.posted(m, meta, false)
}

func (t *turn) newMessage(p postParams) (Message, error) {
	m := Message{
		ConversationID: p.ConversationID, AuthorID: t.caller.Name, Text: p.Text, Targets: p.Targets,
		WorkItemID: p.WorkItemID, InReplyTo: p.InReplyTo, Kind: cmp.Or(p.Kind, KindChat), CreatedAt: stamp(t.now),
	}
	m.Surface = cmp.Or(p.Surface, SurfaceHuman)
	if err := checkOneOf("surface", m.Surface, SurfaceHuman, SurfaceAgent); err != nil {
		return m, err
	}
	if !t.caller.Person {
		m.Surface = SurfaceAgent // whatever an agent says of itself
	}
	if err := checkOneOf("kind", m.Kind, KindChat, KindStatus, KindFinal); err != nil {
		return m, err
	}
	if err := checkText("text", p.Text, maxText); err != nil {
		return m, err
	}
	if err := checkNames("conversationId", p.ConversationID, "workItemId", p.WorkItemID, "inReplyTo", p.InReplyTo); err != nil {
		return m, err
	}
	if len(p.Targets) > maxMentions {
		return m, invalid("a message has at most %d targets", maxMentions)
	}
	for _, target := range p.Targets {
		if err := checkText("a target", target, maxName); err != nil {
			return m, err
		}
	}
	if t.conversations[p.ConversationID] == nil {
		return m, notFound("conversation", p.ConversationID)
	}
	if p.WorkItemID != "" && t.work[p.WorkItemID] == nil {
		return m, notFound("work item", p.WorkItemID)
	}
	id, err := t.newID(p.ID, "msg_")
	if err == nil && strings.TrimSpace(id) == "" {
		err = invalid("id must not be empty")
	}
	m.ID = id
	return m, err
}

// route finds whom the message names: its targets, then the labels that its text
// begins with when a person wrote it. All other labels are only hints.
func (t *turn) route(m *Message) route {
	var r route
	from := t.localityOf(t.caller)
	add := func(label string, st Standing) {
		first := len(r.named) == 0 && r.failure == nil
		switch {
		case st.Failure == "" && !slices.ContainsFunc(r.named, func(n named) bool { return n.standing.AgentID == st.AgentID }):
			r.named = append(r.named, named{label, st})
		case st.Failure != "" && first:
			r.failure, r.label = &st, label
		}
	}
	for _, target := range m.Targets {
		add(target, t.resolve(target, from))
	}
	for _, f := range FindMentions(m.Text) {
		st := t.resolve(f.Label.String(), from)
		hard := f.Leading && m.Surface == SurfaceHuman
		r.mentions = append(r.mentions, Mention{Label: f.Label.String(), AgentID: st.AgentID, Hard: hard})
		if hard {
			add(f.Label.String(), st)
		}
	}
	m.Mentions = r.mentions
	return r
}

// decide chooses the one that the message wakes.
func (t *turn) decide(m Message, r route) Decision {
	if r.failure != nil {
		dec := Decision{Rule: RuleExplicit, Candidates: []Candidate{}, Reason: r.label + " was named explicitly"}
		dec.settle(*r.failure)
		return dec
	}
	s := Situation{
		Sender: t.caller.Name, Work: t.work[m.WorkItemID], Master: t.master(m.ConversationID),
		Final: m.Kind != KindChat,
	}
	for _, n := range r.named {
		s.Explicit = append(s.Explicit, n.standing.AgentID)
	}
	if s.Work != nil {
		s.Dependency = t.dependency(s.Work)
	}
	dec := ChooseWake(s)
	if dec.TargetAgentID == "" {
		return dec
	}
	st := t.standing(dec.TargetAgentID, t.localityOf(t.caller))
	for _, n := range r.named {
		if dec.Rule == RuleExplicit && n.standing.AgentID == dec.TargetAgentID {
			st = n.standing // the endpoint that its label means
		}
	}
	if st.AgentID != "" {
		dec.TargetAgentID = st.AgentID
	}
	dec.settle(st)
	return dec
}

// master is who answers for a conversation: its master, or in a direct one the
// other side, if that is an agent.
func (t *turn) master(conversationID string) string {
	c := t.conversations[conversationID]
	if c.MasterID != "" || c.Kind != "dm" {
		return c.MasterID
	}
	var others []string
	for _, id := range c.MemberIDs {
		if id != t.caller.Name {
			others = append(others, id)
		}
	}
	if len(others) == 1 && len(t.endpointsOf(others[0])) > 0 {
		return others[0]
	}
	return ""
}

// A planned delivery and the decision that it comes from.
type planned struct {
	delivery Delivery
	decision Decision
}

// plan lists the deliveries of a message: to the one who is woken, to the others
// that were named, and to the author of the message that this one answers.
func (t *turn) plan(m Message, r route, dec Decision) (list []planned) {
	add := func(d Delivery, dec Decision) {
		if d.TargetAgentID == m.AuthorID || slices.ContainsFunc(list, func(p planned) bool {
			return p.delivery.TargetAgentID == d.TargetAgentID
		}) {
			return
		}
		d.MessageID, d.ConversationID, d.WorkItemID = m.ID, m.ConversationID, m.WorkItemID
		list = append(list, planned{d, dec})
	}
	if dec.Outcome == OutcomeWoken || dec.Outcome == OutcomeUnavailable {
		d := Delivery{TargetAgentID: dec.TargetAgentID, Reason: t.reason(m, dec), Policy: PolicyMustAck}
		for _, n := range r.named {
			if n.standing.AgentID == dec.TargetAgentID && dec.Rule == RuleExplicit {
				d.AskedLabel = n.label
			}
		}
		add(d, dec)
	}
	for _, n := range r.named {
		if !n.standing.Person {
			add(Delivery{TargetAgentID: n.standing.AgentID, Reason: ReasonMention, Policy: PolicyDurable},
				Decision{Rule: RuleNone, Reason: "named, but " + dec.TargetAgentID + " is the one who is woken"})
		}
	}
	if ref, ok := t.messages[m.InReplyTo]; ok && len(t.endpointsOf(ref.authorID)) > 0 {
		add(Delivery{TargetAgentID: ref.authorID, Reason: ReasonThread, Policy: PolicyBestEffort},
			Decision{Rule: RuleNone, Reason: "wrote the message that this one answers"})
	}
	return list
}

func (t *turn) reason(m Message, dec Decision) string {
	switch {
	case t.conversations[m.ConversationID].Kind == "dm":
		return ReasonDirect
	case dec.Rule == RuleExplicit:
		return ReasonMention
	case t.messages[m.InReplyTo].authorID == dec.TargetAgentID && m.InReplyTo != "":
		return ReasonThread
	case dec.Rule == RuleMaster:
		return ReasonVisibility
	}
	return ReasonInvocation // it moves work that the target is responsible for
}

func (t *turn) postMetadata(m Message, r route, dec Decision) postMetadata {
	meta := postMetadata{
		Mentions: []string{}, TargetAgents: []string{}, InReplyTo: m.InReplyTo, Wake: dec,
		Digest: t.digest, AskedLabel: r.label,
	}
	for _, mention := range m.Mentions {
		meta.Mentions = append(meta.Mentions, cmp.Or(mention.AgentID, mention.Label))
	}
	for _, n := range r.named {
		meta.TargetAgents = append(meta.TargetAgents, n.standing.AgentID)
	}
	if meta.AskedLabel == "" && len(r.named) > 0 && dec.Rule == RuleExplicit {
		for _, n := range r.named {
			if n.standing.AgentID == dec.TargetAgentID {
				meta.AskedLabel = n.label
			}
		}
	}
	return meta
}

// A postResult answers message.post.
type postResult struct {
	Message    Message      `json:"message"`
	Mentions   []Mention    `json:"mentions"`
	Deliveries []Delivery   `json:"deliveries"`
	Wake       *wakeSummary `json:"wake"`
	Duplicate  bool         `json:"duplicate,omitempty"`
}

// A wakeSummary is a wake that was made.
type wakeSummary struct {
	TargetAgentID string      `json:"targetAgentId"`
	EndpointID    string      `json:"endpointId"`
	Rule          Rule        `json:"rule"`
	Candidates    []Candidate `json:"candidates"`
	Reason        string      `json:"reason"`
}

func (d Decision) summary() *wakeSummary {
	if d.Outcome != OutcomeWoken {
		return nil
	}
	return &wakeSummary{d.TargetAgentID, d.EndpointID, d.Rule, d.Candidates, d.Reason}
}

// posted answers for a stored message: what became of it, or the error that says
// why nobody could be woken although the message is kept.
func (t *turn) posted(m Message, meta postMetadata, duplicate bool) (any, error) {
	dec := meta.Wake
	res := postResult{Message: m, Mentions: m.Mentions, Wake: dec.summary(), Deliveries: []Delivery{}, Duplicate: duplicate}
	if res.Mentions == nil {
		res.Mentions = []Mention{}
	}
	for _, id := range meta.Deliveries {
		if d := t.deliveries[id]; d != nil {
			res.Deliveries = append(res.Deliveries, d.at(t.now))
		}
	}
	var code Code
	switch dec.Outcome {
	case OutcomeUnavailable:
		code = CodeUnavailable
	case OutcomeUnknown:
		code = CodeUnknownTarget
	case OutcomeAmbiguous:
		code = CodeAmbiguous
	default:
		return res, nil
	}
	return nil, routingError(code, cmp.Or(meta.AskedLabel, dec.TargetAgentID), dec.Reason, dec.Options, map[string]any{
		"messageId": m.ID, "message": m, "mentions": res.Mentions, "deliveries": res.Deliveries,
		"rule": dec.Rule, "targetAgentId": dec.TargetAgentID, "duplicate": duplicate,
	})
}

// postedBefore answers a repeated message.post with what the first one gave.
func (t *turn) postedBefore(id string) (any, error) {
	m, meta, err := t.message(id)
	if err != nil {
		return nil, err
	}
	return t.posted(m, meta, true)
}
