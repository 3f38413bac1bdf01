package obligations

import (
	"crypto/sha256"
	"encoding/hex"
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
)

//
// An open obligation returns to its recipient as an event of its own, injected as a knock. After
// several returns without an answer it is escalated to the next level.

// escalationID begins the ids of obligations that escalate others.
const escalationID = "owed-"

// isEscalation reports whether an event is an escalation from another agent that lists its
// obligations.
func isEscalation(e *mailbox.Entry) bool {
	return collab.IsEscalationQuestion(e.Origin.QuestionID) && strings.Contains(e.Origin.QuestionID, escalationID)
}

// Recheck schedules all open obligations for a check, because the settings may have
// changed since the last start.
func Recheck(tx *mailbox.Tx) {
	tx.Exec(`UPDATE obligations SET check_at = 1 WHERE open = 1 AND recipient = ?`, tx.Self())
}

// Run handles all obligations that are due, in one transaction: it sends returns and
// escalates.
func Run(tx *mailbox.Tx) {
	now := time.Now()
	var up []*Obligation
	for _, o := range List(&tx.View, `open = 1 AND check_at > 0 AND check_at <= ?`, store.Micros{Time: &now}) {
		due := attention.Due{}
		if o.Recipient == string(tx.Self()) && Enabled(&tx.View) {
			o.Since = tx.Mailbox().StartedAt()
			due = o.Next(actsOn(&tx.View, o.ID), o.ReturnState, tx.Options().Returns, now)
		}
		if due.Missed && !o.Missed {
			record(tx, o, "missed", due.Reason, protocol.ObligationRecord{Until: protocol.FormatTime(due.At)})
		}
		if due.Return {
			remind(tx, o, due)
		}
		if due.Escalate {
			o.Escalated = true
			up = append(up, o)
		}
		o.Slot, o.Missed, o.CheckAt = max(o.Slot, due.Slot), due.Missed, due.At
		tx.Exec(`UPDATE obligations SET slot = ?, missed = ?, escalated = ?, check_at = ? WHERE id = ? AND recipient = ?`,
			o.Slot, o.Missed, o.Escalated, store.Micros{Time: &o.CheckAt}, o.ID, o.Recipient)
	}
	escalateAll(tx, up)
}

// Due reports whether Run has work.
func Due(v *mailbox.View, now time.Time) bool {
	return store.Value[bool](v.Tx,
		`SELECT EXISTS (SELECT 1 FROM obligations WHERE open = 1 AND check_at > 0 AND check_at <= ?)`,
		store.Micros{Time: &now})
}

// remind stores a return of an obligation, unless the previous return still waits for its turn.
func remind(tx *mailbox.Tx, o *Obligation, due attention.Due) {
	of := tx.Entry(o.EventID)
	if of == nil {
		return
	}
	if waits := tx.Events(`WHERE kind = 'return' AND state IN ('stored', 'held', 'turned') AND json_extract(content, '$.targetEventId') = ?`, o.ID); len(waits) > 0 {
		record(tx, o, "waits", "the previous return is still waiting for its turn",
			protocol.ObligationRecord{ReturnID: waits[0].EventID})
		return
	}
	e := &mailbox.Entry{EventID: fmt.Sprint(mailbox.ReturnPrefix, due.Slot, ":", o.ID), SourceID: of.SourceID,
		Chat: of.Chat, Source: of.Source, ReceivedAt: time.Now()}
	place, author := *of.Content.Chat, *of.Content.Author
	author.DisplayName, author.Username = "", ""
	e.Content = protocol.ChatMessage{
		Event: string(attention.KindReturn), SourceID: of.SourceID, CreatedAt: protocol.FormatTime(o.CreatedAt),
		Chat: &place, Author: &author, TargetEventID: o.ID,
		Recipients: []protocol.Party{{ID: o.Recipient, Kind: string(attention.AuthorAgent)}},
		Obligation: &protocol.Obligation{Blocks: string(o.Blocks), DefaultAction: o.DefaultAction},
		Text: "Somebody has been waiting for you for " + o.Age(e.ReceivedAt) + ": event " +
			attention.HeaderValue(of.EventID) +
			". It returns until they close it. Read it with " + attention.PullThread +
			", then answer it, or say plainly that you cannot yet.",
	}
	e.Origin = of.Origin
	if e.Origin.QuestionID != "" && !of.Open() { // the question has its answer
		e.Origin.QuestionID = ""
	}
	if tx.Entry(e.EventID) != nil {
		return
	}
	mailbox.InsertEvent(tx, e)
	record(tx, o, "returned", due.Reason, protocol.ObligationRecord{ReturnID: e.EventID, Slot: &due.Slot})
	tx.OnCommit(func() { tx.Options().Failpoint("reminded of an obligation") })
}

