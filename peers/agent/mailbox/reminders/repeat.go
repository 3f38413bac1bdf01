package reminders

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// repetition takes a repetition such as "daily 09:00" or "weekdays except Friday 9:00". found reports
// whether the words begin one.
func (p *phrase) repetition() (m moment, found bool, err error) {
	except := p.takeExcept()
	m, found, err = p.repetitionOfAll()
	fields := strings.Fields(m.cron)
	switch {
	case len(except) == 0 || err != nil:
		return m, found, err
	case len(fields) != 5 || strings.ContainsAny(m.cron, "#L"):
		return m, true, errors.New("only a repetition by days of the week can leave out days, such as: daily except Friday 9:00")
	}
	fields[4], err = withoutDays(fields[4], except)
	m.cron = strings.Join(fields, " ")
	return m, true, err
}

// repetitionOfAll takes a repetition that leaves out no days.
func (p *phrase) repetitionOfAll() (m moment, found bool, err error) {
	if m, found, err = p.dayOfEachMonth(); found {
		return m, true, err
	}
	days, every := "*", p.take("every", "each")
	monthDay, month, part, afterNoon := "*", "*", -1, false
	if every {
		part, afterNoon = p.takePart()
	}
	switch {
	case every && p.counts():
		m, err = p.everyInterval(part, afterNoon)
		return m, true, err
	case p.take("daily", "everyday"), every && p.take("day"):
	case p.take("weekdays", "weekday", "workdays", "workday"):
		days = "1-5"
	case p.take("weekends"), every && p.take("weekend"):
		days = "0,6"
	case p.take("hourly"), every && p.take("hour"):
		m.cron, err = p.onlyCron("0 * * * *")
		return m, true, err
	case p.take("monthly"), every && (p.take("month") || len(p.words) > 0 && nth().MatchString(p.words[0])):
		monthDay, err = p.takeMonthDays()
	case p.take("yearly", "annually"), every && (p.take("year") || p.hasMonth()):
		monthDay, month, err = p.takeDate()
	case every && len(p.words) > 0 && durationUnits[p.words[0]] > 0:
		return m, true, errInterval
	default:
		weekly := p.take("weekly") || every && p.take("week")
		names := p.takeWeekdays(every || weekly)
		if names == "" && !every && !weekly {
			return m, false, nil
		}
		if days = cmp.Or(names, "*"); names == "" && part < 0 { // "every morning" names a part of each day
			err = errors.New("the days are missing: " + forms)
		}
	}
	p.take("on")
	if part < 0 {
		part, afterNoon = p.takePart()
	}
	if err != nil {
		return m, true, err
	}
	minute, hours, err := p.timesOfDay(part, afterNoon)
	if err == nil && p.nextDay && (days != "*" || monthDay != "*") {
		err = errMidnight
	}
	m.cron = fmt.Sprintf("%d %s %s %s %s", minute, hours, monthDay, month, days)
	return m, true, err
}

// timesOfDay takes the remaining words as times of day with the same minute. If none are left, it
// returns the hour of a part of the day.
func (p *phrase) timesOfDay(part int, afterNoon bool) (minute int, hours string, err error) {
	if len(p.words) == 0 && part >= 0 {
		return 0, strconv.Itoa(part), nil
	}
	hour, minute, _, err := p.timeOfDay(afterNoon, false)
	if err != nil {
		return 0, "", err
	}
	for hours = strconv.Itoa(hour); len(p.words) > 0; hours += "," + strconv.Itoa(hour) {
		left, same := strings.Join(p.words, " "), minute
		p.take("and", "&")
		p.words = append([]string{"at"}, p.words...)
		switch hour, same, _, err = p.timeOfDay(afterNoon, false); {
		case err != nil:
			return 0, "", fmt.Errorf("%q is not understood: %s", left, forms)
		case same != minute:
			return 0, "", errors.New("its times differ in their minutes: set one reminder for each")
		}
	}
	return minute, hours, nil
}

// onlyCron returns cron, or an error if words are left: such a repetition takes no time of day.
func (p *phrase) onlyCron(cron string) (string, error) {
	if len(p.words) > 0 {
		return "", fmt.Errorf("%q is not understood: %s", strings.Join(p.words, " "), forms)
	}
	return cron, nil
}

var (
	errInterval = errors.New("an interval must be of whole minutes or days, at least 5 minutes and at most a year")
	errMidnight = errors.New("midnight is between two days: name the day that begins, such as every Tuesday 0:00")
	errOneDay   = errors.New("set one reminder for each of its days or times")
	ordinals    = strings.Fields("first second third fourth fifth")
)

// count takes the number and the unit after "every": 2 hours, three days, other Monday.
func (p *phrase) count() (n float64, unit string, used int) {
	if len(p.words) == 0 {
		return 0, "", 0
	}
	i := slices.Index(ordinals, p.words[0])
	if p.words[0] == "other" {
		i = 1
	}
	if i > 0 && len(p.words) > 1 {
		return float64(i + 1), p.words[1], 2
	}
	return amount(p.words)
}

