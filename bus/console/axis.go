package console

import (
	"math"
	"strconv"
	"time"

	"hubbub/activitylog"
)

// A tick is one mark of the time axis.
type tick struct {
	Left   string // percent
	Label  string
	Anchor string
}

// addSpans adds what goes on between messages to the bars with which it begins.
func (v *messageView) addSpans(spans map[string]activitylog.Span) {
	for i := range v.Bars {
		b := &v.Bars[i]
		if s, ok := spans[b.ID]; ok && b.Kind == "message" && s.Until.After(b.start) {
			b.Span, b.until = s.Kind, s.Until
			delete(spans, b.ID) // of a message that was sent again, the first bar
		}
	}
}

// Lasted is how long the span of a message took.
func (b barLine) Lasted() time.Duration { return b.until.Sub(b.start) }

// narrowest is the least width of a bar, in percent of the axis.
const narrowest = 0.5

// scale places the bars on one time axis.
func (v *messageView) scale() {
	var begin, end time.Time
	for _, b := range v.Bars {
		for _, t := range []time.Time{b.start, b.end} {
			if t.IsZero() {
				continue
			}
			if begin.IsZero() || t.Before(begin) {
				begin = t
			}
			end = latest(end, t)
		}
	}
	v.Whole = max(end.Sub(begin), time.Microsecond)
	place := func(t time.Time) float64 { return 100 * float64(t.Sub(begin)) / float64(v.Whole) }
	for i := range v.Bars {
		b := &v.Bars[i]
		if b.start.IsZero() {
			b.start = b.end
		}
		if b.start.IsZero() {
			continue
		}
		b.At = b.start.Sub(begin)
		finish := b.end
		if finish.IsZero() {
			finish = end
		} else {
			b.Took = b.end.Sub(b.start)
		}
		left, right := place(b.start), place(finish)
		width := max(right-left, narrowest)
		left = min(left, 100-width)
		b.Left, b.Width = percents(left), percents(width)
		if b.Span != "" {
			b.SpanLeft, b.SpanWidth = percents(left), percents(max(place(b.until)-left, narrowest))
		}
	}
	step := tickStep(v.Whole)
	for t := time.Duration(0); t <= v.Whole; t += step {
		at := 100 * float64(t) / float64(v.Whole)
		anchor := "middle"
		switch {
		case t == 0:
			anchor = "start"
		case at > 96:
			anchor = "end"
		}
		v.Ticks = append(v.Ticks, tick{Left: percents(at), Label: tickLabel(t), Anchor: anchor})
	}
}

func percents(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + "%" }

// tickStep is a round part of a duration that fits into it three to seven times.
func tickStep(whole time.Duration) time.Duration {
	const most = 6
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if whole < 3*unit {
			continue
		}
		for _, n := range []int{1, 2, 5, 10, 15, 20, 30} {
			if step := time.Duration(n) * unit; whole/step <= most+1 {
				return step
			}
		}
		if unit == time.Hour {
			return (whole/most + unit).Truncate(unit)
		}
	}
	raw := float64(max(whole/most, 1))
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= raw {
			return time.Duration(n * power)
		}
	}
	return time.Duration(10 * power)
}

// tickLabel writes a mark.
func tickLabel(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t >= time.Minute:
		return span(t)
	case t >= time.Second:
		return strconv.FormatFloat(t.Seconds(), 'f', -1, 64) + " s"
	case t >= time.Millisecond:
		return strconv.FormatFloat(float64(t)/float64(time.Millisecond), 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(float64(t)/float64(time.Microsecond), 'f', -1, 64) + " µs"
}
