package reminders

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/adhocore/gronx"
)

// A moment is what a model wrote for the time of a reminder.
type moment struct {
	due  time.Time // the first or only time; zero if a cron expression says it
	cron string
	zone *time.Location
}

// forms lists the accepted forms in errors.
const forms = "use a local time (2027-01-31 17:00, tomorrow 9:00, Friday 17:30), a time with its zone " +
	"(2027-01-31T17:00:00+01:00, 2027-01-31 17:00 Europe/Berlin), a duration (45m, in 20 minutes), a repetition " +
	"(daily 09:00, every Monday 8:30, weekdays except Friday 9:00, every other day 9:00, last day of every month 17:00) or a cron expression with five fields (0 9 * * 1-5)"

// maxWhen limits a text for a time, in bytes. Each of its words may be compared with all others.
const maxWhen = 1000

// morning is the hour of a reminder on a day without a time.
const morning = 9

// parseWhen parses what a model wrote for a time, in a time zone unless the text names another.
// defaultHour is the hour of a day that is named without a time.
// Times of day are local times: on days when clocks change, a time that does not exist is moved
// forward by the change, and a time that occurs twice is the first.
func parseWhen(when string, zone *time.Location, now time.Time, defaultHour int) (moment, error) {
	if len(when) > maxWhen {
		return moment{}, errors.New("the time is too long: " + forms)
	}
	given, every := strings.CutPrefix(strings.Join(strings.Fields(when), " "), everyPrefix)
	if every {
		given = "every " + given
	}
	if m, ok := parseCron(given, zone); ok {
		return m, nil
	}
	given = basicTime().ReplaceAllStringFunc(given, extendTime)
	if at, err := protocol.ParseTime(given); err == nil {
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
	m, err := p.parse(defaultHour)
	m.zone = p.zone
	if err != nil {
		return moment{}, fmt.Errorf("%q: %w", text.Clip(given, 100), err)
	}
	return m, nil
}

// basicTime is a time of ISO 8601 without separators, as in calendars: 20270131T170000Z.
var basicTime = text.Pattern(`(?i)\b(\d{4})(\d{2})(\d{2})t(\d{2})(\d{2})(\d{2})?(z?)\b`)

// extendTime returns such a time with separators.
func extendTime(basic string) string {
	m := basicTime().FindStringSubmatch(basic)
	return m[1] + "-" + m[2] + "-" + m[3] + "T" + m[4] + ":" + m[5] + ":" + cmp.Or(m[6], "00") + m[7]
}

// parseCron recognizes a cron expression with five fields, or one such as @daily. The zone may
// precede it, as in a crontab, or follow it.
func parseCron(given string, zone *time.Location) (m moment, ok bool) {
	if name, rest, found := strings.Cut(given, " "); found {
		name, found = strings.CutPrefix(strings.TrimPrefix(name, "CRON_"), "TZ=")
		if own, err := loadZone(name); found && err == nil {
			given, zone = rest, own
		}
	}
	if at := strings.LastIndexByte(given, ' '); len(strings.Fields(given)) == 6 {
		if own, err := loadZone(strings.Trim(given[at+1:], "()[]")); err == nil {
			given, zone = given[:at], own
		}
	}
	fields := len(strings.Fields(given))
	named := fields == 1 && strings.HasPrefix(given, "@")
	if !named && (fields != 5 || !strings.ContainsAny(given[:1], "*0123456789")) || !gronx.IsValid(given) {
		return m, false
	}
	return moment{cron: given, zone: zone}, true
}

// ParseTime returns the time that a model wrote in any form of a reminder that does not repeat.
func ParseTime(when string, zone *time.Location, now time.Time) (time.Time, error) {
	return parseTime(when, zone, now, morning)
}

// parseTime is ParseTime with another default hour; see parseWhen.
func parseTime(when string, zone *time.Location, now time.Time, defaultHour int) (time.Time, error) {
	m, err := parseWhen(when, zone, now, defaultHour)
	if err == nil && m.cron != "" {
		err = errors.New("it repeats")
	}
	return m.due, err
}

// loadZone returns a time zone by its name. "Local" is not one.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errors.New("it is not a name")
	}
	return time.LoadLocation(name)
}

// A phrase is a text split into words. Its methods take words from it.
type phrase struct {
	now   time.Time // in zone
	zone  *time.Location
	words []string // in lower case, without punctuation

	sameWeekday bool // the day was named as the weekday of now
	night       bool // a night was named
	nextDay     bool // the time is in the small hours after that night
}

