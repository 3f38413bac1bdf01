package decisions

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A Reading configures how replies from people are read.
type Reading struct {
	Answers *attention.AnswerReader
	Pause   time.Duration // how long an approval in words waits for further text of its author
}

// A reply is a chat event while decisions are pending in its chat.
type reply struct {
	*mailbox.Entry
	pending  []Decision // that its author may make
	answer   attention.Answer
	about    *Decision // the decision whose question it answers; nil if it answers no message
	stranger bool      // it answers another message
	others   bool      // it mentions somebody else
	named    bool      // it mentions this agent
}

// HandleReply handles a chat event that decides something, in place of intake.Store. It reports
// whether e was such an event. If its author may decide and it decides nothing, a notice explains
// in the chat how to decide.
func HandleReply(tx *mailbox.Tx, e *mailbox.Entry, how Reading) bool {
	c := &e.Content
	if c.Author.Kind != string(attention.AuthorHuman) {
		return false
	}
	pending := list(&tx.View, `chat = ? AND state = 'pending' ORDER BY +id`, e.Chat)
	voidContinued(tx, e, pending, how)
	if c.Forwarded != "" {
		return false
	}
	if d, said, pressed := pressedButton(&tx.View, e); pressed {
		return !mailbox.RecordReceipt(tx, e) || c.ReplyTo != nil && isOtherAgent(&tx.View, c.ReplyTo.Author) ||
			decide(tx, e, d, said)
	}
	edited := c.Event == protocol.EventEdit
	if c.Event != protocol.EventMessage && c.Event != protocol.EventReaction && !edited {
		return false
	}
	r := readReply(&tx.View, e, pending, how)
	switch {
	case r.stranger || r.others || r.about == nil && len(r.pending) == 0:
		return false
	case r.addsCourtesy():
		mailbox.RecordReceipt(tx, e)
		return true
	case len(c.Attachments) > 0: // such as a voice message or a sticker
		r.answer = attention.AnswerOther
		return c.Event == protocol.EventMessage && r.explain(tx, r.subject(&tx.View))
	}
	said := Verdict{Verdict: map[attention.Answer]collab.Verdict{attention.AnswerYes: collab.Allow,
		attention.AnswerNo: collab.Deny}[r.answer]}
	d := r.subject(&tx.View)
	if value := r.namedButton(d); value != "" && !edited {
		_, said, _ = parseButton(value)
	} else if !edited {
		said.Answer = r.words(tx, d)
	}
	if said.Answer != "" {
		said.Verdict = collab.Allow
	}
	switch {
	case edited && (said.Verdict == "" || d != nil && d.ChatVerdict.Verdict != ""):
		return false
	case edited, d == nil, said.Verdict == "",
		said.Verdict == collab.Allow && said.Answer == "" && wantsWords(&d.Approval):
		return r.explain(tx, d)
	}
	if !mailbox.RecordReceipt(tx, e) {
		return true
	}
	said.SourceID = e.SourceID
	if said.Verdict == collab.Allow && c.Event == protocol.EventMessage {
		said.NotBefore = e.ReceivedAt.Add(how.Pause)
	}
	return decide(tx, e, d, said)
}

// addsCourtesy reports whether a message only adds a word such as please to an approval in words that
// has not taken effect.
func (r *reply) addsCourtesy() bool {
	return isCourtesy(r.Entry) && slices.ContainsFunc(r.pending, func(d Decision) bool {
		return d.ChatVerdict.Verdict != "" && d.ChatVerdict.Answer == "" && d.ChatVerdict.By == r.PersonIdentity()
	})
}

// isCourtesy reports whether a message has only words such as please. An apology may take back what was
// said.
func isCourtesy(e *mailbox.Entry) bool {
	said := strings.ToLower(e.Content.Text)
	return e.Content.Event == protocol.EventMessage && len(e.Content.Attachments) == 0 && attention.IsCourtesy(said) &&
		strings.ContainsFunc(said, unicode.IsLetter) && !strings.Contains(said, "sorry") && !endsAsking(said) &&
		!strings.ContainsFunc(said, unicode.IsSymbol)
}

// words returns the answer in words that a message gives to a decision, or "". A message that asks
// something or stops the agent is not an answer, nor is one of a person who may not decide.
func (r *reply) words(tx *mailbox.Tx, d *Decision) string {
	event := r.Entry.Event()
	if d == nil || !wantsWords(&d.Approval) || d.State != collab.ApprovalPending ||
		r.Content.Event != protocol.EventMessage || !d.MayBeDecidedBy(r.PersonIdentity()) ||
		tx.Options().Attention.Stops(&event) {
		return ""
	}
	said := r.said()
	if r.about == nil && endsAsking(said) || attention.IsPause(said) {
		return ""
	}
	return said
}

// said returns the text of a message without the mentions of this agent before it.
func (r *reply) said() string {
	said := r.Content.Text
	if labels := attention.Labels(said); r.named && attention.CountLeading(said, labels) > 0 {
		said = attention.TextAfterLabel(said, labels[attention.CountLeading(said, labels)-1])
	}
	return strings.TrimSpace(said)
}

