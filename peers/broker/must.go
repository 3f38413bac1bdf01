package broker

import (
	"strings"

	"hubbub/peers/broker/rules"
)

// mustFind returns a record by its id.
func mustFind[T any](things *table[*T], kind, id string) *T {
	thing := things.get(id)
	if thing == nil {
		rules.FailNotFound(kind, id)
	}
	return thing
}

// recordID returns the id of a new record: the requested one, or a fresh one.
func (t *tx) recordID(asked *string, prefix string) string {
	if asked == nil {
		return t.newID(prefix)
	}
	rules.MustBeName("id", *asked)
	return *asked
}

// nonBlankID is recordID for records whose id must not be blank.
func (t *tx) nonBlankID(asked *string, prefix string) string {
	id := t.recordID(asked, prefix)
	if strings.TrimSpace(id) == "" {
		rules.FailInvalid("id must not be empty")
	}
	return id
}
