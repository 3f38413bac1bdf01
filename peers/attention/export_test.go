package attention

import "slices"

// All words of each kind; the tests go through them.
var (
	Policies     = []Policy{PolicyMustRespond, PolicyMayRespond, PolicyAckOnly, PolicyMustNotRespond}
	Modes        = []Mode{ModeImmediate, ModeBuffered, ModeNotify, ModeToolMailbox, ModeDigest, ModeSilent}
	Dispositions = []Disposition{
		DispositionResponded, DispositionAcknowledged, DispositionDeferred, DispositionClaimed,
		DispositionIgnored, DispositionSuperseded, DispositionFailed,
	}
)

// Reasons lists the names of the rules, in the order of their precedence.
func Reasons() (names []string) {
	for _, r := range rules {
		names = append(names, r.reason)
	}
	return slices.Compact(names)
}

// Searches returns how often VisibleText searches the whole text for the ends of calls.
func Searches(text string) int {
	s := newScanner(text, newNames(nil))
	s.run()
	return s.ahead.searched / len(text)
}