// namedButton returns the value of the decision's button whose label a message is, or "". People
// write labels where a chat shows them instead of buttons.
func (r *reply) namedButton(d *Decision) string {
	if d == nil || r.Content.Event != protocol.EventMessage {
		return ""
	}
	said := text.OneLine(strings.Trim(r.said(), " .!\"'“”„«»`"))
	for _, b := range buttons(&d.Approval) {
		if strings.EqualFold(b.Text, said) {
			return b.Value
		}
	}
	return ""
}

// endsAsking reports whether a text ends as a question.
func endsAsking(said string) bool {
	return strings.HasSuffix(strings.NewReplacer("？", "?", "؟", "?").Replace(strings.TrimSpace(said)), "?")
}

// pressedButton returns the decision and the verdict of a button. The decision is nil if the
// button stood under another message, or in another chat.
func pressedButton(v *mailbox.View, e *mailbox.Entry) (d *Decision, said Verdict, pressed bool) {
	c := &e.Content
	id, said, ok := parseButton(c.Text)
	if !ok || c.Event != protocol.EventMessage {
		return nil, Verdict{}, false
	}
	d = Find(v, id)
	if c.ReplyTo != nil && !slices.Contains([]string{"", mailbox.DecisionPrefix + id},
		v.SentKey(e.Chat, c.ReplyTo.SourceID)) || d != nil && d.Chat != string(e.Chat) {
		return nil, said, true
	}
	return d, said, true
}

// parseButton returns the id and the verdict in the value of a decision's button. It returns false
// for any other text.
func parseButton(value string) (id string, said Verdict, ok bool) {
	parts := strings.SplitN(value, ":", 3)
	if len(parts) < 2 || !IsValue(parts[0]) {
		return "", Verdict{}, false
	}
	said.Verdict = collab.Verdict(parts[1])
	if len(parts) == 3 {
		said.Scope = collab.ApprovalScope(parts[2])
	}
	return parts[0], said, true
}

// decide stores a verdict. The turn that waits applies it.
func decide(tx *mailbox.Tx, e *mailbox.Entry, d *Decision, said Verdict) bool {
	if d == nil {
		tx.ReplyToCommand(e, "This chat has no such decision.")
		return true
	}
	said.By = e.PersonIdentity()
	if wantsWords(&d.Approval) && said.Verdict == collab.Allow && said.Answer == "" {
		tx.ReplyToCommand(e, "This question takes words: reply to it with your answer.")
		return true
	}
	if _, err := d.Decide(said.Verdict, said.Scope, said.By, time.Now()); err != nil {
		tx.RecordRefusal(e, d.EventID, "decision", "not_decided")
		refusal := err.Error()
		if refused, ok := errors.AsType[*collab.Error](err); ok { // its code and the id are for programs
			refusal = strings.NewReplacer("decision "+d.ID, "This decision", d.ID, "this").Replace(refused.Message)
		}
		a := e.Content.Author // has perhaps written nothing else
		if rest, named := strings.CutPrefix(refusal, said.By+" "); named && a.DisplayName+a.Username != "" {
			refusal = mailbox.QuotedName(a) + " " + rest
		}
		tx.ReplyToCommand(e, tx.WithNames(refusal, e.Chat, append(slices.Clone(d.MayDecide), d.By)...))
		return true
	}
	switch before := &d.ChatVerdict; {
	case d.State != collab.ApprovalPending:
	case !before.Counts(time.Now()):
		if before.Answer != "" && said.Answer != "" { // written in several messages
			said.Answer = before.Answer + "\n" + said.Answer
		}
		d.ChatVerdict = said
		save(tx, d)
	case before.Verdict != said.Verdict || before.By != said.By: // the broker has not recorded it yet
		tx.ReplyToCommand(e, tx.WithNames("This was answered a moment ago, by "+before.By+": "+
			string(before.Verdict)+".", e.Chat, before.By))
	}
	return true
}

// readReply reads what an event says about the pending decisions.
func readReply(v *mailbox.View, e *mailbox.Entry, pending []Decision, how Reading) *reply {
	c := &e.Content
	r := &reply{Entry: e}
	for _, d := range pending {
		if d.MayBeDecidedBy(e.PersonIdentity()) {
			r.pending = append(r.pending, d)
		}
	}
	switch {
	case c.Event == protocol.EventReaction && c.Signal == string(attention.SignalAgree):
		r.answer = attention.AnswerYes
	case c.Event == protocol.EventReaction && c.Signal == string(attention.SignalDeclined):
		r.answer = attention.AnswerNo
	case c.Event == protocol.EventReaction && c.Text == "": // it was removed
		r.stranger = true
	default:
		r.answer = how.Answers.Read(c.Text)
	}
	event := e.Event()
	r.named, r.others = attention.Addressees(&event, &v.Options().Self)
	if c.ReplyTo != nil || c.Event == protocol.EventReaction {
		r.stranger = true // about something else, perhaps in another chat
		if c.ReplyTo != nil && c.ReplyTo.SourceID != "" {
			id, ok := strings.CutPrefix(v.SentKey(e.Chat, c.ReplyTo.SourceID), mailbox.DecisionPrefix)
			if r.about = Find(v, id); ok && r.about != nil {
				r.stranger = false
			}
		}
	}
	return r
}

