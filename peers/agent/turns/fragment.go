package turns

import (
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// Factors of the compose window: after a name alone, because its author is about to write more;
// and beside an item that its author did not type, because it takes a while to find and send.
const (
	nameFactor = 2.5
	itemFactor = 5
)

// isItem reports whether an event was not typed by its author: a file without words, a forwarded
// message, or something that a bridge describes in brackets, such as a place, a contact or a poll.
func isItem(e *mailbox.Entry) bool {
	said := strings.TrimSpace(e.Content.Text)
	return said == "" && len(e.Content.Attachments) > 0 || e.Content.Forwarded != "" ||
		strings.HasPrefix(said, "[") && strings.Contains(said, "]")
}

// windowAfter returns how long an event waits for a further fragment.
func windowAfter(e *mailbox.Entry, window time.Duration) time.Duration {
	if e.Content.ReplyTo == nil && len(e.Content.Attachments) == 0 && attention.OnlyLabels(e.Content.Text) {
		return time.Duration(nameFactor * float64(window))
	}
	return window
}

// isNear reports whether two events in order are close enough in time to be fragments of one
// message. It compares when they were received or, if they were delayed on the way, when they
// were written.
func isNear(before, after *mailbox.Entry, window time.Duration) bool {
	reach := windowAfter(before, window)
	if isItem(before) || isItem(after) {
		reach = itemFactor * window
	}
	const precision = time.Second // of the times in chats
	return after.ReceivedAt.Sub(before.ReceivedAt) <= reach && after.SentAt().Sub(before.SentAt()) <= reach+precision
}

// mayBeFragment reports whether an event outside of direct messages may belong to another message
// from its author.
func mayBeFragment(e *mailbox.Entry) bool {
	return e.Content.Event == protocol.EventMessage && e.Content.Author.Kind == string(attention.AuthorHuman) &&
		e.Content.Chat.Kind != string(attention.ConversationDM) && !e.FromBroker()
}

// isBeginning reports whether an event is addressed to the agent, so that its author's fragments
// around it are, too.
func isBeginning(e *mailbox.Entry) bool {
	d := &e.Decision
	return mayBeFragment(e) && e.Mergeable() && d.Directedness == attention.DirectedToMe && d.Action == "" &&
		d.Policy == attention.PolicyMustRespond && !e.IsFragment()
}

// earlierFragments returns what the author of an event wrote before it in the same thread, within the
// bounds of fragments, newest first.
func (r *Runner) earlierFragments(v *mailbox.View, e *mailbox.Entry) (list []*mailbox.Entry) {
	const most = 20
	next := e
	for _, old := range v.Events(`WHERE conversation = ? AND received_at >= ? AND author_kind = 'human' AND seq < ?
			AND author = ? AND thread = ? AND chat = ? AND kind = 'message' ORDER BY seq DESC LIMIT ?`,
		e.Content.Chat.ID, e.ReceivedAt.Add(-r.opts.ComposeCap).UnixMicro(), e.Seq, e.Content.Author.ID,
		e.Content.Chat.ThreadID, e.Chat, most) {
		if !isNear(old, next, r.opts.ComposeWindow) {
			break
		}
		list, next = append(list, old), old
	}
	return list
}

// continues reports whether an event continues a message that its author addressed to the agent.
func (r *Runner) continues(v *mailbox.View, e *mailbox.Entry) bool {
	if !mayBeFragment(e) {
		return false
	}
	for _, old := range r.earlierFragments(v, e) {
		switch {
		case isBeginning(old):
			return true
		case !old.IsFragment():
			return false
		}
	}
	return false
}

// inheritQuestion copies to the facts about a fragment that the agent had asked or offered something before the
// first fragment, so that in "ok" and then "cool" both are the answer.
func (r *Runner) inheritQuestion(v *mailbox.View, e *mailbox.Entry, facts *attention.Facts) {
	if e.Content.Event != protocol.EventMessage || e.Content.Author.Kind != string(attention.AuthorHuman) {
		return
	}
	if earlier := r.earlierFragments(v, e); len(earlier) > 0 {
		first := obligations.Facts(v, earlier[len(earlier)-1])
		facts.Asked, facts.Offered = facts.Asked || first.Asked, facts.Offered || first.Offered
	}
}

// waitsForName reports whether a knock waits for the compose window, since its message may be a fragment
// of one that names the agent.
func waitsForName(e *mailbox.Entry) bool { return mayBeFragment(e) && e.Decision.NamesNobody() }

// includeEarlier holds the messages addressed to nobody that precede an event addressed to the
// agent and are fragments of it: the beginning of a long text that the chat has split, or the
// file that a question is about.
func (r *Runner) includeEarlier(tx *mailbox.Tx, e *mailbox.Entry) {
	if !isBeginning(e) {
		return
	}
	for _, old := range r.earlierFragments(&tx.View, e) {
		if old.State != mailbox.Ignored && old.State != mailbox.Held || old.Deleted || !old.Decision.NamesNobody() {
			return
		}
		old.Decision = attention.AsFragment(e.Decision)
		tx.Decide(old)
		tx.Move(old, mailbox.Include, "")
	}
}