// OfReturn returns the obligation that an event is a return of, or nil.
func OfReturn(v *mailbox.View, e *mailbox.Entry) *Obligation {
	if e.Content.Event != string(attention.KindReturn) {
		return nil
	}
	return find(v, e.Content.TargetEventID, string(v.Self()))
}

// Of returns this agent's obligation for an event, for an edit of it, or for a return,
// or nil.
func Of(v *mailbox.View, e *mailbox.Entry) *Obligation {
	if o := OfReturn(v, e); o != nil {
		return o
	}
	return find(v, e.ObligationID(), string(v.Self()))
}

// RecordSignal records the agent's signal about an event whose author waits for it.
func RecordSignal(tx *mailbox.Tx, e *mailbox.Entry, signal attention.Signal) {
	o := Of(&tx.View, e)
	if o == nil {
		return
	}
	self := string(tx.Self())
	row := Act{Target: o.ID, Act: attention.Act{Actor: self, Signal: signal, Recipient: self}}
	// it may be unclear again after a clarification
	row.ID = fmt.Sprint(actID(row), "-", countClarifications(&tx.View, o))
	RecordAct(tx, row)
}

// countClarifications returns how often the author has clarified an obligation.
func countClarifications(v *mailbox.View, o *Obligation) (n int) {
	for _, a := range actsOn(v, o.ID) {
		if effect, _ := o.Effect(a); effect == attention.EffectResume {
			n++
		}
	}
	return n
}

// escalateAll escalates obligations to their next levels. Those with the same level and
// recipient are combined.
func escalateAll(tx *mailbox.Tx, list []*Obligation) {
	type group struct {
		step  attention.EscalationStep
		chat  protocol.Topic
		owed  []*Obligation
		first *mailbox.Entry
	}
	var groups []*group
	for _, o := range list {
		e := tx.Entry(o.EventID)
		if e == nil {
			continue
		}
		step := nextLevel(tx, o, e)
		record(tx, o, "escalated", step.Reason, protocol.ObligationRecord{Rung: string(step.Level), To: step.To})
		if step.Level == attention.LevelAuthor {
			if !o.Escalation {
				tx.SendNotice(e, mailbox.NoticeNobody, tx.Self().Name()+
					" was reminded three times and did not answer, and there is nobody else to ask. It stays open "+
					"until you close it with 👍 on the answer or "+protocol.CommandPrefix(e.Chat)+"close.")
			}
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.step.Level == step.Level && g.step.To == step.To })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{step: step, chat: e.Chat, first: e})
		}
		groups[i].owed = append(groups[i].owed, o)
	}
	for _, g := range groups {
		escalateTo(tx, g.step, g.first, g.owed)
	}
}

// nextLevel returns who is asked about an obligation that this agent has not answered.
func nextLevel(tx *mailbox.Tx, o *Obligation, e *mailbox.Entry) attention.EscalationStep {
	policy := tx.Options().Escalation.WithOwners(e.Origin.Lead, e.Origin.Owner)
	for _, who := range peopleIn(&tx.View, e.Chat) {
		if tx.FindPerson(who, e.Chat) != nil {
			policy.People = append(policy.People, who)
		}
	}
	state := attention.Escalation{Self: string(tx.Self()), Author: o.Author, Unreachable: map[attention.Level]bool{}}
	for _, name := range []attention.Level{attention.LevelLead, attention.LevelOwner, attention.LevelPerson} {
		if who := policy.Target(name); who != "" {
			state.Unreachable[name] = tx.FindPerson(who, e.Chat) == nil && !tx.Options().Broker.Known()
		}
	}
	return policy.Next(state)
}

