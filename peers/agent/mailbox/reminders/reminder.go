package reminders

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	_ "time/tzdata" // the machine may lack time zone data

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/adhocore/gronx"
)

// A reminder becomes an event when it is due, in the transaction that deletes it or sets its next
// time. If several times pass while the agent does not run or the previous event is open, they
// cause one event.

// Bounds of reminders.
const (
	maxReminders      = 20 // of one chat
	maxRemindersTotal = 100
	maxDelay          = 366 * 24 * time.Hour
	minRepeatInterval = 5 * time.Minute
	idPrefix          = "reminder:" // prefix of the ids of their events
)

// A Reminder is an event that the agent scheduled for itself.
type Reminder struct {
	ID       string         `json:"id"`
	Chat     protocol.Topic `json:"chat"`
	Location protocol.Chat  `json:"-"` // conversation and thread
	Text     string         `json:"text"`
	Cron     string         `json:"cron,omitempty"` // empty: once; see nextStep for values that begin with @every
	Zone     string         `json:"zone,omitempty"` // of its local times: a name, or an offset such as +01:00
	SetFor   string         `json:"setFor,omitempty"`
	Set      time.Time      `json:"set"`
	Due      time.Time      `json:"due"` // next time

	cancelledBy string // who cancelled it
}

// ErrInvalid is wrapped by the errors that say why a reminder cannot be set.
var ErrInvalid = errors.New("the reminder was not set")

// Schedule sets when a reminder is due, from what a model wrote: see parseWhen. Reminder.Zone is
// the name of the zone of its local times; given, if not empty, replaces it.
func (r *Reminder) Schedule(when, given string, zone *time.Location, now time.Time) error {
	if given != "" {
		own, err := loadZone(given)
		if err != nil {
			return fmt.Errorf("%w: %q is not a time zone: use a name such as Europe/Berlin", ErrInvalid,
				text.Clip(given, 60))
		}
		zone = own
	}
	m, err := parseWhen(when, zone, now, morning)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r.Set, r.Cron, r.Due = now, m.cron, m.due
	r.Zone = m.zone.String()
	if r.Zone == "" { // an offset
		r.Zone = now.In(m.zone).Format("-07:00")
	}
	if r.Cron != "" && r.Due.IsZero() {
		err = r.advance(now.In(m.zone))
	}
	r.Due = r.Due.In(m.zone)
	switch {
	case err != nil:
		return err
	case !r.Due.After(now):
		return fmt.Errorf("%w: %s has passed; it is %s", ErrInvalid, attention.TimeText(r.Due),
			attention.TimeText(now.In(m.zone)))
	case r.Due.Sub(now) > maxDelay:
		return fmt.Errorf("%w: it may be at most a year ahead", ErrInvalid)
	}
	return nil
}

// location returns the zone of the reminder's local times.
func (r *Reminder) location() (*time.Location, error) {
	if r.Zone != "" && (r.Zone[0] == '+' || r.Zone[0] == '-') {
		return fixedZone(r.Zone), nil
	}
	return time.LoadLocation(r.Zone)
}

// advance sets the next time of a repetition after now, in the zone of now. It fails if the
// times are too close to each other.
func (r *Reminder) advance(now time.Time) error {
	const looked = 50
	if step, found := strings.CutPrefix(r.Cron, everyPrefix); found {
		r.Due = nextStep(step, r.Due, now)
		return nil
	}
	due, err := nextTick(r.Cron, now)
	if err != nil {
		return fmt.Errorf("%w: %q never occurs: %w", ErrInvalid, r.Cron, err)
	}
	r.Due = due
	last := wallClock(due) // clock changes do not make times too close
	for range looked {
		next, err := gronx.NextTickAfter(r.Cron, last, false)
		if err != nil {
			return nil
		}
		if next.Sub(last) < minRepeatInterval {
			return fmt.Errorf("%w: %q occurs more often than every 5 minutes: set it less often", ErrInvalid, r.Cron)
		}
		last = next
	}
	return nil
}

const columnNames = `id, chat, location, text, cron, zone, set_for, set_at, due_at, cancelled_by`

