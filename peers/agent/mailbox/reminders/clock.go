package reminders

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol/text"
)

var (
	isoDuration = text.Pattern(`^p(?:(\d+)w)?(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?)?$`)
	quantity    = text.Pattern(`^(\d+(?:\.\d+)?)([a-z]*)$`)
	numberWords = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen " +
		"fourteen fifteen sixteen seventeen eighteen nineteen")
	tensWords     = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")
	durationUnits = map[string]time.Duration{
		"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
		"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	}
	dayUnits = map[string]int{"d": 1, "day": 1, "days": 1, "w": 7, "wk": 7, "week": 7, "weeks": 7, "fortnight": 14}
)

// duration parses a duration from now. A day is a calendar day: it ends at the same local time.
func (p *phrase) duration() (due time.Time, ok bool) {
	words := slices.Clone(p.words)
	trim := func(given ...string) {
		for len(words) > 0 && slices.Contains(given, words[0]) {
			words = words[1:]
		}
	}
	trim("in", "after", "within", "for", "another")
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
		if len(words) > 2 && strings.Join(words[:3], " ") == "and a half" {
			n, words = n+0.5, words[3:]
		}
		switch days := dayUnits[unit]; {
		case durationUnits[unit] > 0:
			due = due.Add(time.Duration(n * float64(durationUnits[unit])))
		case days > 0:
			whole, rest := math.Modf(n * float64(days))
			due = due.AddDate(0, 0, int(whole)).Add(time.Duration(rest * float64(24*time.Hour)))
		case (unit == "month" || unit == "months") && n == float64(int(n)):
			due = due.AddDate(0, int(n), 0)
		case (unit == "year" || unit == "years") && n == float64(int(n)):
			due = due.AddDate(int(n), 0, 0)
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
		n, _ = strconv.ParseFloat(m[1], 64) //nolint:errcheck // the expression matches only numbers
		return n, m[2], 1
	case len(words) < 2:
		return 0, "", 0
	case m != nil:
		n, _ = strconv.ParseFloat(m[1], 64) //nolint:errcheck // the expression matches only numbers
		return n, words[1], 2
	}
	n, used = spelledNumber(words)
	if used == 0 || used == len(words) {
		return 0, "", 0
	}
	return n, words[used], used + 1
}

// spelledNumber parses a number in words at the beginning of words: "an", "twenty", "forty-five", "half
// an", "a couple", "two and a half". It returns how many it used.
func spelledNumber(words []string) (n float64, used int) {
	phrase := strings.Join(words, " ") + " "
	for _, fraction := range fractions {
		if strings.HasPrefix(phrase, fraction.words+" ") {
			return fraction.n, len(strings.Fields(fraction.words))
		}
	}
	tens, ones, _ := strings.Cut(words[0], "-")
	i, j := slices.Index(numberWords, tens), slices.Index(tensWords, tens)
	switch {
	case tens == "a", tens == "an":
		n = 1
	case i >= 0 && ones == "":
		n = float64(i)
	case j > 0:
		n = float64(10*j + max(0, slices.Index(numberWords[:10], ones)))
	default:
		return 0, 0
	}
	if strings.HasPrefix(phrase, words[0]+" and a half ") {
		return n + 0.5, 4
	}
	return n, 1
}

// fractions are numbers in several words, the longest first.
var fractions = []struct {
	words string
	n     float64
}{
	{"three quarters an", 0.75}, {"a quarter an", 0.25}, {"quarter an", 0.25}, {"half an", 0.5}, {"half a", 0.5},
	{"a half", 0.5}, {"half", 0.5}, {"a couple", 2}, {"couple", 2}, {"a few", 3},
}

