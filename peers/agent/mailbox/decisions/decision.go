package decisions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/oklog/ulid/v2"
)

// idPrefix is the prefix of decision ids.
const idPrefix = "dec_"

// IsValue reports whether a text looks like the value of a decision button.
func IsValue(said string) bool { return strings.HasPrefix(said, idPrefix) }

// A Verdict is what a person answered about a decision in a chat.
type Verdict struct {
	Verdict collab.Verdict       `json:"verdict,omitempty"`
	Scope   collab.ApprovalScope `json:"scope,omitempty"`
	By      string               `json:"by,omitempty"`
}

// A Decision is a decision about a tool call that a turn asked people for.
type Decision struct {
	collab.Approval
	TurnID      string
	Used        bool    // the allowed call has begun
	ChatVerdict Verdict // given in the chat, not yet part of the record
}

// A Record is the agent_event that records the state of a decision. The state allowed is
// recorded before the tool runs.
type Record struct {
	Event      string               `json:"event"` // "decision"
	EventID    string               `json:"eventId"`
	Agent      protocol.PeerID      `json:"agent"`
	State      collab.ApprovalState `json:"state"`
	DecisionID string               `json:"decisionId"`
	By         string               `json:"by"`
	Tool       string               `json:"tool"`
	Scope      collab.ApprovalScope `json:"scope,omitempty"`
	Digest     string               `json:"digest"` // of the call's arguments
	Reason     string               `json:"reason,omitempty"`
}

func scan(d *Decision) []any {
	return []any{&d.TurnID, &d.Used, mailbox.JSON(&d.ChatVerdict), mailbox.JSON(&d.Approval)}
}

func list(v *mailbox.View, where string, args ...any) []Decision {
	return store.All(v.Tx, scan, `SELECT turn_id, used, chat_verdict, record FROM decisions WHERE `+where, args...)
}