func scan(r *Reminder) []any {
	return []any{&r.ID, &r.Chat, store.JSON{V: &r.Location}, &r.Text, &r.Cron, &r.Zone, &r.SetFor,
		store.Micros{Time: &r.Set},
		store.Micros{Time: &r.Due}, &r.cancelledBy}
}

// List returns the reminders of a chat, or all if chat is empty, ordered by their next
// times.
func List(v *mailbox.View, chat protocol.Topic) []Reminder {
	list := store.All(v.Tx, scan, `SELECT `+columnNames+
		` FROM reminders WHERE cancelled_by = '' AND (chat = ?1 OR ?1 = '') ORDER BY due_at, id`, chat)
	for i := range list {
		if zone, err := list[i].location(); err == nil {
			list[i].Due = list[i].Due.In(zone)
		}
	}
	return list
}

// Set stores and records a reminder. If it exists already, or its event does, nothing
// changes.
func Set(tx *mailbox.Tx, r Reminder) (Reminder, error) {
	all := List(&tx.View, "")
	here := 0
	for _, other := range all {
		if other.ID == r.ID {
			return other, nil
		}
		if other.Chat == r.Chat {
			here++
		}
	}
	switch {
	case hasEvent(&tx.View, r.ID, "TRUE"):
		return r, nil
	case here >= maxReminders:
		return r, fmt.Errorf("%w: this chat already has %d; cancel one first", ErrInvalid, here)
	case len(all) >= maxRemindersTotal:
		return r, fmt.Errorf("%w: you already have %d; cancel one first", ErrInvalid, len(all))
	}
	tx.Exec(`INSERT INTO reminders (`+columnNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')`,
		r.ID, r.Chat, store.JSON{V: &r.Location}, r.Text, r.Cron, r.Zone, r.SetFor, store.Micros{Time: &r.Set},
		store.Micros{Time: &r.Due})
	record(tx, &r, tx.Entry(r.SetFor), r.SetFor, "set", r.Text)
	return r, nil
}

// Cancel deletes a reminder of a chat, or of any chat if chat is empty, and reports
// whether it existed.
func Cancel(tx *mailbox.Tx, id string, chat protocol.Topic, why string) bool {
	for _, r := range List(&tx.View, chat) {
		if r.ID == id {
			tx.Exec(`DELETE FROM reminders WHERE id = ?`, id)
			record(tx, &r, nil, r.SetFor, "cancelled", why)
			return true
		}
	}
	return false
}

func record(tx *mailbox.Tx, r *Reminder, e *mailbox.Entry, eventID, state, reason string) {
	record := protocol.ReminderRecord{
		Agent:      tx.Self(),
		Event:      protocol.RecordReminder,
		EventID:    eventID,
		Reason:     text.Clip(text.OneLine(reason), 300),
		ReminderID: r.ID,
		State:      state,
		Target:     r.Chat,
	}
	if state != "cancelled" {
		record.Due = protocol.FormatTime(r.Due)
	}
	tx.Record(mailbox.UniqueKey("reminder", r.Due.Unix()), e, record)
}

// Due returns the reminders that are due. Cancelled reminders are due as well.
func Due(v *mailbox.View, now time.Time) []string {
	return store.All(v.Tx, store.Scalar[string],
		`SELECT id FROM reminders WHERE due_at <= ? ORDER BY due_at, id`, store.Micros{Time: &now})
}

