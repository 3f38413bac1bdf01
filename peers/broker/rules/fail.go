package rules

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

// FailUnroutable ends a method: the label resolves to nobody. The details include the members of
// more, which may be nil.
func FailUnroutable(code collab.Code, label, reason string, candidates []collab.Option, more any) {
	details := map[string]json.RawMessage{}
	if more != nil {
		Must(json.Unmarshal(MustEncode(more), &details))
	}
	details["askedLabel"], details["candidates"] = MustEncode(label),
		MustEncode(append([]collab.Option{}, candidates...))
	failWithDetails(details, code, "%s: %s", label, reason)
}

// Limits of a request, in bytes or items.
const (
	MaxName  = 256
	MaxTitle = 4 << 10
	MaxText  = 256 << 10 // of a message, an answer or an invocation, as JSON
	MaxList  = 1000
)

// An abort is the value with which a method panics to end early, with a refusal or a database
// error. So a check is a statement, and the code below it can rely on it.
type abort struct{ err error }

// Attempt runs a part of a decision. It returns the error that ended it: a refusal, a database
// error, or an InternalError if the program failed.
func Attempt(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case abort:
			err = p.err
		default:
			err = &InternalError{Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	do()
	return nil
}

// An InternalError is a failure of the program while it decides one job.
type InternalError struct{ Err error }

func (m *InternalError) Error() string { return m.Err.Error() }

// Unwrap returns the cause.
func (m *InternalError) Unwrap() error { return m.Err }

// Must ends the method if err is not nil.
func Must(err error) {
	if err != nil {
		panic(abort{err})
	}
}

// Fail ends the method and refuses its request.
func Fail(code collab.Code, format string, args ...any) {
	Must(collab.Refuse(code, format, args...))
}

// failWithDetails is Fail with details for programs.
func failWithDetails(details any, code collab.Code, format string, args ...any) {
	e := collab.Refuse(code, format, args...)
	e.Details = details
	Must(e)
}

// FailInvalid refuses invalid params.
func FailInvalid(format string, args ...any) { Fail(collab.CodeInvalid, format, args...) }

// FailNotFound refuses a request for a record that does not exist.
func FailNotFound(kind, id string) { Fail(collab.CodeNotFound, "there is no %s %q", kind, id) }

// MustBeName refuses names and ids that are too long or not clean. It allows
// empty ones.
func MustBeName(what, s string) {
	if len(s) > MaxName {
		FailInvalid("%s is %d bytes long; at most %d are allowed", what, len(s), MaxName)
	}
	if !text.IsCleanName(s) {
		FailInvalid("%s must be %s", what, text.NameRule)
	}
}

// MustBeNames is MustBeName for several names, in pairs of description and
// value.
func MustBeNames(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		MustBeName(pair[0], pair[1])
	}
}

// MustBeTexts is MustBeText for each of a list of names. It refuses a list of more than most names
// with the message tooMany, a format for that number.
func MustBeTexts(what string, names []string, most int, tooMany string) {
	if len(names) > most {
		FailInvalid(tooMany, most)
	}
	for _, name := range names {
		MustBeText(what, name, MaxName)
	}
}

// MustBeText refuses texts that are empty or too long.
func MustBeText(what, s string, limit int) {
	if strings.TrimSpace(s) == "" {
		FailInvalid("%s is required", what)
	}
	MustFit(what, s, limit)
}

// MustBeGiven refuses names that are empty or have more than twice MaxName bytes, in pairs of
// description and value.
func MustBeGiven(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		MustBeText(pair[0], pair[1], 2*MaxName)
	}
}

// MustFit refuses texts whose JSON is longer than a limit.
func MustFit(what, s string, limit int) {
	if raw := MustEncode(s); len(raw) > limit {
		FailInvalid("%s is %d bytes long; at most %d are allowed", what, len(raw), limit)
	}
}

// Fitted returns a text whose JSON has at most limit bytes: s, or its beginning.
func Fitted(s string, limit int) string {
	if len(MustEncode(s)) <= limit {
		return s
	}
	return text.Clip(s, (limit-2)/6) // JSON has two quotes, and at most six bytes for a character
}

// MustEncode returns a value as JSON.
func MustEncode(v any) json.RawMessage {
	raw, err := collab.Encode(v)
	if err != nil {
		Must(&InternalError{Err: err})
	}
	return raw
}

// MustBeOneOf refuses values other than the allowed ones.
func MustBeOneOf[S ~string](what string, s S, allowed ...S) {
	if !slices.Contains(allowed, s) {
		FailInvalid("%s %q is not one of %s", what, text.Clip(string(s), 40), joined(allowed))
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

// MustBeDuration converts milliseconds to a duration. Zero means the default.
func MustBeDuration(ms int64, what string, def, limit time.Duration) time.Duration {
	if ms < 0 || ms > limit.Milliseconds() {
		FailInvalid("%s must be between 1 and %d milliseconds", what, limit.Milliseconds())
	}
	return cmp.Or(time.Duration(ms)*time.Millisecond, def)
}

// IsUnroutable reports whether a code means that somebody could not be woken, although a message
// may be stored. Outcomes of this kind have the same names as codes.
func IsUnroutable(code collab.Code) bool {
	return code == collab.CodeUnknownTarget || code == collab.CodeAmbiguous || code == collab.CodeUnavailable
}