// peopleIn returns the people of a chat: first those of its configuration, then the others in the
// order of their first messages.
func peopleIn(v *mailbox.View, chat protocol.Topic) []string {
	var told []string
	for _, list := range store.All(v.Tx, func(l *[]string) []any { return []any{store.JSON{V: l}} },
		`SELECT people FROM chats WHERE topic = ?`, chat) {
		told = append(told, list...)
	}
	wrote := store.All(v.Tx, store.Scalar[string],
		`SELECT author FROM events WHERE chat = ? AND author_kind = 'human' GROUP BY author ORDER BY min(seq) LIMIT 20`,
		chat)
	for _, id := range wrote {
		if who := mailbox.PersonIdentity(chat, id); !slices.Contains(told, who) {
			told = append(told, who)
		}
	}
	return told
}

// escalateTo escalates obligations to one recipient: as a new obligation, or as further members
// of one that is open.
func escalateTo(tx *mailbox.Tx, step attention.EscalationStep, e *mailbox.Entry, owed []*Obligation) {
	self := string(tx.Self())
	r, known := &Obligation{Level: step.Level, Open: true, State: attention.ObligationOpen, EventID: e.EventID,
		DefaultAction: "They stay open, and " + self + " gets no further reminders."}, false
	if open := List(&tx.View, `author = ? AND recipient = ? AND level = ? AND open = 1`, self, step.To,
		step.Level); len(open) > 0 {
		r, known = open[0], true
	}
	for _, o := range owed {
		if !slices.Contains(r.Members, o.ID) {
			r.Members = append(r.Members, o.ID)
		}
	}
	if !known {
		sum := sha256.Sum256([]byte(strings.Join(append([]string{self, string(step.Level), step.To}, r.Members...),
			"\x00")))
		r.ID = collab.EscalationQuestionID(escalationID + hex.EncodeToString(sum[:10]))
		r.ObligationRecord = attention.ObligationRecord{Author: self, Recipient: step.To, Escalation: true,
			CreatedAt: time.Now()}
	}
	listed := openMembers(&tx.View, r)
	r.Blocks, r.Title, r.Sync = attention.AllBlocks[len(attention.AllBlocks)-1],
		fmt.Sprintf("%s has not answered %s", tx.Self().Name(), text.Counted(len(r.Members), "obligation")), NotSynced
	for i, o := range listed {
		if slices.Index(attention.AllBlocks, o.Blocks) < slices.Index(attention.AllBlocks, r.Blocks) {
			r.Blocks = o.Blocks
		}
		if i == 0 {
			r.Delegate = o.Author
		} else if r.Delegate != o.Author {
			r.Delegate = "" // with several authors, no one may close it for the others
		}
	}
	save(tx, r)
	showEscalation(tx, r, e, known)
	tx.OnCommit(func() { tx.Options().Failpoint("escalated") })
}

// openMembers returns the open obligations that an escalation lists.
func openMembers(v *mailbox.View, r *Obligation) (list []*Obligation) {
	for _, id := range r.Members {
		if o := find(v, id, string(v.Self())); o != nil && o.Open {
			list = append(list, o)
		}
	}
	return list
}

