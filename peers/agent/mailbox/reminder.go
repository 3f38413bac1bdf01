package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	_ "time/tzdata" // the machine may have no time zones

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/adhocore/gronx"
)

// A reminder is an event of the agent's own: it comes into its mailbox when it is due, in the
// transaction that forgets it or sets its next time. Times that pass while the agent does not
// run, or while the event before is open, come as one.

// Bounds of reminders.
const (
	maxReminders      = 20 // of one chat
	maxRemindersTotal = 100
	maxReminderDelay  = 366 * 24 * time.Hour
	minRepeatInterval = 5 * time.Minute
	reminderKey       = "reminder:" // begins the ids of their events
)

// A Reminder is what the agent wants to be told of later.
type Reminder struct {
	ID       string         `json:"id"`
	Chat     protocol.Topic `json:"chat"`
	Location protocol.Chat  `json:"-"` // where in it
	Text     string         `json:"text"`
	Cron     string         `json:"cron,omitempty"` // empty: once
	Zone     string         `json:"zone,omitempty"` // of Cron
	SetFor   string         `json:"setFor,omitempty"`
	Set      time.Time      `json:"set"`
	Due      time.Time      `json:"due"` // the next time

	cancelledBy string // who cancelled it
}

// ErrReminder is the error for a reminder that cannot be set; what wraps it says why.
var ErrReminder = errors.New("no reminder was set")

// Schedule sets when a reminder is due: at a time (RFC 3339), after a duration, or by a cron
// expression of five fields in its zone.
func (r *Reminder) Schedule(when string, now time.Time) error {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil || r.Zone == "Local" {
		return fmt.Errorf("%w: %q is no time zone: use a name such as Europe/Berlin", ErrReminder, r.Zone)
	}
	r.Set, when = now, strings.TrimSpace(when)
	if at, err := time.Parse(time.RFC3339, when); err == nil {
		r.Due = at
	} else if d, err := time.ParseDuration(when); err == nil {
		r.Due = now.Add(d)
	} else if r.Cron = when; strings.Count(when, " ") == 0 && !strings.HasPrefix(when, "@") || !gronx.IsValid(when) || len(strings.Fields(when)) > 5 {
		return fmt.Errorf("%w: %q is no time (2027-01-31T17:00:00+01:00), no duration (45m) and no cron expression of five fields (0 9 * * 1-5)", ErrReminder, text.Clip(when, 100))
	}
	if r.Cron != "" {
		err = r.advance(now.In(zone))
	}
	switch {
	case err != nil:
		return err
	case !r.Due.After(now):
		return fmt.Errorf("%w: %s has passed; it is %s now", ErrReminder, r.Due.Format(time.RFC3339), now.In(zone).Format(time.RFC3339))
	case r.Due.Sub(now) > maxReminderDelay:
		return fmt.Errorf("%w: it may be at most a year ahead", ErrReminder)
	}
	return nil
}

// advance sets the next time of a cron expression after now, whose zone counts, if its times are
// not too close to each other.
func (r *Reminder) advance(now time.Time) error {
	const looked = 50
	last := time.Time{}
	for n := range looked {
		next, err := gronx.NextTickAfter(r.Cron, now, false)
		switch {
		case err != nil && n == 0:
			return fmt.Errorf("%w: %q never comes: %w", ErrReminder, r.Cron, err)
		case err != nil:
			return nil
		case n == 0:
			r.Due = next
		case next.Sub(last) < minRepeatInterval:
			return fmt.Errorf("%w: %q comes more often than every %v", ErrReminder, r.Cron, minRepeatInterval)
		}
		now, last = next, next
	}
	return nil
}

const reminderNames = `id, chat, location, text, cron, zone, set_for, set_at, due_at, cancelled_by`

func scanReminder(r *Reminder) []any {
	return []any{&r.ID, &r.Chat, jsonColumn{&r.Location}, &r.Text, &r.Cron, &r.Zone, &r.SetFor, timeColumn{&r.Set}, timeColumn{&r.Due}, &r.cancelledBy}
}

// Reminders returns the reminders of a chat, or all of them if it is empty, in the order in which
// they are due.
func Reminders(v *View, chat protocol.Topic) []Reminder {
	return store.All(v.Tx, scanReminder, `SELECT `+reminderNames+` FROM reminders WHERE cancelled_by = '' AND (chat = ?1 OR ?1 = '') ORDER BY due_at, id`, chat)
}