var (
	zoneName   = text.Pattern(`[\[(]?\b([A-Za-z]+(?:/[A-Za-z0-9_+\-]+)+)[\])]?`)
	zoneShort  = text.Pattern(`(?:^|[ \d(])(ET|CT|MT|PT|UTC|GMT|Z|CET|CEST|EET|EEST|WET|WEST|MSK|EST|EDT|CST|CDT|MST|MDT|PST|PDT|JST|IST|BST|HST|AKST|AKDT)([+-]\d{1,2}(?::?\d{2})?)?\)?$`)
	zoneUS     = text.Pattern(`(?i)\b(E|C|M|P)(?:astern|entral|ountain|acific)(?: (?:standard|daylight))?(?: time)?$`)
	dayList    = text.Pattern(`(?i)\b[a-z]{3,9}(?:/[a-z]{3,9})+\b`)
	hourOffset = text.Pattern(`(\d{2}:\d{2}:\d{2}(?:\.\d+)?) ?([+-](?:0\d|1[0-4]))$`)
	zoneOffset = text.Pattern(`(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?([+-]\d{2}:?\d{2})$`)
	// an abbreviation that means one zone to most people
	abbreviated = map[string]string{
		"UTC": "UTC", "GMT": "UTC", "Z": "UTC", "CET": "Europe/Berlin", "CEST": "Europe/Berlin",
		"EET":  "Europe/Helsinki",
		"EEST": "Europe/Helsinki", "WET": "Europe/Lisbon", "WEST": "Europe/Lisbon", "MSK": "Europe/Moscow",
		"EST": "America/New_York", "EDT": "America/New_York", "CDT": "America/Chicago", "MST": "America/Denver",
		"MDT": "America/Denver", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "JST": "Asia/Tokyo",
		"HST": "Pacific/Honolulu", "AKST": "America/Anchorage", "AKDT": "America/Anchorage",
		"ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver", "PT": "America/Los_Angeles",
	}
)

// takeZone takes the zone that a text names, if any, and splits the rest into words.
func (p *phrase) takeZone(given string) error {
	given = zoneUS().ReplaceAllString(given, "${1}T")
	given = hourOffset().ReplaceAllString(given, "${1}${2}:00")
	given = dayList().ReplaceAllStringFunc(given, func(list string) string { // Tue/Thu is not a zone
		days := strings.Split(strings.ToLower(list), "/")
		if slices.ContainsFunc(days, func(day string) bool { return nameIndex(weekdays, day) < 0 }) {
			return list
		}
		return strings.Join(days, " and ")
	})
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
		p.zone, rest = fixedZone(short[2]), strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(given, ")"),
			short[1]+short[2]), "(")
	case short != nil:
		full, known := abbreviated[short[1]]
		if !known {
			return fmt.Errorf("%s is the name of several time zones: use a name such as Europe/Berlin", short[1])
		}
		zone, err := loadZone(full)
		if err != nil {
			return err
		}
		p.zone, rest = zone, strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(given, ")"), short[1]), "(")
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

// hoursMinutes is a duration as in 1h30m or 1 hour 30 minutes, and inHours one as in every 1h30.
var (
	hoursMinutes = text.Pattern(`(?i)(^|[^\w.,])(\d{1,3}) ?h(?:rs?|ours?)?(?: and)? ?(\d{1,2}) ?m(?:ins?|inutes?)?\b`)
	inHours      = text.Pattern(`(?i)\b((?:in|after|every) \d{1,3}h\d{2})\b`)
)

// minutesOf returns a duration in hours and minutes as one in minutes.
func minutesOf(given string) string {
	m := hoursMinutes().FindStringSubmatch(given)
	hours, _ := strconv.Atoi(m[2])   //nolint:errcheck // digits by the expression
	minutes, _ := strconv.Atoi(m[3]) //nolint:errcheck // digits by the expression
	return fmt.Sprintf("%s%d minutes", m[1], 60*hours+minutes)
}

// clockHours is a time of day as in 17:00 hrs. In 2:30 hours is a duration.
var clockHours = text.Pattern(`(?i)\b(\d{2}:\d{2}|at \d:\d{2}) ?(?:hrs|hours|h)\b`)

// atHours is a time of day as in at 1700.
var atHours = text.Pattern(`(?i)\bat (\d{2})(\d{2})(?: ?(?:hours|hrs|h))?( |$)`)

// isoTime joins the date and the time of ISO 8601.
var isoTime = text.Pattern(`(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2})`)

// dayAndMonth is a date as in 24.12., without a year.
var dayAndMonth = text.Pattern(`(?:^|\b)(\d{1,2})\.(\d{1,2})\.(?: |$)`)

// fillers are words that carry no meaning.
var fillers = strings.Fields("the of @ by until till around about approximately sharp ~ for coming upcoming")