// subject returns the decision that the event answers, or nil. A message that answers no other one
// counts in a direct chat, in a chat without replies, or with a mention of the agent, if exactly
// one decision is pending and no agent has written since.
func (r *reply) subject(v *mailbox.View) *Decision {
	switch {
	case r.about != nil:
		return r.about
	case len(r.pending) != 1 || !r.forAgent() || !isLastMessage(v, &r.pending[0]):
		return nil
	}
	return &r.pending[0]
}

// forAgent reports whether a message that answers no other one is for this agent.
func (r *reply) forAgent() bool {
	return r.Content.Chat.Kind == string(attention.ConversationDM) || !mailbox.SupportsReplies(r.Chat) || r.named
}

// explain tells the chat how to decide, after an event that may have tried to and did not. It
// reports whether nothing of the event is left for the agent.
func (r *reply) explain(tx *mailbox.Tx, d *Decision) (nothingLeft bool) {
	tried := r.answer != attention.AnswerOther
	nothingLeft = tried && r.Content.Event == protocol.EventMessage && (d != nil || r.forAgent())
	event := r.Entry.Event()
	if !tried && (d == nil && !r.forAgent() || r.Content.Event == protocol.EventReaction ||
		tx.Options().Attention.Stops(&event)) {
		return false
	}
	about := d
	if about == nil && len(r.pending) > 0 {
		about = &r.pending[len(r.pending)-1]
	}
	switch {
	case about == nil || about.State != collab.ApprovalPending || !about.MayBeDecidedBy(r.PersonIdentity()),
		len(r.Content.Attachments) > 0 && about.ChatVerdict.Explained:
		return false
	case d == nil && !r.forAgent() && about.ChatVerdict.Explained: // once in a conversation of others
		return false
	case nothingLeft && !mailbox.RecordReceipt(tx, r.Entry):
		return true
	}
	about.ChatVerdict.Explained = true
	save(tx, about)
	tool, _ := toolName(&about.Approval, 80)
	said := "That decides nothing yet."
	if r.Content.Event == protocol.EventEdit {
		said = "An edited message decides nothing."
	}
	said += " To decide whether " + tool + " may run, "
	switch {
	case wantsWords(&about.Approval):
		said = "That answers nothing yet. To answer what " + tool + " asks, reply to the question itself in words."
	case d == nil && len(r.pending) > 1:
		said += "answer yes or no in a reply to the question that you mean, or use 👍 or 👎 there."
	case d == nil:
		said += "answer yes or no in a reply to the question itself, or use 👍 or 👎 there."
	default:
		said += "answer just yes or no, or 👍 or 👎."
	}
	if !nothingLeft {
		said += " I read what you wrote after that."
	}
	tx.ReplyToCommand(r.Entry, said)
	return nothingLeft
}

// voidContinued withdraws an approval in words if its author writes more, edits it or deletes it
// before it takes effect. More words continue an answer in words, unless they ask something or say
// to wait.
func voidContinued(tx *mailbox.Tx, e *mailbox.Entry, pending []Decision, how Reading) {
	for i := range pending {
		d := &pending[i]
		said := &d.ChatVerdict
		if said.Verdict == "" || said.Counts(e.ReceivedAt) || said.By != e.PersonIdentity() ||
			e.Content.Event == protocol.EventReaction || said.Answer == "" && isCourtesy(e) ||
			e.Content.Event == protocol.EventMessage && (e.SourceID == said.SourceID ||
				said.Answer != "" && !endsAsking(e.Content.Text) && !attention.IsPause(e.Content.Text)) ||
			(said.Answer == "" || e.Content.Event == protocol.EventMessage) &&
				how.Answers.Read(e.Content.Text) == attention.AnswerYes {
			continue
		}
		*said = Verdict{Explained: said.Explained}
		save(tx, d)
	}
}

// isLastMessage reports whether a decision's question is the last message from an agent in its
// chat.
func isLastMessage(v *mailbox.View, d *Decision) bool {
	return !store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent q JOIN sent s ON s.chat = q.chat AND s.rowid > q.rowid AND s.kind <> 'signal' WHERE q.key = ?1)
		OR EXISTS (SELECT 1 FROM sent q JOIN events e ON e.chat = q.chat AND e.received_at >= q.sent_at AND e.author_kind = 'agent' WHERE q.key = ?1)`, mailbox.DecisionPrefix+d.ID)
}

// isOtherAgent reports whether author is an agent other than this one.
func isOtherAgent(v *mailbox.View, author string) bool {
	return protocol.RoleOf(protocol.PeerID(author)) == protocol.RoleAgent && author != string(v.Self())
}
