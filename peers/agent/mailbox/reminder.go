package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	_ "time/tzdata" // the machine may lack time zone data

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/adhocore/gronx"
)

//
// A reminder becomes an event when it is due, in the transaction that deletes it or sets its next
// time. If several times pass while the agent does not run or the previous event is open, they
// cause one event.

// Bounds of reminders.
const (
	maxReminders      = 20 // of one chat
	maxRemindersTotal = 100
	maxReminderDelay  = 366 * 24 * time.Hour
	minRepeatInterval = 5 * time.Minute
	reminderKey       = "reminder:" // prefix of the ids of their events
)

// A Reminder is an event that the agent scheduled for itself.
type Reminder struct {
	ID       string         `json:"id"`
	Chat     protocol.Topic `json:"chat"`
	Location protocol.Chat  `json:"-"` // conversation and thread
	Text     string         `json:"text"`
	Cron     string         `json:"cron,omitempty"` // empty: once
	Zone     string         `json:"zone,omitempty"` // of Cron
	SetFor   string         `json:"setFor,omitempty"`
	Set      time.Time      `json:"set"`
	Due      time.Time      `json:"due"` // next time

	cancelledBy string // who cancelled it
}

// ErrReminder is wrapped by the errors that say why a reminder cannot be set.
var ErrReminder = errors.New("the reminder was not set")

// Schedule sets when a reminder is due: at a time (RFC 3339), after a duration, or by a cron
// expression with five fields in its zone.
func (r *Reminder) Schedule(when string, now time.Time) error {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "Local" {
		return fmt.Errorf("%w: %q is not a time zone: use a name such as Europe/Berlin", ErrReminder, r.Zone)
	}
	r.Set, when = now, strings.TrimSpace(when)
	if at, err := time.Parse(time.RFC3339, when); err == nil {
		r.Due = at
	} else if d, err := time.ParseDuration(when); err == nil {
		r.Due = now.Add(d)
	} else if r.Cron = when; strings.Count(when, " ") == 0 && !strings.HasPrefix(when, "@") || !gronx.IsValid(when) || len(strings.Fields(when)) > 5 {
		return fmt.Errorf("%w: %q is not a time (2027-01-31T17:00:00+01:00), a duration (45m) or a cron expression with five fields (0 9 * * 1-5)", ErrReminder, text.Clip(when, 100))
	}
	if r.Cron != "" {
		err = r.advance(now.In(zone))
	}
	switch {
	case err != nil:
		return err
	case !r.Due.After(now):
		return fmt.Errorf("%w: %s has passed; the time is %s", ErrReminder, r.Due.Format(time.RFC3339), now.In(zone).Format(time.RFC3339))
	case r.Due.Sub(now) > maxReminderDelay:
		return fmt.Errorf("%w: it may be at most a year ahead", ErrReminder)
	}
	return nil
}

// advance sets the next time of a cron expression after now, in the zone of now. It fails if the
// times are too close to each other.
func (r *Reminder) advance(now time.Time) error {
	const looked = 50
	last := time.Time{}
	for n := range looked {
		next, err := gronx.NextTickAfter(r.Cron, now, false)
		switch {
		case err != nil && n == 0:
			return fmt.Errorf("%w: %q never occurs: %w", ErrReminder, r.Cron, err)
		case err != nil:
			return nil
		case n == 0:
			r.Due = next
		case next.Sub(last) < minRepeatInterval:
			return fmt.Errorf("%w: %q occurs more often than every %v", ErrReminder, r.Cron, minRepeatInterval)
		}
		now, last = next, next
	}
	return nil
}

const reminderNames = `id, chat, location, text, cron, zone, set_for, set_at, due_at, cancelled_by`

func scanReminder(r *Reminder) []any {
	return []any{&r.ID, &r.Chat, JSONColumn{&r.Location}, &r.Text, &r.Cron, &r.Zone, &r.SetFor, TimeColumn{&r.Set}, TimeColumn{&r.Due}, &r.cancelledBy}
}

// Reminders returns the reminders of a chat, or all if chat is empty, ordered by their next
// times.
func Reminders(v *View, chat protocol.Topic) []Reminder {
	return store.All(v.Tx, scanReminder, `SELECT `+reminderNames+` FROM reminders WHERE cancelled_by = '' AND (chat = ?1 OR ?1 = '') ORDER BY due_at, id`, chat)
}

// SetReminder stores and records a reminder. If it exists already, or its event does, nothing
// changes.
func SetReminder(tx *Tx, r Reminder) (Reminder, error) {
	all := Reminders(&tx.View, "")
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
	case hasReminderEvent(&tx.View, r.ID, "TRUE"):
		return r, nil
	case here >= maxReminders:
		return r, fmt.Errorf("%w: this chat already has %d; cancel one first", ErrReminder, here)
	case len(all) >= maxRemindersTotal:
		return r, fmt.Errorf("%w: you already have %d; cancel one first", ErrReminder, len(all))
	}
	tx.Exec(`INSERT INTO reminders (`+reminderNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')`,
		r.ID, r.Chat, JSONColumn{&r.Location}, r.Text, r.Cron, r.Zone, r.SetFor, TimeColumn{&r.Set}, TimeColumn{&r.Due})
	recordReminder(tx, &r, tx.Entry(r.SetFor), r.SetFor, "set", r.Text)
	return r, nil
}

