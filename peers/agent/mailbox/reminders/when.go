package reminders

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol/text"

	"github.com/adhocore/gronx"
)

// A moment is what a model wrote for the time of a reminder.
type moment struct {
	due  time.Time // once; zero if cron is set
	cron string
	zone *time.Location
}

// forms lists the accepted forms in errors.
const forms = "use a local time (2027-01-31 17:00, tomorrow 9:00, Friday 17:30), a time with its zone " +
	"(2027-01-31T17:00:00+01:00, 2027-01-31 17:00 Europe/Berlin), a duration (45m, in 20 minutes), a repetition " +
	"(daily 09:00, every Monday 8:30, weekdays 9:00) or a cron expression with five fields (0 9 * * 1-5)"

// parseWhen parses what a model wrote for a time, in a time zone unless the text names another.
// Times of day are local times: on days when clocks change, a time that does not exist is moved
// forward by the change, and a time that occurs twice is the first.
func parseWhen(when string, zone *time.Location, now time.Time) (moment, error) {
	given := strings.Join(strings.Fields(when), " ")
	if m, ok := parseCron(given, zone); ok {
		return m, nil
	}
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(given)); err == nil {
		return moment{due: at, zone: zone}, nil
	}
	p := phrase{now: now.In(zone), zone: zone}
	if err := p.takeZone(given); err != nil {
		return moment{}, err
	}
	switch due, ok := p.duration(); {
	case ok:
		return moment{due: due, zone: p.zone}, nil
	case len(p.words) == 0:
		return moment{}, errors.New("the time is missing: " + forms)
	}
	m, err := p.parse()
	m.zone = p.zone
	if err != nil {
		return moment{}, fmt.Errorf("%q: %w", text.Clip(given, 100), err)
	}
	return m, nil
}

// parseCron recognizes a cron expression with five fields, or one such as @daily. The zone may
// stand before it, as in a crontab.
func parseCron(given string, zone *time.Location) (m moment, ok bool) {
	if name, rest, found := strings.Cut(given, " "); found {
		name, found = strings.CutPrefix(strings.TrimPrefix(name, "CRON_"), "TZ=")
		if own, err := loadZone(name); found && err == nil {
			given, zone = rest, own
		}
	}
	fields := len(strings.Fields(given))
	named := fields == 1 && strings.HasPrefix(given, "@")
	if !named && (fields != 5 || !strings.ContainsAny(given[:1], "*0123456789")) || !gronx.IsValid(given) {
		return m, false
	}
	return moment{cron: given, zone: zone}, true
}

// loadZone returns a time zone by its name. "Local" is not one.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errors.New("it is not a name")
	}
	return time.LoadLocation(name)
}

// A phrase is a text in words. Its methods take words from it.
type phrase struct {
	now   time.Time // in zone
	zone  *time.Location
	words []string // in lower case, without punctuation

	sameWeekday bool // the day was named as the weekday of now
}

var (
	zoneName   = text.Pattern(`[\[(]?\b([A-Za-z]+(?:/[A-Za-z0-9_+\-]+)+)[\])]?`)
	zoneShort  = text.Pattern(`(?:^|[ \d])(UTC|GMT|Z|CET|CEST|EET|EEST|WET|WEST|MSK|EST|EDT|CST|CDT|MST|MDT|PST|PDT|JST|IST|BST|HST|AKST|AKDT)([+-]\d{1,2}(?::?\d{2})?)?$`)
	zoneOffset = text.Pattern(`(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?([+-]\d{2}:?\d{2})$`)
	// an abbreviation that means one zone to most
	abbreviated = map[string]string{
		"UTC": "UTC", "GMT": "UTC", "Z": "UTC", "CET": "Europe/Berlin", "CEST": "Europe/Berlin",
		"EET":  "Europe/Helsinki",
		"EEST": "Europe/Helsinki", "WET": "Europe/Lisbon", "WEST": "Europe/Lisbon", "MSK": "Europe/Moscow",
		"EST": "America/New_York", "EDT": "America/New_York", "CDT": "America/Chicago", "MST": "America/Denver",
		"MDT": "America/Denver", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "JST": "Asia/Tokyo",
		"HST": "Pacific/Honolulu", "AKST": "America/Anchorage", "AKDT": "America/Anchorage",
	}
)