// counts reports whether an interval follows "every".
func (p *phrase) counts() bool {
	_, unit, used := p.count()
	return used > 0 && (durationUnits[unit] > 0 || dayUnits[unit] > 0 || strings.TrimSuffix(unit, "s") == "month" ||
		nameIndex(weekdays, unit) >= 0)
}

// everyInterval takes what follows "every": 90 minutes, 3 days at 10:00, other Monday at 9.
func (p *phrase) everyInterval(part int, afterNoon bool) (m moment, err error) {
	n, unit, used := p.count()
	p.words = p.words[used:]
	d, days, names := time.Duration(n*float64(durationUnits[unit])), int(n)*dayUnits[unit], "*"
	switch day := nameIndex(weekdays, unit); {
	case d > 0 && d < minRepeatInterval, d%time.Minute != 0, d > maxDelay, days > 366, n != float64(int(n)) && d == 0:
		return m, errInterval
	case d > 0 && time.Hour%d == 0 && d < time.Hour:
		m.cron, err = p.onlyCron(fmt.Sprintf("*/%d * * * *", d/time.Minute))
		return m, err
	case d > 0 && 24*time.Hour%d == 0 && d%time.Hour == 0 && d < 24*time.Hour:
		m.cron, err = p.onlyCron(fmt.Sprintf("0 */%d * * *", d/time.Hour))
		return m, err
	case d > 0:
		m.due = p.now.Add(d)
		m.cron, err = p.onlyCron(fmt.Sprintf("%s%dm", everyPrefix, d/time.Minute))
		return m, err
	case day >= 0:
		days, names = 7*int(n), strconv.Itoa(day)
	case days > 0:
		names = cmp.Or(p.takeWeekdays(true), "*")
	default: // months
		return p.everyMonths(int(n))
	}
	if p.take("on"); part < 0 {
		part, afterNoon = p.takePart()
	}
	minute, hour, err := p.timesOfDay(part, afterNoon)
	first := fmt.Sprintf("%d %s * * %s", minute, hour, names)
	switch {
	case err != nil:
		return m, err
	case p.nextDay && names != "*":
		return m, errMidnight
	case strings.ContainsAny(hour+names, ",-"):
		return m, errOneDay
	case days == 1:
		return moment{cron: first}, nil
	}
	m.cron = fmt.Sprintf("%s%dd %s:%02d", everyPrefix, days, hour, minute)
	m.due, err = nextTick(first, p.now)
	return m, err
}

// everyMonths takes the day and time of a repetition every n months.
func (p *phrase) everyMonths(n int) (m moment, err error) {
	if n < 1 || 12%n != 0 {
		return m, errors.New("the number of months must be 1, 2, 3, 4, 6 or 12")
	}
	day, err := p.takeMonthDays()
	if err != nil {
		return m, err
	}
	p.take("on")
	minute, hours, err := p.timesOfDay(p.takePart())
	if err == nil && p.nextDay {
		err = errMidnight
	}
	m.cron = fmt.Sprintf("%d %s %s */%d *", minute, hours, day, n)
	return m, err
}

// everyPrefix begins repetitions whose interval no cron expression can express.
const everyPrefix = "@every "

// nextStep returns the next time after now, in the zone of now, of a repetition that was last due
// at due. The interval is a duration such as 90m, or a number of days and a local time such as 3d
// 9:00.
func nextStep(step string, due, now time.Time) time.Time {
	var days, hour, minute int
	if n, _ := fmt.Sscanf(step, "%dd %d:%d", &days, &hour, &minute); n == 3 && days > 0 { //nolint:errcheck // n says it
		y, month, day := due.In(now.Location()).Date()
		for at := due; ; at = localTime(y, month, day, hour, minute, 0, now.Location()) {
			if at.After(now) && at.After(due) {
				return at
			}
			day += days
		}
	}
	every, err := time.ParseDuration(step)
	if err != nil || every < minRepeatInterval {
		every = 24 * time.Hour // shorter intervals are never stored
	}
	return due.In(now.Location()).Add(max(1, now.Sub(due)/every+1) * every)
}

// takeMonthDays takes one or more days of a month.
func (p *phrase) takeMonthDays() (days string, err error) {
	p.take("on")
	p.take("day")
	var list []string
	for i := 0; i < len(p.words); i++ {
		m := ordinal().FindStringSubmatch(p.words[i])
		if m == nil || i > 0 && p.words[i-1] == "at" || len(list) > 0 && !nth().MatchString(p.words[i]) {
			continue
		}
		list = append(list, m[1])
		if p.words = slices.Delete(p.words, i, i+1); i < len(p.words) && p.words[i] == "and" {
			p.words = slices.Delete(p.words, i, i+1)
		}
		i--
	}
	if len(list) == 0 {
		return "", errors.New("the day of the month is missing, such as: monthly on the 1st at 9:00")
	}
	return strings.Join(list, ","), nil
}

