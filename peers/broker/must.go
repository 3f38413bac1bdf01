package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits of a request, in bytes or items.
const (
	maxName  = 256
	maxTitle = 4 << 10
	maxText  = 256 << 10 // of a message, an answer or an invocation, as JSON
	maxList  = 1000
)

// An abort is the value with which a method panics to end early, with a refusal or a database
// error. So a check is a statement, and the code below it can rely on it.
type abort struct{ err error }

// attempt runs a part of a decision. It returns the error that ended it: a refusal, a database
// error, or an internalError if the program failed.
func attempt(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case abort:
			err = p.err
		default:
			err = &internalError{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	do()
	return nil
}

// An internalError is a failure of the program while it decides one job.
type internalError struct{ error }

func (m *internalError) Unwrap() error { return m.error }

// must ends the method if err is not nil.
func must(err error) {
	if err != nil {
		panic(abort{err})
	}
}

// fail ends the method and refuses its request.
func fail(code collab.Code, format string, args ...any) {
	must(collab.Refuse(code, format, args...))
}

// failWithDetails is fail with details for programs.
func failWithDetails(details any, code collab.Code, format string, args ...any) {
	e := collab.Refuse(code, format, args...)
	e.Details = details
	must(e)
}

func failInvalid(format string, args ...any) { fail(collab.CodeInvalid, format, args...) }

// failNotFound refuses a request for a record that does not exist.
func failNotFound(kind, id string) { fail(collab.CodeNotFound, "there is no %s %q", kind, id) }

// mustFind returns a record by its id.
func mustFind[T any](things *table[*T], kind, id string) *T {
	thing := things.get(id)
	if thing == nil {
		failNotFound(kind, id)
	}
	return thing
}

// recordID returns the id of a new record: the requested one, or a fresh one.
func (t *tx) recordID(asked *string, prefix string) string {
	if asked == nil {
		return t.newID(prefix)
	}
	mustBeName("id", *asked)
	return *asked
}

// nonBlankID is recordID for records whose id must not be blank.
func (t *tx) nonBlankID(asked *string, prefix string) string {
	id := t.recordID(asked, prefix)
	if strings.TrimSpace(id) == "" {
		failInvalid("id must not be empty")
	}
	return id
}

// mustBeName refuses names and ids that are too long or contain control characters. It allows
// empty ones.
func mustBeName(what, s string) {
	if len(s) > maxName {
		failInvalid("%s is %d bytes long; at most %d are allowed", what, len(s), maxName)
	}
	if !text.IsCleanName(s) {
		failInvalid("%s must not contain control or invisible characters", what)
	}
}

// mustBeNames is mustBeName for several, in pairs of description and value.
func mustBeNames(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		mustBeName(pair[0], pair[1])
	}
}

// mustBeTexts is mustBeText for a list of at most so many names. tooMany is the message for a
// longer list.
func mustBeTexts(what string, names []string, most int, tooMany string) {
	if len(names) > most {
		failInvalid(tooMany, most)
	}
	for _, name := range names {
		mustBeText(what, name, maxName)
	}
}

// mustBeText refuses texts that are empty or too long.
func mustBeText(what, s string, limit int) {
	if strings.TrimSpace(s) == "" {
		failInvalid("%s is required", what)
	}
	mustFit(what, s, limit)
}

func mustFit(what, s string, limit int) {
	if raw := mustEncode(s); len(raw) > limit {
		failInvalid("%s is %d bytes long; at most %d are allowed", what, len(raw), limit)
	}
}

// mustEncode returns a value as JSON.
func mustEncode(v any) json.RawMessage {
	raw, err := collab.Encode(v)
	if err != nil {
		must(&internalError{err})
	}
	return raw
}

func mustBeOneOf[S ~string](what string, s S, allowed ...S) {
	if !slices.Contains(allowed, s) {
		failInvalid("%s %q is not one of %s", what, text.Clip(string(s), 40), joined(allowed))
	}
}

// joined returns a list of values for an error message.
func joined[S ~string](values []S) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return strings.Join(all, ", ")
}

// mustBeDuration converts milliseconds to a duration. Zero means the default.
func mustBeDuration(ms int64, what string, def, limit time.Duration) time.Duration {
	if ms < 0 || ms > limit.Milliseconds() {
		failInvalid("%s must be between 1 and %d milliseconds", what, limit.Milliseconds())
	}
	return cmp.Or(time.Duration(ms)*time.Millisecond, def)
}