// spellTime replaces a time of day in words with digits: half past nine, quarter to 10, nine
// thirty, nine.
func (p *phrase) spellTime() {
	for i, word := range p.words {
		if i > 1 && (p.words[i-1] == "past" || p.words[i-1] == "to") { // ten to midnight
			word = strings.NewReplacer("noon", "12", "midday", "12", "midnight", "0").Replace(word)
		}
		n, used := spelledNumber([]string{word})
		hour := int(n)
		if word == "a" || word == "an" || used == 0 || float64(hour) != n {
			var err error
			if hour, err = strconv.Atoi(word); err != nil || i < 2 {
				continue
			}
		}
		switch {
		case i > 1 && (p.words[i-1] == "past" || p.words[i-1] == "to"):
			minutes, known := clockMinutes(p.words[i-2])
			from, err := strconv.Atoi(p.words[i-2]) // "9 to 17" is a range, "10 to 9" a time
			if isRange := err == nil && used == 0 && p.words[i-1] == "to" && from < hour; isRange || !known {
				continue
			}
			if p.words[i-1] == "to" {
				hour, minutes = (hour+23)%24, 60-minutes
			}
			p.words[i] = fmt.Sprintf("%d:%02d", hour, minutes)
			p.words = slices.Delete(p.words, i-2, i)
			p.take("a")
			return
		case i+1 < len(p.words) && p.words[i+1] != "past" && p.words[i+1] != "to":
			if minutes, known := clockMinutes(p.words[i+1]); known && used > 0 && minutes > 9 {
				p.words[i] = fmt.Sprintf("%d:%02d", hour, minutes)
				p.words = slices.Delete(p.words, i+1, i+2)
				return
			}
			p.words[i] = strconv.Itoa(hour)
		case i+1 == len(p.words):
			p.words[i] = strconv.Itoa(hour)
		}
	}
}

// clockMinutes parses the minutes of a time of day.
func clockMinutes(word string) (minutes int, known bool) {
	if word == "quarter" {
		return 15, true
	}
	n, used := spelledNumber([]string{word})
	if minutes = int(n); word == "half" {
		return 30, true
	}
	if used == 0 {
		var err error
		if minutes, err = strconv.Atoi(word); err != nil {
			return 0, false
		}
	}
	return minutes, minutes > 0 && minutes < 60
}

// smallHours is the end of the hours that belong to the night before.
const smallHours = 5

var errNoTime = errors.New("the time of day is missing, such as 09:00")

var timeOfDay = text.Pattern(`^(\d{1,2})(?:[:.h](\d{2}))?(?::(\d{2})(?:\.\d+)?)?h?(am|pm)?$`)

// timeOfDay takes a time of day. afterNoon converts an hour below 12 to one after noon. A number
// alone is an hour if the day is named.
func (p *phrase) timeOfDay(afterNoon, dayNamed bool) (hour, minute, second int, err error) {
	defer func() { p.nextDay = p.nextDay || err == nil && p.night && hour < smallHours }()
	at := p.take("at")
	p.spellTime()
	switch {
	case p.take("noon", "midday"):
		return 12, 0, 0, nil
	case p.take("midnight"):
		return 0, 0, 0, nil
	}
	for i, word := range p.words {
		m := timeOfDay().FindStringSubmatch(word)
		if m == nil {
			continue
		}
		end := i + 1
		if m[4] == "" && end < len(p.words) && (p.words[end] == "am" || p.words[end] == "pm") {
			m[4], end = p.words[end], end+1
		}
		if m[2] == "" && m[4] == "" && !at && !afterNoon && !(dayNamed && len(p.words) == 1) { // 9 may be anything
			break
		}
		p.words = slices.Delete(p.words, i, end)
		hour, _ = strconv.Atoi(m[1])   //nolint:errcheck // digits by the expression
		minute, _ = strconv.Atoi(m[2]) //nolint:errcheck // digits, or empty for 0
		second, _ = strconv.Atoi(m[3]) //nolint:errcheck // digits, or empty for 0
		switch {
		case hour == 24 && minute+second == 0 && m[2] != "" && m[4] == "": // the end of the day
			p.nextDay = true
			return 0, 0, 0, nil
		case hour > 23 || minute > 59 || second > 59 || m[4] != "" && (hour < 1 || hour > 12):
			return 0, 0, 0, fmt.Errorf("%s is not a time of day", word)
		case m[4] == "pm", m[4] == "" && afterNoon && hour < 12 && !(p.night && hour < smallHours):
			hour = hour%12 + 12
		case m[4] == "am", m[4] == "" && p.night && hour == 12: // tonight at 12
			hour %= 12
		}
		return hour, minute, second, nil
	}
	return 0, 0, 0, errNoTime
}