// CancelReminder deletes a reminder of a chat, or of any chat if chat is empty, and reports
// whether it existed.
func CancelReminder(tx *Tx, id string, chat protocol.Topic, why string) bool {
	for _, r := range Reminders(&tx.View, chat) {
		if r.ID == id {
			tx.Exec(`DELETE FROM reminders WHERE id = ?`, id)
			recordReminder(tx, &r, nil, r.SetFor, "cancelled", why)
			return true
		}
	}
	return false
}

func recordReminder(tx *Tx, r *Reminder, e *Entry, eventID, state, reason string) {
	record := map[string]any{
		"event": "reminder", "eventId": eventID, "agent": tx.Self(), "reminderId": r.ID, "state": state, "target": r.Chat, "reason": text.Clip(text.OneLine(reason), 300),
	}
	if state != "cancelled" {
		record["due"] = protocol.FormatTime(r.Due)
	}
	tx.Record(UniqueKey("reminder", r.Due.Unix()), e, record)
}

// DueReminders returns the reminders that are due or were cancelled by a person.
func DueReminders(v *View, now time.Time) []string {
	return store.All(v.Tx, store.Scalar[string], `SELECT id FROM reminders WHERE due_at <= ? OR cancelled_by <> '' ORDER BY due_at, id`, TimeColumn{&now})
}

// FireReminder stores the event of a due reminder and sets its next future time. It stores no
// event if the previous one is open or the agent was asked to leave.
func FireReminder(tx *Tx, id string) {
	r, ok := store.One(tx.Tx, scanReminder, `SELECT `+reminderNames+` FROM reminders WHERE id = ?`, id)
	now, e := time.Now(), tx.reminderEvent(&r)
	switch {
	case !ok:
		return
	case r.cancelledBy != "":
		dropReminder(tx, &r, "cancelled by "+r.cancelledBy)
		return
	case r.Due.After(now):
		return
	case tx.HasLeft(e):
		dropReminder(tx, &r, "left")
		return
	}
	due := r.Due
	if r.Cron == "" {
		tx.Exec(`DELETE FROM reminders WHERE id = ?`, id)
	} else if zone, err := time.LoadLocation(r.Zone); err != nil { // the machine has lost its time zone data
		dropReminder(tx, &r, err.Error())
	} else if err := r.advance(now.In(zone)); err != nil {
		dropReminder(tx, &r, err.Error())
	} else {
		tx.Exec(`UPDATE reminders SET due_at = ? WHERE id = ?`, TimeColumn{&r.Due}, id)
	}
	if hasReminderEvent(&tx.View, id, OpenCondition) || tx.Entry(e.EventID) != nil {
		return
	}
	e.Content.Text = r.eventText(due, now)
	InsertEvent(tx, e)
	r.Due = due
	recordReminder(tx, &r, e, e.EventID, "due", r.Text)
}

// hasReminderEvent reports whether a reminder has an event that meets a condition.
func hasReminderEvent(v *View, id, condition string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM events WHERE substr(event_id, 1, length(?1)) = ?1 AND kind = 'reminder' AND `+condition+`)`, reminderKey+id+":")
}

func dropReminder(tx *Tx, r *Reminder, why string) {
	tx.Exec(`DELETE FROM reminders WHERE id = ?`, r.ID)
	recordReminder(tx, r, nil, r.SetFor, "cancelled", why)
}

// reminderEvent returns the event of a reminder, without its text. It continues the trace of the
// event for which the reminder was set.
func (v *View) reminderEvent(r *Reminder) *Entry {
	e := &Entry{EventID: fmt.Sprint(reminderKey, r.ID, ":", r.Due.Unix()), Chat: r.Chat, ReceivedAt: time.Now()}
	e.SourceID, e.Source.MessageID = e.EventID, protocol.NewMessageID()
	place := r.Location
	e.Content = protocol.ChatMessage{
		Event: string(attention.KindReminder), SourceID: e.EventID, CreatedAt: protocol.FormatTime(e.ReceivedAt), Chat: &place,
		Author: &protocol.Author{ID: "hubbub", Kind: string(attention.AuthorSystem)},
	}
	if cause := v.Entry(r.SetFor); cause != nil {
		e.Source = cause.Source
	}
	return e
}

// eventText returns the text of the event. r has its next time.
func (r *Reminder) eventText(due, now time.Time) string {
	said := "You set this reminder for " + due.UTC().Format(time.RFC3339)
	if r.SetFor != "" {
		said += ", for the event " + attention.HeaderValue(r.SetFor)
	}
	if now.Sub(due) > time.Minute {
		said += "; it is late, and stands for all times that have passed since"
	}
	said += ":\n" + r.Text
	if r.Cron != "" {
		said += "\n\nIt repeats at " + r.Due.UTC().Format(time.RFC3339) + ", until chat.remind cancels " + r.ID + "."
	}
	return said
}

// ReadReminders reads the reminders from the database of an agent, which may be running.
func ReadReminders(ctx context.Context, path string) (list []Reminder, err error) {
	err = withDatabase(ctx, path, func(tx *store.Tx) { list = Reminders(&View{Tx: tx}, "") })
	return list, err
}

// RequestCancel asks an agent, running or not, to cancel a reminder, and reports whether it
// exists. by names the requester.
func RequestCancel(ctx context.Context, path, id, by string) (found bool, err error) {
	err = withDatabase(ctx, path, func(tx *store.Tx) {
		found = tx.ExecCount(`UPDATE reminders SET cancelled_by = ? WHERE id = ? AND cancelled_by = ''`, by, id) > 0
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
