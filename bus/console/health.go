package console

import (
	"net/http"
	"strings"
	"time"

	"hubbub/activitylog/view"
)

type healthView struct {
	Now      time.Time
	Pulse    pulse
	Failures []failure
	Gaps     []gap
	Skipped  int64
}

func (c *Console) healthPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	page := &healthView{Now: c.now(), Pulse: c.pulse()}
	c.facts.mu.RLock()
	page.Failures, page.Gaps = lastOf(c.facts.failures, 60, nil), lastOf(c.facts.gaps, 50, nil)
	page.Skipped = c.facts.skipped
	c.facts.mu.RUnlock()
	if r.Header.Get("HX-Request") != "" && r.FormValue("part") != "" {
		c.part(w, "health", "health-live", page)
		return
	}
	c.show(w, v, "health", "Health", page)
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
