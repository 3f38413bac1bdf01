package transcript

import (
	"regexp"
	"slices"
	"strings"

	"hubbub/protocol"
)

// identity matches the beginning of an identity, or of a pattern of identities, in a frame.
// agent:system and collab:broker are not changed, because their rights depend on the whole name.
var identity = regexp.MustCompile(`"(agent|tg|chorus|cli|system):`)

const (
	system = `"agent:system"`
	broker = `"collab:broker"`
)

// WithPrefix returns the case with its own identities and topics: the mark is inserted after the
// family of each, so that other cases do not use or receive them. The mark also replaces
// "{{mark}}".
func (c *Case) WithPrefix(mark string) Case {
	own := *c
	own.steps = slices.Clone(c.steps)
	for i, s := range own.steps {
		s.lines = slices.Clone(s.lines)
		for j, line := range s.lines {
			parts := strings.Split(line, system)
			for k := range parts {
				parts[k] = identity.ReplaceAllString(parts[k], `"$1:`+mark)
			}
			s.lines[j] = strings.ReplaceAll(strings.Join(parts, system), "{{mark}}", mark)
		}
		own.steps[i] = s
	}
	return own
}

// Interference describes how a case would disturb a bus that is in use, or returns "". A case
// disturbs a bus if it takes an identity that exists only once, or receives messages from others.
func (c *Case) Interference() string {
	for _, s := range c.steps {
		if s.verb != "send" {
			continue
		}
		for _, line := range s.lines {
			for _, id := range []string{system, broker} {
				if strings.Contains(line, `"clientId":`+id) {
					return "it would take over " + strings.Trim(id, `"`)
				}
			}
			for _, m := range topics.FindAllStringSubmatch(line, -1) {
				if !strings.Contains(line, `"`+protocol.MethodSendMessage+`"`) && strings.ContainsAny(m[1], "*?") &&
					!identity.MatchString(m[0][len(`"topic":`):]) {
					return "it would receive the messages of others"
				}
			}
		}
	}
	return ""
}

var topics = regexp.MustCompile(`"topic":"([^"]*)"`)