// splitWords splits a text into lower-case words, without those that carry no
// meaning.
func splitWords(s string) []string {
	s = hoursMinutes().ReplaceAllStringFunc(inHours().ReplaceAllString(s, "${1}m"), minutesOf)
	s = clockHours().ReplaceAllString(s, "$1")
	s = strings.ToLower(isoTime().ReplaceAllString(atHours().ReplaceAllString(s, "at $1:$2$3"), "$1 $2"))
	s = dayAndMonth().ReplaceAllStringFunc(s, func(date string) string {
		m := dayAndMonth().FindStringSubmatch(date)
		if month, _ := strconv.Atoi(m[2]); month > 0 && month <= len(months) { //nolint:errcheck // digits
			return m[1] + " " + months[month-1] + " "
		}
		return date
	})
	s = strings.NewReplacer("a.m.", "am", "p.m.", "pm", ",", " ", " o'clock", ":00", " uhr", ":00", "–", "-",
		"tmrw", "tomorrow", "(local time)", "", "local time", "", "(local)", "", "my time", "",
		"once a day", "daily", "twice a day", "daily", "three times a day", "daily", "twice daily", "daily",
		"once a week", "weekly", "once a month", "monthly",
		"bi-weekly", "every 2 weeks", "biweekly", "every 2 weeks", "fortnightly", "every 2 weeks",
		"quarterly", "every 3 months", "nightly", "every night",
		"alternate ", "every other ", "working day", "workday", "business day", "workday", "12 noon", "noon",
		"12 midnight", "midnight", "mid-day", "midday", "lunch time", "lunch", "lunchtime", "lunch").Replace(s)
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ';' })
	for i := range words {
		words[i] = strings.TrimSuffix(words[i], ".")
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" || slices.Contains(fillers, w) })
}

