package obligations

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
)

// HandleReaction stores what a reaction in a chat says about an obligation. A reaction to the
// agent's answer applies to the event that it answers. A reaction to an escalation that the agent
// showed applies to the escalation.
func HandleReaction(tx *mailbox.Tx, e *mailbox.Entry) {
	c := &e.Content
	if !Enabled(&tx.View) || c.Event != protocol.EventReaction {
		return
	}
	a := Act{ID: cmp.Or(c.ReactionID, c.SourceID), Target: c.TargetEventID,
		Act: attention.Act{Actor: e.AuthorIdentity(), Signal: attention.Signal(c.Signal)}}
	if c.Signal == "" {
		a.Kind = attention.ActRemoved
	} else if _, err := attention.ParseSignal(c.Signal); err != nil {
		return
	}
	if c.Actor != nil {
		a.Actor = mailbox.PartyIdentity(*c.Actor, e.Chat)
	}
	if c.Recipient != nil {
		a.Recipient = mailbox.PartyIdentity(*c.Recipient, e.Chat)
	}
	if a.Target == "" && c.ReplyTo != nil {
		a.Target = c.ReplyTo.SourceID
	}
	if o := obligationOfSent(&tx.View, e.Chat, a.Target); o != nil {
		a.Target = o.ID
		if a.Recipient == "" || a.Recipient == string(tx.Self()) { // chats only know the author of the message
			a.Recipient = o.Recipient
		}
	}
	if a.Actor != string(tx.Self()) { // chats do not report an agent's own signals to it
		RecordAct(tx, a)
	}
}

// obligationOfSent returns the obligation that one of the agent's messages is about, as an answer
// to it or as the display of an escalation.
func obligationOfSent(v *mailbox.View, chat protocol.Topic, source string) *Obligation {
	if source == "" {
		return nil
	}
	type own struct{ key, event string }
	said, found := store.One(v.Tx, func(o *own) []any { return []any{&o.key, &o.event} },
		`SELECT key, event_id FROM sent WHERE chat = ? AND source_id = ? AND source_id <> ''`, chat, source)
	if !found {
		return nil
	}
	if id, shown := strings.CutPrefix(said.key, mailbox.ObligationPrefix); shown {
		id, _, _ = strings.Cut(id, ":")
		for _, o := range List(v, `id = ? AND author = ?`, id, v.Self()) {
			return o
		}
	}
	if e := v.Entry(said.event); e != nil {
		return Of(v, e)
	}
	return nil
}

// Commands with which people open and close obligations.
const (
	askWord   = "/ask"
	closeWord = "/close"
)

// parseCommand returns the text after a command, and reports whether the message starts with it.
func parseCommand(v *mailbox.View, e *mailbox.Entry, want string) (rest string, ok bool) {
	c := &e.Content
	word, rest, _ := strings.Cut(strings.Replace(strings.TrimSpace(c.Text), "\n", " ", 1), " ")
	word, _, _ = strings.Cut(word, "@")
	return strings.TrimSpace(rest), Enabled(v) && strings.EqualFold(word, want) && c.Event == protocol.EventMessage &&
		c.Author.Kind == string(attention.AuthorHuman) && c.Forwarded == ""
}

// HandleAskCommand turns a message that starts with the ask command into an obligating one.
func HandleAskCommand(tx *mailbox.Tx, e *mailbox.Entry) {
	if asked, ok := parseCommand(&tx.View, e, askWord); ok && asked != "" && e.Content.Obligation == nil {
		e.Content.Obligation = &protocol.Obligation{Blocks: string(attention.BlocksDegraded)}
	}
}

// HandleCloseCommand handles the command that closes an obligation, in place of intake.Store. It
// reports whether e was that command. The obligation is the one of the message replied to, the
// one named by id, or the only open one.
func HandleCloseCommand(tx *mailbox.Tx, e *mailbox.Entry) bool {
	c := &e.Content
	named, ok := parseCommand(&tx.View, e, closeWord)
	if !ok {
		return false
	}
	if !mailbox.RecordReceipt(tx, e) {
		return true
	}
	who, self := e.AuthorIdentity(), string(tx.Self())
	list := List(&tx.View,
		`open = 1 AND ((author = ?1 OR delegate = ?1) AND recipient = ?2 OR author = ?2 AND recipient = ?1 AND level <> '')`, who, self)
	about := named
	if about == "" && c.ReplyTo != nil && c.ReplyTo.SourceID != "" {
		about = c.ReplyTo.SourceID
		if o := obligationOfSent(&tx.View, e.Chat, about); o != nil {
			about = o.ID
		}
	}
	list = slices.DeleteFunc(list, func(o *Obligation) bool {
		there := tx.Entry(o.EventID)
		return there == nil || o.Level == "" && there.Chat != e.Chat || about != "" && o.ID != about
	})
	known := List(&tx.View, `id = ? AND id <> ''`, about)
	switch {
	case len(list) == 1:
		RecordAct(tx, Act{ID: "close:" + e.SourceID, Target: list[0].ID,
			Act: attention.Act{Actor: who, Signal: attention.SignalDone, Recipient: list[0].Recipient}})
		tx.ReplyToCommand(e, "Closed: "+attention.HeaderValue(list[0].Title))
	case len(list) > 1:
		command := protocol.CommandPrefix(e.Chat) + "close"
		said := "Several are open. Reply to the one you mean with " + command + ", or name it:"
		for _, o := range list[:min(len(list), 10)] {
			said += "\n" + command + " " + attention.HeaderValue(o.ID) + " — " + attention.HeaderValue(o.Title)
		}
		tx.ReplyToCommand(e, said)
	case len(known) > 0 && !slices.ContainsFunc(known, func(o *Obligation) bool { return o.Open }):
		tx.ReplyToCommand(e, "That is already closed.")
	case len(known) > 0:
		tx.ReplyToCommand(e, "Only the person who is waiting can close that.")
	// it was addressed to this agent
	case c.Chat.Kind == string(attention.ConversationDM), about != "" && c.ReplyTo != nil && c.ReplyTo.Author == self:
		tx.ReplyToCommand(e, "You are not waiting for anything from "+tx.Self().Name()+" here.")
	}
	return true
}