// takeZone takes the zone that a text names, if any, and splits the rest into words.
func (p *phrase) takeZone(given string) error {
	rest := given
	switch name, short, offset := zoneName().FindStringSubmatchIndex(given), zoneShort().FindStringSubmatch(given),
		zoneOffset().FindStringSubmatch(given); {
	case name != nil:
		zone, err := loadZone(given[name[2]:name[3]])
		if err != nil {
			return fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin",
				text.Clip(given[name[2]:name[3]], 60))
		}
		p.zone, rest = zone, given[:name[0]]+" "+given[name[1]:]
		if again := zoneOffset().FindStringSubmatch(strings.TrimSpace(rest)); again != nil {
			rest = strings.TrimSuffix(strings.TrimSpace(rest), again[2]) // 2027-01-31T17:00+01:00[Europe/Berlin]
		}
	case short != nil && short[2] != "":
		if short[1] != "UTC" && short[1] != "GMT" {
			return fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin", short[1]+short[2])
		}
		p.zone, rest = fixedZone(short[2]), strings.TrimSuffix(given, short[1]+short[2])
	case short != nil:
		full, known := abbreviated[short[1]]
		if !known {
			return fmt.Errorf("%s is the name of several time zones: use a name such as Europe/Berlin", short[1])
		}
		zone, err := loadZone(full)
		if err != nil {
			return err
		}
		p.zone, rest = zone, strings.TrimSuffix(given, short[1])
	case offset != nil:
		p.zone, rest = fixedZone(offset[2]), strings.TrimSuffix(given, offset[2])
	}
	p.now = p.now.In(p.zone)
	p.words = splitWords(rest)
	return nil
}

// fixedZone returns the zone of an offset such as +01:00, -0530 or +2.
func fixedZone(offset string) *time.Location {
	sign, digits := 1, strings.ReplaceAll(offset[1:], ":", "")
	if offset[0] == '-' {
		sign = -1
	}
	minutes := 0
	if len(digits) > 2 {
		minutes, _ = strconv.Atoi(digits[len(digits)-2:]) //nolint:errcheck // digits by the expression
		digits = digits[:len(digits)-2]
	}
	hours, _ := strconv.Atoi(digits) //nolint:errcheck // digits by the expression
	return time.FixedZone("", sign*(hours*60+minutes)*60)
}

// isoTime joins the date and the time of ISO 8601.
var isoTime = text.Pattern(`(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2})`)

// splitWords splits a text into lower-case words, without what carries no meaning.
func splitWords(s string) []string {
	s = strings.ToLower(isoTime().ReplaceAllString(s, "$1 $2"))
	s = strings.NewReplacer("a.m.", "am", "p.m.", "pm", ",", " ", " o'clock", ":00", " uhr", ":00").Replace(s)
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ';' })
	for i := range words {
		words[i] = strings.TrimSuffix(words[i], ".")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" || w == "the" || w == "of" || w == "@" })
}

// take takes the first word that one of the given is, and reports whether there was one.
func (p *phrase) take(given ...string) bool {
	i := slices.IndexFunc(p.words, func(w string) bool { return slices.Contains(given, w) })
	if i >= 0 {
		p.words = slices.Delete(p.words, i, i+1)
	}
	return i >= 0
}

