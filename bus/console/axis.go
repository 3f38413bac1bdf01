package console

import (
	"math"
	"strconv"
	"time"

	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

// A tick is one mark of the time axis.
type tick struct {
	Left   string // percent
	Label  string
	Anchor string
}

// narrowest is the smallest width of a bar, in percent of the axis.
const narrowest = 0.5

// draw places the bars of a waterfall on its axis.
func (v *messageView) draw(w *view.Waterfall) {
	v.Whole = w.Whole
	for _, bar := range w.Bars {
		bar.Depth = min(bar.Depth, 12)
		b := barLine{Bar: bar, Detail: bar.Note}
		if b.Kind == view.BarMessage {
			b.Detail = text.Clip(view.Brief.Message(b.Payload), maxText)
		}
		if b.Start.IsZero() {
			b.Start = b.Finish
		}
		if !b.Start.IsZero() {
			b.place(w)
		}
		v.Bars = append(v.Bars, b)
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

// place sets where a bar lies. An open bar runs to the end of the axis.
func (b *barLine) place(w *view.Waterfall) {
	b.At = b.Start.Sub(w.Begin)
	left, right := 100*w.Place(b.Start), 100.0
	if !b.Open() {
		b.Took, right = b.Finish.Sub(b.Start), 100*w.Place(b.Finish)
	}
	width := max(right-left, narrowest)
	left = min(left, 100-width)
	b.Left, b.Width = percents(left), percents(width)
	if b.Span.Kind != "" {
		b.SpanLeft, b.SpanWidth = percents(left), percents(max(100*w.Place(b.Span.Until)-left, narrowest))
	}
}

func percents(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + "%" }

// tickStep returns a round duration that fits three to seven times into whole.
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

// tickLabel returns the label of a mark.
func tickLabel(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t >= time.Minute:
		return view.Long(t)
	case t >= time.Second:
		return inUnit(t, time.Second) + " s"
	case t >= time.Millisecond:
		return inUnit(t, time.Millisecond) + " ms"
	}
	return inUnit(t, time.Microsecond) + " µs"
}

func inUnit(t, unit time.Duration) string {
	return strconv.FormatFloat(float64(t)/float64(unit), 'f', -1, 64)
}
