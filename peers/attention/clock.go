package attention

import (
	"strconv"
	"time"
)

// TimeText shows a time to a model with everything that it needs to compute others: the weekday,
// the date, the time, the offset from UTC and the name of the zone.
func TimeText(t time.Time) string {
	said := t.Format("Monday 2006-01-02 15:04 -07:00")
	if zone := ZoneName(t); zone != "" {
		said += " (" + zone + ")"
	}
	return said
}

// ZoneName returns the name of a time's zone, such as Europe/Berlin, its abbreviation if it has no
// name, or "" if it is only an offset.
func ZoneName(t time.Time) string {
	name := t.Location().String()
	if name == "Local" {
		name, _ = t.Zone()
	}
	if name != "" && (name[0] == '+' || name[0] == '-') { // the abbreviation of zones without one
		return ""
	}
	return name
}

// relativeTime formats the time of a message briefly, in the time zone of now, and relative to
// now where that is clearer. The zero time becomes "".
func relativeTime(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	at = at.In(now.Location())
	clock := at.Format("15:04")
	switch age, days := now.Sub(at), dayNumber(now)-dayNumber(at); {
	case age < -time.Minute || days < 0: // the clock of the chat is ahead
	case age < time.Minute:
		return clock + ", just now"
	case age < time.Hour:
		return clock + ", " + countedUnit(int(age/time.Minute), "minute") + " ago"
	case days == 0:
		return clock + ", " + countedUnit(int(age/time.Hour), "hour") + " ago"
	case days == 1:
		return "yesterday, " + clock
	case days < 7:
		return at.Format("Monday 2006-01-02 15:04") + ", " + countedUnit(days, "day") + " ago"
	}
	return at.Format("2006-01-02 15:04")
}

// dayNumber numbers calendar days.
func dayNumber(t time.Time) int {
	y, m, d := t.Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))
}

func countedUnit(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return strconv.Itoa(n) + " " + unit
}
