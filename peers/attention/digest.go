package attention

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A DigestItem is one event in a digest.
type DigestItem struct {
	Event    Event
	Decision Decision
	SentAt   time.Time // zero is unknown
}

// A Digest summarizes events that did not interrupt the agent.
type Digest struct {
	Policy    Policy   // must_not_respond, unless an item mentions the agent or assigns work to it
	Reason    string   // "digest", or "digest_with_mention"
	EventIDs  []string // of every item, in order
	Summary   string   // counts by the host, without user text
	Excerpts  []Line   // the newest statuses, at most maxExcerpts, each shortened
	Withheld  int      // items that are counted but not quoted
	Addressed []string // ids of the items that mention the agent or assign work to it
}

// Limits of a digest.
const (
	maxExcerpts     = 20
	maxExcerptRunes = 200
)

// MakeDigest summarizes items, which must be in order. It allows an answer only if an item
// mentions the agent or assigns work to it.
func MakeDigest(items []DigestItem, v Version) Digest {
	d := Digest{Policy: PolicyMustNotRespond.In(v), Reason: "digest"}
	places, counts := []string{}, map[string]map[string]int{}
	for i := range items {
		e := &items[i].Event
		d.EventIDs = append(d.EventIDs, e.EventID)
		if items[i].Decision.Directedness == DirectedToMe && items[i].Decision.Policy != PolicyMustNotRespond {
			d.Addressed = append(d.Addressed, e.EventID)
		}
		label := placeLabel(e.Conversation)
		if counts[label] == nil {
			counts[label], places = map[string]int{}, append(places, label)
		}
		counts[label][string(e.kind())+" by "+string(e.authorKind())]++
	}
	if len(d.Addressed) > 0 {
		d.Policy, d.Reason = PolicyMayRespond, "digest_with_mention"
	}
	for _, label := range places {
		d.Summary += label + ": " + countList(counts[label]) + "\n"
	}
	newest := items[max(0, len(items)-maxExcerpts):]
	d.Withheld = len(items) - len(newest)
	for i := range newest {
		e := &newest[i].Event
		d.Excerpts = append(d.Excerpts, Line{EventID: e.EventID, Author: e.Author,
			Text: cutRunes(e.Text, maxExcerptRunes), SentAt: newest[i].SentAt})
	}
	return d
}

// countList returns a sum and its parts: "3 (message by human 2, status by system 1)".
func countList(counts map[string]int) string {
	total, parts := 0, slices.Sorted(maps.Keys(counts))
	for i, key := range parts {
		total += counts[key]
		parts[i] = HeaderValue(key) + " " + strconv.Itoa(counts[key])
	}
	return strconv.Itoa(total) + " (" + strings.Join(parts, ", ") + ")"
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// Block renders a digest for a model, excerpts behind the fence. now is in the zone to show; the
// zero time shows no times.
func (d *Digest) Block(fence string, now time.Time) string {
	return behindFence(fence, func(b *strings.Builder, fence string) { d.write(b, fence, now) })
}

func (d *Digest) write(b *strings.Builder, fence string, now time.Time) {
	b.WriteString("C2A DIGEST\n")
	writeNow(b, now)
	headers(b, "response_policy", string(d.Policy), "reason", d.Reason, "events", strconv.Itoa(len(d.EventIDs)),
		"fence", fence)
	b.WriteString("\nSUMMARY\n" + d.Summary)
	if d.Withheld > 0 {
		b.WriteString("not quoted: " + strconv.Itoa(d.Withheld) + "\n")
	}
	if len(d.Excerpts) > 0 {
		b.WriteString("\nEXCERPTS\n")
	}
	for _, line := range d.Excerpts {
		line.write(b, fence, now)
	}
}