// Fire stores the event of a due reminder and sets its next future time. It stores no
// event if the previous one is open or the agent was asked to leave.
func Fire(tx *mailbox.Tx, id string) {
	r, ok := store.One(tx.Tx, scan, `SELECT `+columnNames+` FROM reminders WHERE id = ?`, id)
	now, e := time.Now(), eventOf(&tx.View, &r)
	switch {
	case !ok:
		return
	case r.cancelledBy != "":
		drop(tx, &r, "cancelled by "+r.cancelledBy)
		return
	case r.Due.After(now):
		return
	case tx.HasLeft(e):
		drop(tx, &r, "left")
		return
	}
	due := r.Due
	if r.Cron == "" {
		tx.Exec(`DELETE FROM reminders WHERE id = ?`, id)
	} else if zone, err := r.location(); err != nil { // the machine has lost its time zone data
		drop(tx, &r, err.Error())
	} else if err := r.advance(now.In(zone)); err != nil {
		drop(tx, &r, err.Error())
	} else {
		tx.Exec(`UPDATE reminders SET due_at = ? WHERE id = ?`, store.Micros{Time: &r.Due}, id)
	}
	if hasEvent(&tx.View, id, mailbox.OpenCondition) || tx.Entry(e.EventID) != nil {
		return
	}
	e.Content.Text = r.eventText(due, now)
	mailbox.InsertEvent(tx, e)
	r.Due = due
	record(tx, &r, e, e.EventID, "due", r.Text)
}

// hasEvent reports whether a reminder has an event that meets a condition.
func hasEvent(v *mailbox.View, id, condition string) bool {
	return store.Value[bool](v.Tx,
		`SELECT EXISTS (SELECT 1 FROM events WHERE substr(event_id, 1, length(?1)) = ?1 AND kind = 'reminder' AND `+
			condition+`)`, idPrefix+id+":")
}

func drop(tx *mailbox.Tx, r *Reminder, why string) {
	tx.Exec(`DELETE FROM reminders WHERE id = ?`, r.ID)
	record(tx, r, nil, r.SetFor, "cancelled", why)
}

// eventOf returns the event of a reminder, without its text. It continues the trace of the
// event for which the reminder was set.
func eventOf(v *mailbox.View, r *Reminder) *mailbox.Entry {
	e := &mailbox.Entry{EventID: fmt.Sprint(idPrefix, r.ID, ":", r.Due.Unix()), Chat: r.Chat, ReceivedAt: time.Now()}
	e.SourceID, e.Source.MessageID = e.EventID, protocol.NewMessageID()
	place := r.Location
	e.Content = protocol.ChatMessage{
		Event: string(attention.KindReminder), SourceID: e.EventID, CreatedAt: protocol.FormatTime(e.ReceivedAt),
		Chat:   &place,
		Author: &protocol.Author{ID: "hubbub", Kind: string(attention.AuthorSystem)},
	}
	if cause := v.Entry(r.SetFor); cause != nil {
		e.Source = cause.Source
	}
	return e
}

// eventText returns the text of the event. r has its next time.
func (r *Reminder) eventText(due, now time.Time) string {
	if zone, err := r.location(); err == nil {
		due, r.Due = due.In(zone), r.Due.In(zone)
	}
	said := "You set this reminder for " + attention.TimeText(due)
	if r.SetFor != "" {
		said += ", for the event " + attention.HeaderValue(r.SetFor)
	}
	if now.Sub(due) > time.Minute {
		said += "; it is late, and covers all times that have passed since"
	}
	said += ":\n" + r.Text
	if r.Cron != "" {
		said += "\n\nIt repeats at " + attention.TimeText(r.Due) + ", until chat.remind cancels " + r.ID + "."
	}
	return said
}

// Read reads the reminders from the database of an agent, which may be running.
func Read(ctx context.Context, path string) (list []Reminder, err error) {
	err = withDatabase(ctx, path, func(tx *store.Tx) { list = List(&mailbox.View{Tx: tx}, "") })
	return list, err
}

// RequestCancel asks an agent, running or not, to cancel a reminder, and reports whether it
// exists. by names the requester. The reminder becomes due, so that the agent looks at it.
func RequestCancel(ctx context.Context, path, id, by string) (found bool, err error) {
	err = withDatabase(ctx, path, func(tx *store.Tx) {
		found = tx.ExecCount(`UPDATE reminders SET cancelled_by = ?, due_at = 1 WHERE id = ? AND cancelled_by = ''`, by,
			id) > 0
	})
	return found, err
}

// withDatabase runs do on the database of an agent, if it exists.
func withDatabase(ctx context.Context, path string, do func(*store.Tx)) error {
	db, err := store.OpenExisting(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(store.Autocommit(ctx, db, do), db.Close())
}
