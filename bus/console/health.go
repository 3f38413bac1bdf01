package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog/view"
)

type healthView struct {
	Now      time.Time
	Pulse    pulse
	Outcomes []named
	Limits   []named
	Bounds   []bound
	Failures []failure
	Gaps     []gap
	Skipped  int64
}

type named struct {
	Name  string
	Value uint64
}

// A bound is one limit in force.
type bound struct {
	Name  string
	Value string
}

func (c *Console) healthPage(w http.ResponseWriter, r *http.Request, v *visitor) {
	c.current(r.Context())
	page := &healthView{Now: c.now(), Pulse: c.pulse()}
	page.Outcomes, page.Limits = sortNamed(page.Pulse.Deliveries), sortNamed(page.Pulse.Limits)
	for name, value := range page.Pulse.Bounds {
		page.Bounds = append(page.Bounds, describeBound(name, value))
	}
	slices.SortFunc(page.Bounds, func(a, b bound) int { return cmp.Compare(a.Name, b.Name) })
	c.facts.mu.RLock()
	page.Failures = c.facts.lastFailures(60, nil)
	for i := len(c.facts.gaps) - 1; i >= 0 && len(page.Gaps) < 50; i-- {
		page.Gaps = append(page.Gaps, c.facts.gaps[i])
	}
	page.Skipped = c.facts.skipped
	c.facts.mu.RUnlock()
	if r.Header.Get("HX-Request") != "" && r.FormValue("part") != "" {
		c.part(w, "health", "health-live", page)
		return
	}
	c.show(w, v, "health", "Health", page)
}

func sortNamed(m map[string]uint64) (list []named) {
	for name, value := range m {
		list = append(list, named{name, value})
	}
	slices.SortFunc(list, func(a, b named) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func describeBound(name string, value float64) bound {
	text := view.Count(value)
	if rest, ok := strings.CutSuffix(name, "_seconds"); ok {
		return bound{strings.ReplaceAll(rest, "_", " "), view.Long(time.Duration(value * float64(time.Second)))}
	}
	if rest, ok := strings.CutSuffix(name, "_bytes"); ok {
		return bound{strings.ReplaceAll(rest, "_", " "), bytesText(value)}
	}
	return bound{strings.ReplaceAll(name, "_", " "), text}
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