// take removes the first of the words that is one of the given ones, and reports whether there is one.
func (p *phrase) take(given ...string) bool {
	i := slices.IndexFunc(p.words, func(w string) bool { return slices.Contains(given, w) })
	if i >= 0 {
		p.words = slices.Delete(p.words, i, i+1)
	}
	return i >= 0
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

// takePhrase takes successive words, and reports whether they were there.
func (p *phrase) takePhrase(given string) bool {
	want := strings.Fields(given)
	for i := range p.words {
		if len(p.words)-i >= len(want) && slices.Equal(p.words[i:i+len(want)], want) {
			p.words = slices.Delete(p.words, i, i+len(want))
			return true
		}
	}
	return false
}

// partsOfDay are the parts of a day with their hours. afterNoon says whether a number beside one is
// an hour after noon.
var partsOfDay = []struct {
	words     string
	hour      int
	afterNoon bool
}{
	{"first thing", 9, false}, {"early morning", 7, false}, {"morning", 9, false}, {"lunch", 12, true},
	{"late afternoon", 17, true}, {"afternoon", 15, true}, {"evening", 19, true},
	{"tonight", 20, true}, {"night", 20, true}, {"end day", 17, true}, {"eod", 17, true}, {"cob", 17, true},
}

// takePart takes a part of a day, and returns its hour, or -1.
func (p *phrase) takePart() (hour int, afterNoon bool) {
	hour = -1
	for _, of := range partsOfDay {
		if p.takePhrase(of.words) {
			hour, afterNoon = of.hour, afterNoon || of.afterNoon
			p.night = p.night || strings.HasSuffix(of.words, "night")
			p.take("in", "this")
		}
	}
	return hour, afterNoon
}

// parse parses a repetition, or a day and a time of day. A day without a time of day means its morning.
func (p *phrase) parse(defaultHour int) (m moment, err error) {
	if m, found, err := p.repetition(); found {
		return m, err
	}
	if p.takePhrase("same time") || p.takePhrase("this time") {
		p.words = append(p.words, p.now.Format("15:04:05"))
	}
	relative := p.dayWord()
	hasDate, date, err := p.date()
	if err != nil {
		return m, err
	}
	named := relative >= 0 || hasDate
	part, afterNoon := p.takePart()
	hour, minute, second, err := p.timeOfDay(afterNoon, named)
	switch {
	case errors.Is(err, errNoTime) && len(p.words) == 0 && part >= 0:
		hour, err = part, nil
	case errors.Is(err, errNoTime) && len(p.words) == 0 && named && relative != 0:
		hour, err = defaultHour, nil
	case errors.Is(err, errNoTime) && !named && part < 0:
		return m, fmt.Errorf("it is not a time: %s", forms)
	}
	switch {
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
		if p.nextDay { // Friday night at 1
			d++
		}
		if m.due = localTime(y, month, d-7, hour, minute, second, p.zone); m.due.After(p.now) {
			return m, nil
		}
		return moment{due: localTime(y, month, d, hour, minute, second, p.zone)}, nil
	}
	if m.due = localTime(y, month, d, hour, minute, second, p.zone); p.nextDay && (relative > 0 || hasDate ||
		p.now.Hour() >= smallHours || !m.due.After(p.now)) || relative == 0 && hour == 0 && !m.due.After(p.now) {
		d++
		m.due = localTime(y, month, d, hour, minute, second, p.zone)
	}
	if !named && !afterNoon && !m.due.After(p.now) { // "9:00" alone is the next
		m.due = localTime(y, month, d+1, hour, minute, second, p.zone)
	}
	return m, nil
}

// dayWord takes today, tomorrow, next week or the name of a weekday, and returns the days from today,
// or -1.
func (p *phrase) dayWord() int {
	today := int(p.now.Weekday())
	ahead := func(day int) int { return (day-today+6)%7 + 1 }
	if p.takePhrase("day after tomorrow") {
		return 2
	}
	if i := slices.Index(p.words, "from"); i > 0 { // a week from tomorrow
		n, unit, used := amount(p.words[:i])
		if days := dayUnits[unit]; days > 0 && used == i && n == float64(int(n)) {
			p.words = slices.Delete(p.words, 0, i+1)
			if p.take("now") {
				return int(n) * days
			}
			if from := p.dayWord(); from >= 0 {
				return int(n)*days + from
			}
			return -1
		}
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
	case p.takePhrase("this weekend"), p.take("weekend"):
		return ahead(6)
	case p.takePhrase("end week"):
		return ahead(5)
	}
	nextWeek := p.takePhrase("next week")
	for i, word := range p.words {
		day := nameIndex(weekdays, word)
		if day < 0 {
			continue
		}
		// a date follows or precedes: the weekday only comments on it
		rest := slices.Delete(slices.Clone(p.words), i, i+1)
		p.words = rest
		if slices.ContainsFunc(rest, func(w string) bool {
			return isoDate().MatchString(w) || slashedDate().MatchString(w) || dottedDate().MatchString(w) ||
				nameIndex(months, w) >= 0
		}) {
			return -1
		}
		next := p.take("next")
		p.take("on", "this", "coming")
		if nextWeek {
			return ahead(1) + (day+6)%7
		}
		p.sameWeekday = day == today && !next
		return ahead(day)
	}
	if nextWeek {
		return ahead(1)
	}
	return -1
}

var (
	isoDate     = text.Pattern(`^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})$`)
	slashedDate = text.Pattern(`^(\d{1,2})[/-](\d{1,2})[/-](\d{4})$`)
	dottedDate  = text.Pattern(`^(\d{1,2})\.(\d{1,2})\.(\d{4})$`)
	nth         = text.Pattern(`^\d{1,2}(?:st|nd|rd|th)$`)
	ordinal     = text.Pattern(`^(\d{1,2})(?:st|nd|rd|th)?$`)
	year        = text.Pattern(`^\d{4}$`)
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
		if m = slashedDate().FindStringSubmatch(word); m == nil {
			continue
		}
		p.words = slices.Delete(p.words, i, i+1)
		p.take("on")
		switch {
		case len(m[1]) == 2 && m[1] > "12", m[1] == m[2]:
			date, err = p.day(m[3], m[2], m[1])
		case len(m[2]) == 2 && m[2] > "12":
			date, err = p.day(m[3], m[1], m[2])
		default:
			err = errors.New("which part is the month is not clear: write the date as 2027-01-31")
		}
		return true, date, err
	}
	at := slices.IndexFunc(p.words, func(w string) bool { return nameIndex(months, w) >= 0 })
	if at < 0 {
		return p.dayOfMonth()
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
	if i := slices.IndexFunc(p.words, func(w string) bool {
		return strings.HasPrefix(w, "20") && year().MatchString(w)
	}); y == "" && i >= 0 { // Dec 24 18:00 2026
		y, p.words = p.words[i], slices.Delete(p.words, i, i+1)
	}
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

// dayOfMonth takes a day of this month or the next: the 5th, the 3rd of next month, next month.
func (p *phrase) dayOfMonth() (found bool, date time.Time, err error) {
	y, month, today := p.now.Date()
	day, next := 0, p.takePhrase("next month")
	if next {
		month, day = month+1, 1
	}
	if i := slices.IndexFunc(p.words, nth().MatchString); i >= 0 {
		day, _ = strconv.Atoi(ordinal().FindStringSubmatch(p.words[i])[1]) //nolint:errcheck // digits by the expression
		p.words = slices.Delete(p.words, i, i+1)
		p.take("on")
		if !next && day < today {
			month++
		}
	}
	if p.takePhrase("end month") {
		return true, time.Date(y, month+1, 0, 12, 0, 0, 0, p.zone), nil
	}
	if day == 0 {
		return false, date, nil
	}
	first := time.Date(y, month, 1, 12, 0, 0, 0, p.zone)
	date, err = p.day(strconv.Itoa(first.Year()), strconv.Itoa(int(first.Month())), strconv.Itoa(day))
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