// Discharge closes an obligation that the agent waits for. If it may not, refused says why. known
// reports whether the agent has the obligation.
func Discharge(tx *mailbox.Tx, id, recipient string) (known bool, refused string) {
	self := string(tx.Self())
	list := List(&tx.View, `(id = ?1 OR event_id = ?1) AND (recipient = ?2 OR recipient = 'agent:' || ?2)`, id,
		recipient)
	if len(list) == 0 {
		return false, "There is no obligation of " + attention.HeaderValue(recipient) + " for " +
			attention.HeaderValue(id) + ". blocking lists what you wait for."
	}
	o := list[0]
	a := attention.Act{Actor: self, Signal: attention.SignalDone, Recipient: o.Recipient}
	switch effect, _ := o.Effect(a); {
	case !o.Open:
		return true, "It is already discharged."
	case o.Level != "" && o.Author == self:
		return true, "It lists your open obligations and closes when all of them are closed."
	case effect != attention.EffectDischarge:
		return true, "Only " + attention.HeaderValue(o.Author) + ", who is waiting, can close that."
	}
	row := Act{Target: o.ID, Act: a}
	row.ID = actID(row)
	RecordAct(tx, row)
	if protocol.RoleOf(protocol.PeerID(o.Recipient)) == protocol.RoleAgent && o.Recipient != self {
		tx.Enqueue(protocol.Topic(o.Recipient), row.ID,
			protocol.NewMessage(protocol.TypeAgentEvent, tx.Self(), protocol.Reaction{
				Event: protocol.EventReaction, ReactionID: row.ID, TargetEventID: o.ID,
				CreatedAt: protocol.FormatTime(time.Now()), Signal: string(a.Signal),
				Actor:     protocol.Party{ID: self, Kind: string(attention.AuthorAgent)},
				Recipient: &protocol.Party{ID: o.Recipient, Kind: string(attention.AuthorAgent)},
			}))
	}
	return true, ""
}

// OpenOwn stores that the agent waits for the recipient of a message it just sent. The
// obligation has the message's own id until the chat has assigned one.
func OpenOwn(tx *mailbox.Tx, e *mailbox.Entry, id protocol.MessageID, said string, recipient string,
	given *protocol.Obligation) {
	o := &Obligation{
		ID: string(id), EventID: e.EventID, Blocks: mailbox.ParseBlocks(given.Blocks),
		DefaultAction: text.Clip(text.OneLine(given.DefaultAction), maxDefaultAction), Title: titleOf(said),
		Open: true, State: attention.ObligationOpen,
		ObligationRecord: attention.ObligationRecord{Author: string(tx.Self()), Recipient: recipient,
			CreatedAt: time.Now()},
	}
	if !e.FromBroker() {
		o.Sync = AwaitingID
	}
	if given.DischargeDelegate != nil {
		o.Delegate = mailbox.PartyIdentity(*given.DischargeDelegate, e.Chat)
	}
	save(tx, o)
	record(tx, o, "opened", "said", protocol.ObligationRecord{})
}

// SetID replaces the message id of an obligation with the id that the chat assigned. The broker's
// entry under the old id is removed.
func SetID(tx *mailbox.Tx, id protocol.MessageID, source string) {
	if id == "" || source == "" {
		return
	}
	for _, o := range List(&tx.View, `id = ? AND author = ? AND open = 1`, id, tx.Self()) {
		if o.Sync == Synced {
			tx.Enqueue(protocol.TopicBroker, "named:"+o.ID, collab.ObligationReact.Message(tx.Self(), collab.ActParams{
				TargetEventID: o.ID, Kind: string(attention.ActDeleted), Actor: tx.Self(),
				Recipient: protocol.PeerID(o.Recipient),
			}))
		}
		tx.Exec(`UPDATE OR IGNORE obligations SET id = ?, synced = ? WHERE id = ? AND recipient = ?`, source, NotSynced,
			o.ID, o.Recipient)
		tx.Exec(`UPDATE acts SET target = ? WHERE target = ?`, source, id)
		tx.OnCommit(tx.Options().OnChange)
	}
}