var (
	isoDuration   = text.Pattern(`^p(?:(\d+)w)?(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?)?$`)
	quantity      = text.Pattern(`^(\d+(?:\.\d+)?)([a-z]*)$`)
	numberWords   = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve")
	durationUnits = map[string]time.Duration{
		"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	}
	dayUnits = map[string]int{"d": 1, "day": 1, "days": 1, "w": 7, "wk": 7, "week": 7, "weeks": 7}
)

// duration parses a duration from now. A day is a calendar day: it ends at the same local time.
func (p *phrase) duration() (due time.Time, ok bool) {
	words := slices.Clone(p.words)
	trim := func(given ...string) {
		for len(words) > 0 && slices.Contains(given, words[0]) {
			words = words[1:]
		}
	}
	trim("in", "after", "about")
	for _, end := range []string{"from now", "later", "from today"} {
		words = strings.Fields(strings.TrimSuffix(strings.Join(words, " "), " "+end))
	}
	if len(words) == 1 {
		word := strings.TrimPrefix(words[0], "+")
		if d, err := time.ParseDuration(word); err == nil {
			return p.now.Add(d), true
		}
		if m := isoDuration().FindStringSubmatch(word); m != nil && len(word) > 2 {
			n := [6]int{}
			for i := 1; i < len(m); i++ {
				n[i], _ = strconv.Atoi(m[i]) //nolint:errcheck // digits, or empty for 0
			}
			return p.now.AddDate(0, 0, 7*n[1]+n[2]).Add(time.Duration(n[3])*time.Hour +
				time.Duration(n[4])*time.Minute +
				time.Duration(n[5])*time.Second), true
		}
	}
	due = p.now
	for len(words) > 0 {
		n, unit, used := amount(words)
		if used == 0 {
			return due, false
		}
		words, ok = words[used:], true
		switch days := dayUnits[unit]; {
		case durationUnits[unit] > 0:
			due = due.Add(time.Duration(n * float64(durationUnits[unit])))
		case days > 0 && n == float64(int(n)):
			due = due.AddDate(0, 0, int(n)*days)
		case (unit == "month" || unit == "months") && n == float64(int(n)):
			due = due.AddDate(0, int(n), 0)
		default:
			return due, false
		}
		trim("and")
	}
	return due, ok
}

// amount parses a number and a unit at the beginning of words, and returns how many it used.
func amount(words []string) (n float64, unit string, used int) {
	number := strings.TrimPrefix(words[0], "+")
	m := quantity().FindStringSubmatch(number)
	switch {
	case m != nil && m[2] != "":
		n, _ = strconv.ParseFloat(m[1], 64) //nolint:errcheck // a number by the expression
		return n, m[2], 1
	case len(words) < 2:
		return 0, "", 0
	case m != nil:
		n, _ = strconv.ParseFloat(m[1], 64) //nolint:errcheck // a number by the expression
		return n, words[1], 2
	case number == "half" && len(words) > 2 && (words[1] == "an" || words[1] == "a"):
		return 0.5, words[2], 3
	case number == "a" || number == "an":
		return 1, words[1], 2
	}
	if i := slices.Index(numberWords, number); i >= 0 {
		return float64(i), words[1], 2
	}
	return 0, "", 0
}

var (
	weekdays = strings.Fields("sunday monday tuesday wednesday thursday friday saturday")
	months   = strings.Fields("january february march april may june july august september october november december")
)

// nameIndex finds a name in a list by its first letters, at least three, or by its plural.
func nameIndex(names []string, word string) int {
	word = strings.TrimSuffix(word, ".")
	return slices.IndexFunc(names, func(name string) bool {
		return word == name || word == name+"s" || len(word) >= 3 && strings.HasPrefix(name, word) ||
			word == "tues" && name == "tuesday" || word == "thurs" && name == "thursday" || word == "sept" &&
			name == "september"
	})
}

// parse parses a repetition, or a day and a time of day.
func (p *phrase) parse() (m moment, err error) {
	if cron, found, err := p.repetition(); found {
		return moment{cron: cron}, err
	}
	relative := p.dayWord()
	hasDate, date, err := p.date()
	if err != nil {
		return m, err
	}
	evening := p.take("tonight", "evening", "afternoon", "night")
	if p.take("morning") || evening {
		p.take("in", "this")
	}
	hour, minute, second, err := p.timeOfDay(evening)
	switch {
	case errors.Is(err, errNoTime) && relative < 0 && !hasDate && !evening:
		return m, fmt.Errorf("it is not a time: %s", forms)
	case err != nil:
		return m, err
	case len(p.words) > 0:
		return m, fmt.Errorf("%q is not understood: %s", strings.Join(p.words, " "), forms)
	case relative >= 0:
		date = p.now.AddDate(0, 0, relative)
	case !hasDate:
		date = p.now
	}
	y, month, d := date.Date()
	if p.sameWeekday { // "Friday 17:30", on a Friday
		if m.due = localTime(y, month, d-7, hour, minute, second, p.zone); m.due.After(p.now) {
			return m, nil
		}
	}
	m.due = localTime(y, month, d, hour, minute, second, p.zone)
	if relative < 0 && !hasDate && !evening && !m.due.After(p.now) { // "9:00" alone is the next
		m.due = localTime(y, month, d+1, hour, minute, second, p.zone)
	}
	return m, nil
}

// dayWord takes today, tomorrow or the name of a weekday, and returns the days from today, or -1.
func (p *phrase) dayWord() int {
	if i := slices.Index(p.words, "day"); i >= 0 && i+2 < len(p.words) && p.words[i+1] == "after" &&
		p.words[i+2] == "tomorrow" {
		p.words = slices.Delete(p.words, i, i+3)
		return 2
	}
	if i := slices.Index(p.words, "in"); i >= 0 && i+1 < len(p.words) { // in 3 days at 8
		n, unit, used := amount(p.words[i+1:])
		if days := dayUnits[unit]; days > 0 && used > 0 && n == float64(int(n)) {
			p.words = slices.Delete(p.words, i, i+1+used)
			return int(n) * days
		}
	}
	switch {
	case p.take("today"):
		return 0
	case p.take("tomorrow"):
		return 1
	}
	for i, word := range p.words {
		day := nameIndex(weekdays, word)
		if day < 0 {
			continue
		}
		// a date follows or precedes: the weekday only comments on it
		rest := slices.Delete(slices.Clone(p.words), i, i+1)
		p.words = rest
		if slices.ContainsFunc(rest, func(w string) bool {
			return isoDate().MatchString(w) ||
				nameIndex(months, w) >= 0
		}) {
			return -1
		}
		next := p.take("next")
		p.take("on", "this", "coming")
		p.sameWeekday = day == int(p.now.Weekday()) && !next
		return (day-int(p.now.Weekday())+6)%7 + 1
	}
	return -1
}

var (
	isoDate    = text.Pattern(`^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$`)
	dottedDate = text.Pattern(`^(\d{1,2})\.(\d{1,2})\.(\d{4})$`)
	ordinal    = text.Pattern(`^(\d{1,2})(?:st|nd|rd|th)?$`)
	year       = text.Pattern(`^\d{4}$`)
)

// date takes a date: 2027-01-31, 31.01.2027, 31 January 2027, Jan 31, 2027. Without a year it is
// the next one.
func (p *phrase) date() (found bool, date time.Time, err error) {
	for i, word := range p.words {
		m, order := isoDate().FindStringSubmatch(word), [3]int{1, 2, 3}
		if m == nil {
			m, order = dottedDate().FindStringSubmatch(word), [3]int{3, 2, 1}
		}
		if m != nil {
			p.words = slices.Delete(p.words, i, i+1)
			p.take("on")
			date, err = p.day(m[order[0]], m[order[1]], m[order[2]])
			return true, date, err
		}
		if strings.Count(word, "/") == 2 {
			return false, date, errors.New("which part is the month is not clear: write the date as 2027-01-31")
		}
	}
	at := slices.IndexFunc(p.words, func(w string) bool { return nameIndex(months, w) >= 0 })
	if at < 0 {
		return false, date, nil
	}
	month, day, from, end := nameIndex(months, p.words[at])+1, "", at, at+1
	if at > 0 && ordinal().MatchString(p.words[at-1]) {
		day, from = ordinal().FindStringSubmatch(p.words[at-1])[1], at-1
	} else if end < len(p.words) && ordinal().MatchString(p.words[end]) {
		day, end = ordinal().FindStringSubmatch(p.words[end])[1], end+1
	}
	y := ""
	if end < len(p.words) && year().MatchString(p.words[end]) {
		y, end = p.words[end], end+1
	}
	p.words = slices.Delete(p.words, from, end)
	p.take("on")
	if y != "" {
		date, err = p.day(y, strconv.Itoa(month), day)
		return true, date, err
	}
	date, err = p.day(strconv.Itoa(p.now.Year()), strconv.Itoa(month), day)
	if err == nil && date.Before(p.now.AddDate(0, 0, -1)) {
		date = date.AddDate(1, 0, 0)
	}
	return true, date, err
}

// day returns the day of a date, at noon.
func (p *phrase) day(y, month, d string) (time.Time, error) {
	if d == "" {
		return time.Time{}, errors.New("the day of the month is missing")
	}
	n := [3]int{}
	for i, s := range []string{y, month, d} {
		n[i], _ = strconv.Atoi(s) //nolint:errcheck // digits by the expressions
	}
	date := time.Date(n[0], time.Month(n[1]), n[2], 12, 0, 0, 0, p.zone)
	if date.Day() != n[2] || int(date.Month()) != n[1] {
		return date, fmt.Errorf("there is no day %s-%s-%s", y, month, d)
	}
	return date, nil
}

// spellTime replaces an hour in words, perhaps with minutes before or after it, by digits: half past
// nine, quarter to 10, nine.
func (p *phrase) spellTime() {
	for i, word := range p.words {
		hour := slices.Index(numberWords, word)
		if hour < 0 {
			var err error
			if hour, err = strconv.Atoi(word); err != nil || i < 2 {
				continue
			}
		}
		if i < 2 || p.words[i-1] != "past" && p.words[i-1] != "to" {
			p.words[i] = strconv.Itoa(hour)
			continue
		}
		minutes, known := map[string]int{"half": 30, "quarter": 15}[p.words[i-2]]
		if n, err := strconv.Atoi(p.words[i-2]); err == nil {
			minutes, known = n, n > 0 && n < 60
		}
		if !known {
			continue
		}
		if p.words[i-1] == "to" {
			hour, minutes = (hour+23)%24, 60-minutes
		}
		p.words[i] = fmt.Sprintf("%d:%02d", hour, minutes)
		p.words = slices.Delete(p.words, i-2, i)
		p.take("a")
		return
	}
}

var errNoTime = errors.New("the time of day is missing, such as 09:00")

var timeOfDay = text.Pattern(`^(\d{1,2})(?:[:.h](\d{2}))?(?::(\d{2})(?:\.\d+)?)?h?(am|pm)?$`)

// timeOfDay takes a time of day. evening makes an hour below 12 one of the evening.
func (p *phrase) timeOfDay(evening bool) (hour, minute, second int, err error) {
	at := p.take("at")
	switch {
	case p.take("noon", "midday"):
		return 12, 0, 0, nil
	case p.take("midnight"):
		return 0, 0, 0, nil
	}
	p.spellTime()
	for i, word := range p.words {
		m := timeOfDay().FindStringSubmatch(word)
		if m == nil {
			continue
		}
		end := i + 1
		if m[4] == "" && end < len(p.words) && (p.words[end] == "am" || p.words[end] == "pm") {
			m[4], end = p.words[end], end+1
		}
		if m[2] == "" && m[4] == "" && !at && !evening { // 9 may be anything
			break
		}
		p.words = slices.Delete(p.words, i, end)
		hour, _ = strconv.Atoi(m[1])   //nolint:errcheck // digits by the expression
		minute, _ = strconv.Atoi(m[2]) //nolint:errcheck // digits, or empty for 0
		second, _ = strconv.Atoi(m[3]) //nolint:errcheck // digits, or empty for 0
		switch {
		case hour > 23 || minute > 59 || second > 59 || m[4] != "" && (hour < 1 || hour > 12):
			return 0, 0, 0, fmt.Errorf("%s is not a time of day", word)
		case m[4] == "pm" || m[4] == "" && evening && hour < 12:
			hour = hour%12 + 12
		case m[4] == "am":
			hour %= 12
		}
		return hour, minute, second, nil
	}
	return 0, 0, 0, errNoTime
}
