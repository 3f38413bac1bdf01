package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits on what a request may bring, in bytes or counted.
const (
	maxName  = 256
	maxTitle = 4 << 10
	maxText  = 256 << 10 // of a message, an answer, an invocation, as JSON
	maxList  = 1000
)

// An ended is what a method panics with to end before its result: with a refusal, or with
// an error of the database. So a check is a statement, and what stands below it holds.
type ended struct{ err error }

// attempt runs a part of a decision, and returns the error that ended it: a refusal, one
// of the database, or a mistake if the program failed.
func attempt(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ended:
			err = p.err
		default:
			err = &mistake{fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	do()
	return nil
}

// A mistake is an error of the program in deciding one job.
type mistake struct{ error }

func (m *mistake) Unwrap() error { return m.error }

// check ends the method if err is not nil.
func check(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// refuse ends the method, and refuses its request.
func refuse(code collab.Code, format string, args ...any) {
	check(collab.Refuse(code, format, args...))
}

// refuseWith is refuse with details for programs.
func refuseWith(details any, code collab.Code, format string, args ...any) {
	e := collab.Refuse(code, format, args...)
	e.Details = details
	check(e)
}

func invalid(format string, args ...any) { refuse(collab.CodeInvalid, format, args...) }

// notFound refuses a request for a record that does not exist.
func notFound(kind, id string) { refuse(collab.CodeNotFound, "there is no %s %q", kind, id) }

// known returns a record by its id, and refuses one that there is not.
func known[T any](things *shelf[*T], kind, id string) *T {
	thing := things.get(id)
	if thing == nil {
		notFound(kind, id)
	}
	return thing
}

// newID returns the id that a record gets: the one asked for, or a fresh one.
func (t *tx) newID(asked *string, prefix string) string {
	if asked == nil {
		return t.mint(prefix)
	}
	checkName("id", *asked)
	return *asked
}

// filledID is newID for records whose id must not be blank.
func (t *tx) filledID(asked *string, prefix string) string {
	id := t.newID(asked, prefix)
	if strings.TrimSpace(id) == "" {
		invalid("id must not be empty")
	}
	return id
}

// checkName refuses names and ids that are too long or hold control characters.
// Whether they may be empty is for others to say.
func checkName(what, s string) {
	if len(s) > maxName {
		invalid("%s is %d bytes long; at most %d are allowed", what, len(s), maxName)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return text.IsInvisible(r) || r == utf8.RuneError }) {
		invalid("%s must not contain control characters or others that nobody sees", what)
	}
}

// checkNames is checkName for several, in pairs of what and value.
func checkNames(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		checkName(pair[0], pair[1])
	}
}

// checkEach is checkText for a list of at most so many names; tooMany is what is said
// of more.
func checkEach(what string, names []string, most int, tooMany string) {
	if len(names) > most {
		invalid(tooMany, most)
	}
	for _, name := range names {
		checkText(what, name, maxName)
	}
}

// checkText refuses texts that are empty or too long.
func checkText(what, s string, limit int) {
	if strings.TrimSpace(s) == "" {
		invalid("%s is required", what)
	}
	checkLength(what, s, limit)
}

func checkLength(what, s string, limit int) {
	if raw := encode(s); len(raw) > limit {
		invalid("%s is %d bytes long; at most %d are allowed", what, len(raw), limit)
	}
}

// encode writes a value as JSON, which every value of the broker has.
func encode(v any) json.RawMessage {
	raw, err := collab.Encode(v)
	if err != nil {
		check(&mistake{err})
	}
	return raw
}

func checkOneOf[S ~string](what string, s S, allowed ...S) {
	if !slices.Contains(allowed, s) {
		invalid("%s %q is not one of %s", what, text.Clip(string(s), 40), listed(allowed))
	}
}

// listed writes the values that there are, for an error.
func listed[S ~string](values []S) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return strings.Join(all, ", ")
}

// duration reads a number of milliseconds; zero means the default.
func duration(ms int64, what string, def, limit time.Duration) time.Duration {
	if ms < 0 || ms > limit.Milliseconds() {
		invalid("%s must be between 1 and %d milliseconds", what, limit.Milliseconds())
	}
	return cmp.Or(time.Duration(ms)*time.Millisecond, def)
}
