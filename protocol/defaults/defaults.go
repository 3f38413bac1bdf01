// Package defaults sets the defaults of Options.
//
// A field has its default in a tag: default:"30s" applies to the zero value, and positive:"30s"
// also to negative values. Numbers may be written with a shift, such as 64<<20. The tags flag and
// usage, which cmd/internal/program reads, make a field a setting of a program. So each setting
// is named, described and given its default in one place.
//
// Guarantee: a value that was set is never changed.
package defaults

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Of returns a copy of the options with the defaults of its tags. A nil pointer means that no
// option is set.
func Of[T any](options *T) T {
	var out T
	if options != nil {
		out = *options
	}
	fill(reflect.ValueOf(&out).Elem())
	return out
}

// fill sets the fields of a struct and its nested structs.
func fill(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for field, at := range v.Fields() {
		if text, ok := Text(field.Tag); !ok && field.IsExported() {
			fill(at)
		} else if _, positive := field.Tag.Lookup("positive"); ok && (at.IsZero() || positive && negative(at)) {
			Parse(at, text)
		}
	}
}

func negative(v reflect.Value) bool {
	return v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0
}

// Text returns the default in the tag of a field, and whether it has one.
func Text(tag reflect.StructTag) (text string, ok bool) {
	if text, ok = tag.Lookup("default"); ok {
		return text, true
	}
	return tag.Lookup("positive")
}

// Parse sets a field to the value in a tag. It panics if the tag is invalid.
func Parse(field reflect.Value, text string) {
	var err error
	switch {
	case field.Type() == reflect.TypeFor[time.Duration]():
		var d time.Duration
		d, err = time.ParseDuration(text)
		field.SetInt(int64(d))
	case field.Kind() == reflect.String:
		field.SetString(text)
	case field.CanInt():
		digits, shift, _ := strings.Cut(text, "<<")
		var n, by int64
		if n, err = strconv.ParseInt(digits, 10, 64); err == nil && shift != "" {
			by, err = strconv.ParseInt(shift, 10, 64)
		}
		field.SetInt(n << by)
	default:
		err = fmt.Errorf("a %s has no defaults", field.Type())
	}
	if err != nil {
		panic(fmt.Sprintf("the default %q of a field: %v", text, err))
	}
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

// Log sets a nil logger to one that discards its messages.
func Log(field **zerolog.Logger) {
	if *field == nil {
		nop := zerolog.Nop()
		*field = &nop
	}
}