// SyncWithoutID lets the broker list an obligation under its message id because the delivery of
// the message is uncertain.
func SyncWithoutID(tx *mailbox.Tx, id protocol.MessageID) {
	if tx.ExecCount(`UPDATE obligations SET synced = ? WHERE id = ? AND author = ? AND synced = ?`, NotSynced, id,
		tx.Self(), AwaitingID) > 0 {
		tx.OnCommit(tx.Options().OnChange)
	}
}

// ApplyBroker applies the broker's record of an obligation. Its log is authoritative
// for acts by others.
func ApplyBroker(tx *mailbox.Tx, d *collab.EventObligation) {
	self := string(tx.Self())
	if !Enabled(&tx.View) || string(d.Recipient) != self && string(d.Author) != self && string(d.Delegate) != self {
		return
	}
	o := find(&tx.View, d.EventID, string(d.Recipient))
	// an escalation has more members
	if o != nil && string(d.Author) != self && o.Author == string(d.Author) && !slices.Equal(o.Members, d.Members) {
		o.Members, o.Title, o.Blocks = d.Members, d.Title, mailbox.ParseBlocks(d.Blocks)
		save(tx, o)
	}
	for _, a := range d.Acts {
		RecordAct(tx, Act{ID: a.ReactionID, Target: d.EventID, Act: attention.Act{
			Kind: attention.ActKind(a.Kind), Actor: string(a.Actor), Signal: attention.Signal(a.Signal),
			Recipient: string(a.Recipient), At: collab.ParseTime(a.CreatedAt),
		}})
		tx.Exec(`UPDATE acts SET synced = 1 WHERE id = ?`, a.ReactionID)
	}
}

// NeedsSync reports whether the broker lacks some of the agent's obligations or acts.
func NeedsSync(v *mailbox.View) bool {
	return Enabled(v) && v.Options().Broker.Known() && store.Value[bool](v.Tx,
		`SELECT EXISTS (SELECT 1 FROM obligations WHERE synced = 0) OR EXISTS (SELECT 1 FROM acts WHERE synced = 0 AND target IN (SELECT id FROM obligations))`)
}

// Sync queues what the broker lacks.
func Sync(tx *mailbox.Tx) {
	for _, o := range List(&tx.View, `synced = 0 LIMIT 100`) {
		key := mailbox.UniqueKey("oblige:"+text.Clip(o.ID, 200), o.CreatedAt.Unix())
		tx.Enqueue(protocol.TopicBroker, key, collab.ObligationOpen.Message(tx.Self(), o.Params()))
		tx.Exec(`UPDATE obligations SET synced = 1 WHERE id = ? AND recipient = ?`, o.ID, o.Recipient)
	}
	type untold struct {
		Act
		n int64
	}
	for _, a := range store.All(tx.Tx, func(a *untold) []any {
		return []any{&a.n, &a.ID, &a.Target, &a.Kind, &a.Actor, &a.Signal, &a.Recipient}
	}, `SELECT n, id, target, kind, actor, signal, recipient FROM acts WHERE synced = 0 AND target IN (SELECT id FROM obligations WHERE synced = 1) ORDER BY n LIMIT 100`) {
		tx.Exec(`UPDATE acts SET synced = 1 WHERE n = ?`, a.n)
		mine := a.Actor == string(tx.Self())
		if !mine && !protocol.IsPerson(protocol.PeerID(a.Actor)) { // others report their own acts
			continue
		}
		for _, o := range List(&tx.View, `id = ?`, a.Target) {
			// it concerns nobody, and the broker must not learn a name from it
			if a.Kind == attention.ActSignal && a.Recipient == "" && a.Actor != o.Recipient {
				continue
			}
			tx.Enqueue(protocol.TopicBroker, fmt.Sprintf("act:%d:%s:%s", a.n, text.Clip(a.ID, 200),
				text.Clip(o.Recipient, 100)), collab.ObligationReact.Message(tx.Self(), collab.ActParams{
				ReactionID: a.ID, TargetEventID: a.Target, Kind: string(a.Kind), Actor: protocol.PeerID(a.Actor),
				Signal: string(a.Signal), Recipient: protocol.PeerID(cmp.Or(a.Recipient, o.Recipient)),
			}))
		}
	}
}

// Params returns the obligation as the broker takes it.
func (o *Obligation) Params() collab.ObligationParams {
	return collab.ObligationParams{
		EventID: o.ID, Author: protocol.PeerID(o.Author), Recipient: protocol.PeerID(o.Recipient),
		Delegate: protocol.PeerID(o.Delegate), Blocks: string(o.Blocks),
		DefaultAction: o.DefaultAction, Title: o.Title, Escalation: string(o.Level), Members: o.Members,
		CreatedAt: protocol.FormatTime(o.CreatedAt),
	}
}