// Find returns a decision, or nil if there is none.
func Find(v *mailbox.View, id string) *Decision {
	if list := list(v, `id = ?`, id); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// Request returns the decision for a tool call of a turn: a standing decision that covers
// the call, the one that the turn requested before, or a new one. A new one is shown in the chat
// of e. If e is nil or from the broker, it is shown where a person who may decide writes to the
// agent.
func Request(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, p collab.ApprovalParams) *Decision {
	if e == nil || e.FromBroker() {
		e = nil
		for _, who := range p.MayDecide {
			e = cmp.Or(e, tx.FindPerson(who, protocol.Topic(p.Chat)))
		}
		if e != nil {
			p.Chat = string(e.Chat)
		}
	}
	d := Decision{TurnID: t.ID, Approval: collab.Approval{
		ID: idPrefix + ulid.Make().String(), ApprovalParams: p, AskedByID: tx.Self().Name(), AskedByIdentity: tx.Self(),
		CreatedAt:       protocol.FormatTime(time.Now()),
		ApprovalOutcome: collab.ApprovalOutcome{State: collab.ApprovalPending},
	}}
	for _, old := range list(&tx.View, `chat = ? AND tool = ? AND state = 'allowed' ORDER BY id DESC`, p.Chat, p.Tool) {
		if old.Covers(&d.Approval) {
			return &old
		}
	}
	if same := list(&tx.View,
		`turn_id = ? AND tool = ? AND digest = ? AND used = 0 AND state IN ('pending', 'allowed', 'denied') ORDER BY id`, t.ID, p.Tool, p.Digest); len(same) > 0 {
		return &same[0]
	}
	save(tx, &d)
	if e != nil {
		tx.Reply(e, mailbox.SentNotice, mailbox.DecisionPrefix+d.ID, protocol.ChatReply{
			Text: questionText(&d.Approval), Buttons: buttons(&d.Approval), MayPress: p.MayDecide,
			Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
		})
	}
	return &d
}

func save(tx *mailbox.Tx, d *Decision) {
	tx.Exec(`INSERT OR REPLACE INTO decisions (id, turn_id, chat, tool, digest, state, scope, used, chat_verdict, record, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.ID, d.TurnID, d.Chat, d.Tool, d.Digest, d.State, d.Scope, d.Used, mailbox.JSON(d.ChatVerdict),
		mailbox.JSON(d.Approval), time.Now().UnixMicro())
}

// elicitPrefix begins the tool name of a decision that an MCP server requests; see
// harness.Elicits.
const elicitPrefix = "elicit:"

// callText describes the requested call for a chat.
func callText(a *collab.Approval) string {
	said := fmt.Sprintf("%s asks to run %s", a.AskedByID, text.Clip(text.EscapeInvisible(a.Tool), 80))
	if tool, ok := strings.CutPrefix(a.Tool, elicitPrefix); ok {
		said = fmt.Sprintf("%s runs %s, which asks before it continues", a.AskedByID,
			text.Clip(text.EscapeInvisible(tool), 80))
	}
	if a.Arguments != "" {
		said += ":\n```\n" + strings.ReplaceAll(text.EscapeInvisible(a.Arguments), "```", "'''") + "\n```"
	}
	return said + "\n"
}

// questionText asks for a decision in a chat and explains how to answer.
func questionText(a *collab.Approval) string {
	if len(a.MayDecide) == 0 {
		return callText(a) + "Nobody in this chat asked for it. To let it run: `hubbub decisions allow " + a.ID + "`."
	}
	return callText(a) + "Decide with 👍 or 👎, or reply yes or no. Without a decision by " + a.ExpiryText() + ": " +
		string(a.Default) + "."
}

// buttons returns the possible verdicts as buttons.
func buttons(a *collab.Approval) []protocol.Button {
	if len(a.MayDecide) == 0 {
		return nil
	}
	return []protocol.Button{
		{Text: "Allow", Value: a.ID + ":allow:once"}, {Text: "Deny", Value: a.ID + ":deny"},
		{Text: "Allow for this session", Value: a.ID + ":allow:session"},
		{Text: "Always allow " + text.Clip(text.EscapeInvisible(a.Tool), 30), Value: a.ID + ":allow:always"},
	}
}

// Apply stores and records the newest version of a decision, and shows the outcome in the
// chat.
func Apply(tx *mailbox.Tx, a collab.Approval) {
	d := Find(&tx.View, a.ID)
	if d == nil || d.State == a.State || !d.Open() {
		return
	}
	d.Approval, d.ChatVerdict = a, Verdict{}
	save(tx, d)
	record(tx, d, d.Digest, tx.Entry(a.EventID), mailbox.DecisionPrefix+string(a.State)+":"+a.ID)
	shown := tx.SentAs(mailbox.DecisionPrefix + a.ID)
	if shown == nil {
		return
	}
	if e := tx.Entry(shown.EventID); e != nil {
		tx.Reply(e, mailbox.SentNotice, mailbox.DecidedPrefix+string(a.State)+":"+a.ID, protocol.ChatReply{
			Text: callText(&a) + "Decision: " + a.Describe() + ".", Edits: mailbox.DecisionPrefix + a.ID,
			Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
		})
	}
}

func record(tx *mailbox.Tx, d *Decision, digest string, e *mailbox.Entry, key string) {
	if e == nil {
		e = &mailbox.Entry{}
	}
	tx.Record(key, e, Record{
		Event: "decision", EventID: d.EventID, Agent: tx.Self(), State: d.State, DecisionID: d.ID, By: d.By,
		Tool:  d.Tool,
		Scope: d.Scope, Digest: digest, Reason: d.Reason,
	})
}

// Use marks that the call allowed by a decision begins, and reports whether it may. Each
// further call under a standing decision gets its own record.
func Use(tx *mailbox.Tx, id, eventID, digest string) bool {
	d := Find(&tx.View, id)
	switch {
	case d == nil || d.State != collab.ApprovalAllowed || d.Used && !d.Reusable():
		return false
	case d.Used:
		e := tx.Entry(eventID)
		d.EventID = eventID
		record(tx, d, digest, e, mailbox.UniqueKey(mailbox.DecisionPrefix+"used", time.Now().UnixMicro()))
		return tx.Err() == nil
	}
	d.Used = true
	save(tx, d)
	return tx.Err() == nil
}

// Cancel cancels the pending decisions of a turn.
func Cancel(tx *mailbox.Tx, turnID, reason string) {
	for _, d := range list(&tx.View, `turn_id = ? AND state = 'pending'`, turnID) {
		a, err := d.Cancel(string(tx.Self()), reason, time.Now())
		if err != nil {
			continue
		}
		Apply(tx, a)
		notifyBroker(tx, collab.DecisionCancel, "cancel:"+d.ID, collab.ApprovalDecideParams{ID: d.ID, Reason: reason})
	}
}

// RevokeSession revokes the decisions that last until the agent stops.
func RevokeSession(tx *mailbox.Tx) {
	for _, d := range list(&tx.View, `state = 'allowed' AND scope = 'session'`) {
		const reason = "the agent was restarted"
		if a, err := d.Revoke(string(tx.Self()), reason, time.Now()); err == nil {
			Apply(tx, a)
			notifyBroker(tx, collab.DecisionRevoke, "revoke:"+d.ID,
				collab.ApprovalDecideParams{ID: d.ID, Reason: reason})
		}
	}
}

func notifyBroker(tx *mailbox.Tx, m collab.Method[collab.ApprovalDecideParams, collab.ApprovalResult], key string,
	p collab.ApprovalDecideParams) {
	if tx.Options().Broker.Known() {
		tx.Enqueue(protocol.TopicBroker, mailbox.DecisionPrefix+key, m.Message(tx.Self(), p))
	}
}

// HandleReply handles a chat event that decides something or answers one of the agent's
// questions, in place of intake.Store. It reports whether e was such an event. yes and no are the
// words that decide.
func HandleReply(tx *mailbox.Tx, e *mailbox.Entry, yes, no []string) bool {
	c := &e.Content
	if c.Author.Kind != string(attention.AuthorHuman) || c.Forwarded != "" {
		return false
	}
	pending := list(&tx.View, `chat = ? AND state = 'pending' ORDER BY id`, e.Chat)
	d, said := parseVerdict(&tx.View, e, pending, yes, no)
	switch {
	case said.Verdict == "":
		return false
	case !mailbox.RecordReceipt(tx, e):
		return true
	case c.ReplyTo != nil && isOtherAgent(&tx.View, c.ReplyTo.Author):
		return true // that agent handles it
	case d == nil:
		tx.ReplyToCommand(e, "This chat has no such decision.")
		return true
	}
	said.By = e.PersonIdentity()
	if _, err := d.Decide(said.Verdict, said.Scope, said.By, time.Now()); err != nil {
		tx.RecordRefusal(e, d.EventID, "decision", "not_decided")
		tx.ReplyToCommand(e, err.Error())
		return true
	}
	if d.ChatVerdict.Verdict == "" && d.State == collab.ApprovalPending {
		d.ChatVerdict = said
		save(tx, d)
	}
	return true
}

// parseVerdict returns the verdict in an event, and the decision that it is for. A button names
// its decision; a reply or reaction refers to the message that shows it. A bare word counts in a
// direct chat, or in a chat without replies, if exactly one decision is pending and no agent has
// written since.
func parseVerdict(v *mailbox.View, e *mailbox.Entry, pending []Decision, yes, no []string) (d *Decision, said Verdict) {
	c := &e.Content
	if id, what, ok := strings.Cut(c.Text, ":"); ok && IsValue(id) && c.Event == protocol.EventMessage {
		verdict, scope, _ := strings.Cut(what, ":")
		said = Verdict{Verdict: collab.Verdict(verdict), Scope: collab.ApprovalScope(scope)}
		d = Find(v, id)
		if c.ReplyTo != nil && !slices.Contains([]string{"", mailbox.DecisionPrefix + id},
			v.SentKey(e.Chat, c.ReplyTo.SourceID)) || d != nil && d.Chat != string(e.Chat) {
			return nil, said // a button under another message, or in another chat
		}
		return d, said
	}
	word := strings.ToLower(strings.Trim(c.Text, " \n\t.!?,;"))
	switch {
	case c.Event == protocol.EventReaction && c.Signal == string(attention.SignalAgree),
		c.Event == protocol.EventMessage && slices.Contains(yes, word):
		said.Verdict = collab.Allow
	case c.Event == protocol.EventReaction && c.Signal == string(attention.SignalDeclined),
		c.Event == protocol.EventMessage && slices.Contains(no, word):
		said.Verdict = collab.Deny
	default:
		return nil, Verdict{}
	}
	if c.ReplyTo != nil {
		if id, ok := strings.CutPrefix(v.SentKey(e.Chat, c.ReplyTo.SourceID), mailbox.DecisionPrefix); ok &&
			c.ReplyTo.SourceID != "" {
			return Find(v, id), said
		}
		return nil, Verdict{} // about something else, perhaps in another chat
	}
	direct := c.Chat.Kind == string(attention.ConversationDM)
	if !direct { // several people may decide; use only the decisions that this person may make
		pending = slices.DeleteFunc(pending, func(d Decision) bool {
			return mailbox.SupportsReplies(e.Chat) ||
				!d.MayBeDecidedBy(e.PersonIdentity())
		})
	}
	if c.Event == protocol.EventMessage && len(pending) == 1 && isLastMessage(v, &pending[0]) {
		return &pending[0], said
	}
	return nil, Verdict{}
}

// isLastMessage reports whether a decision's question is the last message of an agent in its
// chat.
func isLastMessage(v *mailbox.View, d *Decision) bool {
	return !store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM sent q JOIN sent s ON s.chat = q.chat AND s.rowid > q.rowid AND s.kind <> 'signal' WHERE q.key = ?1)
		OR EXISTS (SELECT 1 FROM sent q JOIN events e ON e.chat = q.chat AND e.received_at >= q.sent_at AND e.author_kind = 'agent' WHERE q.key = ?1)`, mailbox.DecisionPrefix+d.ID)
}

// isOtherAgent reports whether author is an agent other than this one.
func isOtherAgent(v *mailbox.View, author string) bool {
	return protocol.RoleOf(protocol.PeerID(author)) == protocol.RoleAgent && author != string(v.Self())
}

// AwaitsMessage reports whether a reaction may be about the message of a pending decision
// whose id in the chat is not known yet.
func AwaitsMessage(v *mailbox.View, e *mailbox.Entry) bool {
	if e.Content.Event != protocol.EventReaction || e.Content.ReplyTo == nil {
		return false
	}
	known := store.Value[bool](v.Tx,
		`SELECT EXISTS (SELECT 1 FROM sent WHERE chat = ?1 AND source_id = ?2 AND source_id <> '') OR EXISTS (SELECT 1 FROM events WHERE chat = ?1 AND source_id = ?2)`, e.Chat, e.Content.ReplyTo.SourceID)
	return !known && store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM decisions d JOIN sent s ON s.key = 'decision:' || d.id
		WHERE d.chat = ? AND d.state = 'pending' AND s.source_id = '')`, e.Chat)
}
