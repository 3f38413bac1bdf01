package mailbox_test

import (
	"testing"
	"time"

	"hubbub/peers/agent/mailbox/reminders"
)

// TestReminder_IsDueAtItsTime covers cron expressions in zones whose clocks are set back.
func TestReminder_IsDueAtItsTime(t *testing.T) {
	for _, c := range []struct{ now, when, zone, due string }{
		{"2026-03-27T12:00:00Z", "0 9 * * 1-5", "Europe/Berlin", "2026-03-30T07:00:00Z"},
		{"2026-03-27T07:00:00Z", "0 9 * * 1-5", "Europe/Berlin", "2026-03-27T08:00:00Z"},
		{"2026-10-24T22:30:00Z", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z"},
		{"2026-10-25T01:30:00Z", "30 2 * * *", "Europe/Berlin", "2026-10-26T01:30:00Z"},
		{"2026-02-01T00:00:00Z", "@monthly", "UTC", "2026-03-01T00:00:00Z"},
		{"2026-02-01T00:00:00Z", "36h", "UTC", "2026-02-02T12:00:00Z"},
		{"2026-02-01T00:00:00Z", "2026-02-01T01:00:00+01:00", "UTC", ""},
		{"2026-02-01T00:00:00Z", "2026-02-01T01:00:00-01:00", "UTC", "2026-02-01T02:00:00Z"},
		{"2026-02-01T00:00:00Z", "0,4 9 * * *", "UTC", ""},
		{"2026-02-01T00:00:00Z", "0 9 * * *", "Local", ""},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		r, due := reminders.Reminder{}, ""
		if err = r.Schedule(c.when, c.zone, time.UTC, now); err == nil {
			due = r.Due.UTC().Format(time.RFC3339)
		}
		if due != c.due {
			t.Errorf("%q in %s at %s is due at %q, %v; want %q", c.when, c.zone, c.now, due, err, c.due)
		}
	}
}
