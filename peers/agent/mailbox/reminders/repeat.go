package reminders

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// repetition takes a repetition such as "daily 09:00" and returns its cron expression. found
// reports whether the words begin one.
func (p *phrase) repetition() (cron string, found bool, err error) {
	days, every := "*", p.take("every", "each")
	monthDay := "*"
	switch {
	case p.take("daily", "everyday"), every && p.take("day"):
	case p.take("weekdays", "weekday", "workdays", "workday"):
		days = "1-5"
	case p.take("weekends"), every && p.take("weekend"):
		days = "0,6"
	case p.take("hourly"), every && p.take("hour"):
		return p.interval("0 * * * *")
	case p.take("monthly"), every && p.take("month"):
		if monthDay, err = p.takeMonthDay(); err != nil {
			return "", true, err
		}
	case every && len(p.words) > 0 && durationUnits[p.words[0]] > 0:
		return "", true, errInterval
	case every && len(p.words) > 1 && p.words[1] != "am" && p.words[1] != "pm" && quantity().MatchString(p.words[0]):
		return p.everyInterval()
	default:
		weekly := p.take("weekly") || every && p.take("week")
		names := p.takeWeekdays(every || weekly)
		if names == "" && !every && !weekly {
			return "", false, nil
		}
		if names == "" {
			return "", true, errors.New("which days is missing: " + forms)
		}
		days = names
	}
	p.take("on")
	hour, minute, _, err := p.timeOfDay(false, false)
	if err != nil {
		return "", true, err
	}
	if len(p.words) > 0 {
		return "", true, fmt.Errorf("%q is not understood: %s", strings.Join(p.words, " "), forms)
	}
	return fmt.Sprintf("%d %d %s * %s", minute, hour, monthDay, days), true, nil
}

// interval returns a cron expression to which no time of day belongs.
func (p *phrase) interval(cron string) (string, bool, error) {
	if len(p.words) > 0 {
		return "", true, fmt.Errorf("%q is not understood: %s", strings.Join(p.words, " "), forms)
	}
	return cron, true, nil
}

var errInterval = errors.New("such an interval cannot be kept: it must divide an hour or a day evenly, and be at " +
	"least 5 minutes")

// everyInterval takes "2 hours" or "30 minutes" after "every".
func (p *phrase) everyInterval() (cron string, found bool, err error) {
	n, unit, used := amount(p.words)
	p.words = p.words[used:]
	count := int(n)
	switch d := durationUnits[unit]; {
	case d == time.Minute && count > 0 && 60%count == 0 && count < 60:
		return p.interval(fmt.Sprintf("*/%d * * * *", count))
	case d == time.Hour && count > 0 && 24%count == 0 && count < 24:
		return p.interval(fmt.Sprintf("0 */%d * * *", count))
	}
	return "", true, errInterval
}

// takeMonthDay takes the day of a month.
func (p *phrase) takeMonthDay() (string, error) {
	p.take("on")
	p.take("day")
	for i, word := range p.words {
		if m := ordinal().FindStringSubmatch(word); m != nil && (i == 0 || p.words[i-1] != "at") {
			p.words = slices.Delete(p.words, i, i+1)
			return m[1], nil
		}
	}
	return "", errors.New("the day of the month is missing, such as: monthly on the 1st at 9:00")
}

// takeWeekdays takes the names of weekdays and returns them as a field of a cron expression.
// Unless repeated is set, only plurals and lists repeat: "Monday" alone is one day.
func (p *phrase) takeWeekdays(repeated bool) string {
	var rest, days []string
	for _, word := range p.words {
		part := ""
		for name := range strings.SplitSeq(word, "-") {
			day := nameIndex(weekdays, name)
			if day < 0 {
				part = ""
				break
			}
			repeated = repeated || strings.HasSuffix(name, "days") || part != ""
			if part != "" {
				part += "-"
			}
			part += strconv.Itoa(day)
		}
		switch {
		case part != "":
			days = append(days, strings.Replace(part, "-0", "-7", 1))
		case word != "and" && word != "&":
			rest = append(rest, word)
		}
	}
	if len(days) == 0 || !repeated && len(days) == 1 {
		return ""
	}
	p.words = rest
	return strings.Join(days, ",")
}

// localTime returns the time of a local date and time of day. A time that does not exist, because
// clocks are set forward, is moved forward by the change. A time that occurs twice is the first
// of the two.
func localTime(y int, month time.Month, day, hour, minute, second int, zone *time.Location) time.Time {
	wall := time.Date(y, month, day, hour, minute, second, 0, time.UTC)
	early := wall.Add(-24 * time.Hour).In(zone) // before a change, if there is one
	_, before := early.Zone()
	at := wall.Add(-time.Duration(before) * time.Second).In(zone)
	if sameClock(at, wall) {
		return at
	}
	_, after := wall.Add(24 * time.Hour).In(zone).Zone()
	if later := wall.Add(-time.Duration(after) * time.Second).In(zone); sameClock(later, wall) {
		return later
	}
	return at // read with the offset before the change: RFC 5545
}

func sameClock(a, b time.Time) bool {
	const layout = "2006-01-02T15:04:05"
	return a.Format(layout) == b.Format(layout)
}

// nextTick returns the next time of a cron expression after a time, in its zone. An expression for
// certain hours means local times; each occurs exactly once a day. An expression for every hour
// follows elapsed time.
func nextTick(cron string, after time.Time) (time.Time, error) {
	fields := strings.Fields(cron)
	if cron == "@hourly" || len(fields) == 5 && fields[1] == "*" {
		return nextByOffset(cron, after)
	}
	wall := wallClock(after)
	for {
		next, err := gronx.NextTickAfter(cron, wall, false)
		if err != nil {
			return next, err
		}
		y, month, day := next.Date()
		at := localTime(y, month, day, next.Hour(), next.Minute(), next.Second(), after.Location())
		if at.After(after) {
			return at, nil
		}
		wall = next // it was the first of two equal local times
	}
}

// wallClock returns the local reading of a time as a time in UTC.
func wallClock(t time.Time) time.Time {
	y, month, day := t.Date()
	return time.Date(y, month, day, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// nextByOffset returns the next time at which the local clock matches, hour by hour.
func nextByOffset(cron string, after time.Time) (time.Time, error) {
	zone, inclusive := after.Location(), false
	for {
		_, offset := after.Zone()
		next, err := gronx.NextTickAfter(cron, after.In(time.FixedZone("", offset)), inclusive)
		if err != nil {
			return next, err
		}
		_, end := after.ZoneBounds()
		if end.IsZero() || next.Before(end) {
			return next.In(zone), nil
		}
		after, inclusive = end.In(zone), true
	}
}