// escalationText returns the text of an escalation.
func escalationText(tx *mailbox.Tx, r *Obligation) string {
	lines := []string{r.Title + ", despite reminders:"}
	for _, o := range openMembers(&tx.View, r) {
		line := fmt.Sprintf("- %s waits for %s (%s): %s", attention.HeaderValue(o.Author), o.Age(time.Now()), o.Blocks,
			attention.HeaderValue(o.Title))
		if o.DefaultAction != "" {
			line += " — otherwise: " + attention.HeaderValue(o.DefaultAction)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\nPlease make sure that they get their answers."
}

// showEscalation shows an escalation to its recipient: to a person in their chat, to anybody else
// as a question from the broker. An update replaces the message in the chat.
func showEscalation(tx *mailbox.Tx, r *Obligation, e *mailbox.Entry, known bool) {
	object := &protocol.Obligation{Blocks: string(r.Blocks), DefaultAction: r.DefaultAction}
	if r.Delegate != "" {
		object.DischargeDelegate = &protocol.Party{ID: r.Delegate}
	}
	said, key := escalationText(tx, r), mailbox.ObligationPrefix+r.ID
	there := tx.FindPerson(r.Recipient, e.Chat)
	switch {
	case there != nil:
		reply := protocol.ChatReply{
			Text: said + "\n\nReact with 👍 or ✅, or reply with " + protocol.CommandPrefix(there.Chat) +
				"close, when it is done.",
			Obligation: object,
			Recipients: []protocol.Party{{ID: r.Recipient, Kind: string(attention.AuthorHuman)}},
		}
		if known {
			reply.Edits, key = key, fmt.Sprint(key, ":", len(r.Members))
		}
		if tx.SentAs(key) == nil {
			tx.Reply(there, mailbox.SentNotice, key, reply)
		}
	case !known:
		tx.Enqueue(protocol.TopicBroker, "ask:"+r.ID,
			collab.QuestionAsk.Message(tx.Self(), collab.QuestionParams{ID: &r.ID, Title: said, AskedOfID: r.Recipient,
				Obligation: object}))
	}
}

// showClosed replaces the message of an escalation after its end, or closes the broker's
// question.
func showClosed(tx *mailbox.Tx, o *Obligation) {
	switch shown := tx.SentAs(mailbox.ObligationPrefix + o.ID); {
	case shown != nil:
		if e := tx.Entry(shown.EventID); e != nil {
			tx.Reply(e, mailbox.SentNotice, mailbox.ObligationPrefix+o.ID+":over", protocol.ChatReply{
				Text: o.Title + ": closed.", Edits: mailbox.ObligationPrefix + o.ID,
			})
		}
	case collab.IsEscalationQuestion(o.ID):
		tx.Enqueue(protocol.TopicBroker, "close:"+o.ID,
			collab.QuestionClose.Message(tx.Self(), collab.IDParams{ID: o.ID}))
	}
}

// clarifyKey returns the prefix of the ids of clarification requests for an obligation.
func clarifyKey(o *Obligation) string {
	sum := sha256.Sum256([]byte("clarify\x00" + o.ID + "\x00" + o.Recipient))
	return "clarify_" + hex.EncodeToString(sum[:10]) + "_"
}

// requestClarification asks the author of an unclear obligation to clarify it: an agent through
// the broker, a person in the chat. The author then owes an answer.
func requestClarification(tx *mailbox.Tx, o *Obligation) {
	e := tx.Entry(o.EventID)
	if e == nil {
		return
	}
	back := &Obligation{
		ID: fmt.Sprint(clarifyKey(o), countClarifications(&tx.View, o)), EventID: o.EventID, Blocks: o.Blocks,
		Open: true, State: attention.ObligationOpen,
		DefaultAction: "It waits until then.", Title: "clarification of: " + o.Title,
		ObligationRecord: attention.ObligationRecord{Author: o.Recipient, Recipient: o.Author, CreatedAt: time.Now()},
	}
	if find(&tx.View, back.ID, back.Recipient) != nil {
		return
	}
	save(tx, back)
	object := &protocol.Obligation{Blocks: string(back.Blocks), DefaultAction: back.DefaultAction}
	said := "I do not understand this. Please clarify: edit the message, or write a new one."
	if strings.HasPrefix(o.Author, "agent:") && tx.Options().Broker.Known() {
		tx.Enqueue(protocol.TopicBroker, "ask:"+back.ID, collab.QuestionAsk.Message(tx.Self(), collab.QuestionParams{
			ID: &back.ID, Title: said + " It was: " + o.Title, AskedOfID: o.Author, Obligation: object,
		}))
	} else {
		kind := string(attention.AuthorHuman)
		if e.FromAgent() {
			kind = string(attention.AuthorAgent)
		}
		tx.Reply(e, mailbox.SentNotice, mailbox.ObligationPrefix+back.ID, protocol.ChatReply{
			Text: said, Obligation: object, Recipients: []protocol.Party{{ID: o.Author, Kind: kind}},
		})
	}
	record(tx, back, "opened", "unclear", protocol.ObligationRecord{})
}
