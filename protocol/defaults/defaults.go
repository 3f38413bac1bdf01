// Package defaults fills in what the Options of a package leave out.
//
// Guarantee: a setting that somebody made is never changed.
package defaults

import (
	"reflect"
	"time"

	"github.com/rs/zerolog"
)

// Of returns a copy of the options; a nil pointer stands for none set.
func Of[T any](options *T) T {
	if options == nil {
		return *new(T)
	}
	return *options
}

// Set sets a field that has its zero value.
func Set[T any](field *T, value T) {
	if reflect.ValueOf(field).Elem().IsZero() {
		*field = value
	}
}

// Positive sets a field that is zero or negative.
func Positive[T int | int64 | float64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Log sets a field without a log to one that writes nothing.
func Log(field **zerolog.Logger) {
	if *field == nil {
		nop := zerolog.Nop()
		*field = &nop
	}
}