// SetReminder keeps a reminder, with its record. One that is kept already, or has come since, stays as it
// is and is returned.
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
		return r, fmt.Errorf("%w: this chat has %d already; cancel one first", ErrReminder, here)
	case len(all) >= maxRemindersTotal:
		return r, fmt.Errorf("%w: you have %d already; cancel one first", ErrReminder, len(all))
	}
	tx.Exec(`INSERT INTO reminders (`+reminderNames+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')`,
		r.ID, r.Chat, jsonColumn{&r.Location}, r.Text, r.Cron, r.Zone, r.SetFor, timeColumn{&r.Set}, timeColumn{&r.Due})
	recordReminder(tx, &r, tx.Entry(r.SetFor), r.SetFor, "set", r.Text)
	return r, nil
}

// CancelReminder forgets a reminder of a chat, or of any if chat is empty, and reports whether
// there was one.
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
		"event": "reminder", "eventId": eventID, "agent": tx.m.id, "reminderId": r.ID, "state": state, "target": r.Chat, "reason": text.Clip(text.OneLine(reason), 300),
	}
	if state != "cancelled" {
		record["due"] = protocol.FormatTime(r.Due)
	}
	tx.Record(UniqueKey("reminder", r.Due.Unix()), e, record)
}

// DueReminders returns the reminders that are due, and those that a person cancelled.
func DueReminders(v *View, now time.Time) []string {
	return store.All(v.Tx, store.Scalar[string], `SELECT id FROM reminders WHERE due_at <= ? OR cancelled_by <> '' ORDER BY due_at, id`, timeColumn{&now})
}

// FireReminder makes the event of a reminder that is due, and sets its next time: the first that is still
// to come. Where the event before is open, or the agent was asked to leave, it makes none.
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
	case tx.participation(e).hasLeft():
		dropReminder(tx, &r, "left")
		return
	}
	due := r.Due
	if r.Cron == "" {
		tx.Exec(`DELETE FROM reminders WHERE id = ?`, id)
	} else if zone, err := time.LoadLocation(r.Zone); err != nil { // the machine has lost its time zones
		dropReminder(tx, &r, err.Error())
	} else if err := r.advance(now.In(zone)); err != nil {
		dropReminder(tx, &r, err.Error())
	} else {
		tx.Exec(`UPDATE reminders SET due_at = ? WHERE id = ?`, timeColumn{&r.Due}, id)
	}
	if hasReminderEvent(&tx.View, id, isOpen) || tx.Entry(e.EventID) != nil {
		return
	}
	e.Content.Text = r.eventText(due, now)
	insertEvent(tx, e)
	r.Due = due
	recordReminder(tx, &r, e, e.EventID, "due", r.Text)
}

// hasReminderEvent reports whether there is an event of a reminder of which a condition holds.
func hasReminderEvent(v *View, id, condition string) bool {
	return store.Value[bool](v.Tx, `SELECT EXISTS (SELECT 1 FROM events WHERE substr(event_id, 1, length(?1)) = ?1 AND kind = 'reminder' AND `+condition+`)`, reminderKey+id+":")
}

func dropReminder(tx *Tx, r *Reminder, why string) {
	tx.Exec(`DELETE FROM reminders WHERE id = ?`, r.ID)
	recordReminder(tx, r, nil, r.SetFor, "cancelled", why)
}

// reminderEvent returns the event of a reminder, without its text. It belongs to the trace of the
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

// eventText is what the agent is told. r has its next time.
func (r *Reminder) eventText(due, now time.Time) string {
	said := "You wanted to be reminded of this at " + due.UTC().Format(time.RFC3339)
	if r.SetFor != "" {
		said += ", for the event " + attention.HeaderValue(r.SetFor)
	}
	if now.Sub(due) > time.Minute {
		said += "; it comes late, and for every time that has passed since then"
	}
	said += ":\n" + r.Text
	if r.Cron != "" {
		said += "\n\nIt comes again at " + r.Due.UTC().Format(time.RFC3339) + ", until chat.remind cancels " + r.ID + "."
	}
	return said
}

// ReadReminders reads from the database of an agent, which may run meanwhile, its reminders.
func ReadReminders(ctx context.Context, path string) (list []Reminder, err error) {
	err = withDatabase(ctx, path, func(tx *store.Tx) { list = Reminders(&View{Tx: tx}, "") })
	return list, err
}

// RequestCancel has a running agent, or one that starts later, forget a reminder, and reports
// whether there is one. by says who wants it.
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
	tx := store.On(ctx, db)
	do(tx)
	return errors.Join(tx.Err(), db.Close())
}