// hasMonth reports whether the words name a month.
func (p *phrase) hasMonth() bool {
	return slices.ContainsFunc(p.words, func(w string) bool { return nameIndex(months, w) >= 0 })
}

// takeDate takes the date of a yearly repetition, as fields of a cron expression.
func (p *phrase) takeDate() (day, month string, err error) {
	p.take("on")
	found, date, err := p.date()
	if err == nil && !found {
		err = errors.New("the date is missing, such as: every year on May 3 at 9:00")
	}
	return strconv.Itoa(date.Day()), strconv.Itoa(int(date.Month())), err
}

// dayOfEachMonth takes a day or a weekday of a month: last day of every month at 17:00, first Monday
// of the month. Without "every" or "monthly" it occurs once.
func (p *phrase) dayOfEachMonth() (m moment, found bool, err error) {
	at := slices.IndexFunc(p.words, func(w string) bool {
		return w == "last" || slices.Contains(ordinals, w) || nth().MatchString(w)
	})
	if at < 0 || at+1 >= len(p.words) || !slices.Contains(p.words, "month") && !slices.Contains(p.words, "monthly") {
		return m, false, nil
	}
	which, day, monthDay, week := p.words[at], nameIndex(weekdays, p.words[at+1]), "*", "*"
	end, n := at+2, slices.Index(ordinals, which)+1
	if number := ordinal().FindStringSubmatch(which); number != nil {
		n, _ = strconv.Atoi(number[1]) //nolint:errcheck // digits by the expression
	}
	switch {
	case day >= 0 && which == "last":
		week = fmt.Sprintf("%dL", day)
	case day >= 0 && n <= 5:
		week = fmt.Sprintf("%d#%d", day, n)
	case which == "last" && p.words[at+1] == "day":
		monthDay = "L"
	case n > 0 && p.words[at+1] == "day":
		monthDay = strconv.Itoa(n)
	case which == "first" && slices.Contains([]string{"month", "every", "each"}, p.words[at+1]): // of the month
		monthDay, end = "1", at+1
	default:
		return m, false, nil
	}
	p.words = slices.Delete(p.words, at, end)
	repeats := p.take("every", "each")
	repeats = p.take("monthly") || repeats
	p.take("month")
	from := p.now
	if p.take("next") {
		from = time.Date(from.Year(), from.Month()+1, 1, 0, 0, -1, 0, p.zone)
	}
	p.take("on", "this")
	minute, hours, err := p.timesOfDay(p.takePart())
	if errors.Is(err, errNoTime) && len(p.words) == 0 && !repeats {
		hours, err = "9", nil
	}
	if err == nil && p.nextDay {
		err = errMidnight
	}
	m.cron = fmt.Sprintf("%d %s %s * %s", minute, hours, monthDay, week)
	if err == nil && !repeats {
		m.due, err = nextTick(m.cron, from)
		m.cron = ""
	}
	return m, true, err
}

// takeExcept takes the weekdays after "except", as days of a week.
func (p *phrase) takeExcept() (except []int) {
	i := slices.IndexFunc(p.words, func(w string) bool { return slices.Contains(exceptWords, w) })
	if i < 0 {
		return nil
	}
	end := i + 1
	for ; end < len(p.words); end++ {
		switch day := nameIndex(weekdays, p.words[end]); {
		case day >= 0:
			except = append(except, day)
		case p.words[end] == "weekends", p.words[end] == "weekend":
			except = append(except, 0, 6)
		case p.words[end] != "and" && p.words[end] != "on":
			p.words = slices.Delete(p.words, i, end)
			return except
		}
	}
	p.words = p.words[:i]
	return except
}

var exceptWords = strings.Fields("except excluding but without")

// withoutDays returns the weekdays of a cron expression without the given ones.
func withoutDays(field string, except []int) (string, error) {
	var left []string
	for day := range 7 {
		noon := time.Date(2026, 11, 29+day, 12, 0, 0, 0, time.UTC) // of a Sunday, and of the days after it
		due, err := gronx.New().IsDue("0 12 * * "+field, noon)
		if err == nil && due && !slices.Contains(except, day) {
			left = append(left, strconv.Itoa(day))
		}
	}
	if len(left) == 0 {
		return "", errors.New("no day is left: leave out fewer days")
	}
	return strings.Join(left, ","), nil
}

// takeWeekdays takes the names of weekdays and returns them as a field of a cron expression.
// Unless repeated is set, only plurals and lists repeat: "Monday" alone is one day.
func (p *phrase) takeWeekdays(repeated bool) string {
	var rest, days []string
	for i := 1; i+1 < len(p.words); i++ { // Monday to Friday
		if slices.Contains([]string{"to", "through", "thru", "-"}, p.words[i]) && nameIndex(weekdays, p.words[i-1]) >= 0 {
			p.words = slices.Replace(p.words, i-1, i+2, p.words[i-1]+"-"+p.words[i+1])
		}
	}
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
