package console

import (
	"strings"
	"time"

	"hubbub/activitylog/view"
)

func (l *look) health() error {
	f := l.read()
	l.Title = "Health"
	l.Page = map[string]any{"Pulse": l.pulse(), "Failures": lastOf(f.failures, 60, nil), "Gaps": lastOf(f.gaps, 50, nil)}
	if l.Header.Get("HX-Request") != "" && l.FormValue("part") != "" {
		l.part = "health-live"
	}
	return nil
}

// boundName returns the words for the name of a bound, and boundValue its value with
// a unit.
func boundName(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_seconds"), "_bytes")
	return strings.ReplaceAll(name, "_", " ")
}

func boundValue(name string, value float64) string {
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return view.Long(time.Duration(value * float64(time.Second)))
	case strings.HasSuffix(name, "_bytes"):
		return bytesText(value)
	}
	return view.Count(value)
}

func bytesText(v float64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if v < 1024 {
			return view.Count(v) + " " + unit
		}
		v /= 1024
	}
	return view.Count(v) + " GiB"
}
