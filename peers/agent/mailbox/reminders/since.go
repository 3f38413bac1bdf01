package reminders

import (
	"errors"
	"slices"
	"time"
)

// ParseSince returns the past time that a model wrote: a time, a day, which begins at midnight, or
// how long ago it is. A date without a year is the last one. ParseTime reads a time without a date,
// such as "9:00" or "Monday", as the next one. ParseSince refuses it if that is in the future.
func ParseSince(since string, zone *time.Location, now time.Time) (time.Time, error) {
	if len(since) > maxWhen {
		return time.Time{}, errors.New("it is too long")
	}
	p := phrase{now: now.In(zone), zone: zone}
	if err := p.takeZone(since); err != nil {
		return time.Time{}, err
	}
	ago := p.take("ago", "last", "past")
	if due, ok := p.duration(); ok {
		return now.Add(now.Sub(due)), nil
	}
	days := 0
	switch {
	case ago, p.take("today"):
	case p.take("yesterday"):
		days = -1
	default:
		_, undated := time.Parse(time.DateOnly, since[:min(len(since), len(time.DateOnly))])
		at, err := parseTime(since, zone, now, 0)
		if at.After(now) && p.hasMonth() && !slices.ContainsFunc(p.words, year().MatchString) {
			at = at.AddDate(-1, 0, 0)
		}
		if err == nil && undated != nil && at.After(now) {
			err = errors.New("it has not come yet: write its date")
		}
		return at, err
	}
	hour, minute, second, err := p.timeOfDay(false, true)
	if ago || err != nil && len(p.words) > 0 {
		return time.Time{}, errors.New("it is not understood")
	}
	if p.nextDay {
		days++
	}
	y, month, d := p.now.AddDate(0, 0, days).Date()
	return localTime(y, month, d, hour, minute, second, p.zone), nil
}
