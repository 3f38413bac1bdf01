package program

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"hubbub/protocol/defaults"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for each field with the tag flag of the structs at settings, including
// those of nested structs, in the order of the fields. The tag usage describes the flag. Its
// default is the value of the field or, if that is zero, the one in the tag default or positive
// (see package defaults). A list has a flag that may be repeated; with flag:"NAME,split" each
// value may have several members, separated by commas.
func AddFlags(fs *pflag.FlagSet, settings ...any) {
	for flag := range flagsOf(settings) {
		if text, ok := defaults.Text(flag.tag); ok && flag.at.IsZero() {
			defaults.Parse(flag.at, text)
		}
		flag.add(fs)
	}
}

// FlagNames returns the names of the flags that AddFlags adds.
func FlagNames(settings ...any) (names []string) {
	for flag := range flagsOf(settings) {
		names = append(names, flag.name())
	}
	return names
}

// CheckBounds refuses negative numbers and times, and zero in a field with the tag positive.
func CheckBounds(settings ...any) error {
	for flag := range flagsOf(settings) {
		_, positive := flag.tag.Lookup("positive")
		switch {
		case !flag.at.CanInt() || flag.at.Int() > 0 || flag.at.Int() == 0 && !positive:
		case !positive:
			return Usage("--%s must not be negative", flag.name())
		case flag.at.Type() == reflect.TypeFor[time.Duration]():
			return Usage("--%s must be longer than 0s, such as 30s", flag.name())
		default:
			return Usage("--%s must be at least 1", flag.name())
		}
	}
	return nil
}

// A taggedField is a field with the tag flag.
type taggedField struct {
	tag reflect.StructTag
	at  reflect.Value
}

func (f taggedField) name() string {
	name, _, _ := strings.Cut(f.tag.Get("flag"), ",")
	return name
}

// flagsOf yields the fields with the tag flag of the structs at settings.
func flagsOf(settings []any) iter.Seq[taggedField] {
	return func(yield func(taggedField) bool) {
		for _, s := range settings {
			if !eachFlag(reflect.ValueOf(s).Elem(), yield) {
				return
			}
		}
	}
}

func eachFlag(v reflect.Value, yield func(taggedField) bool) bool {
	for field, at := range v.Fields() {
		if at.Kind() == reflect.Pointer && !at.IsNil() {
			at = at.Elem()
		}
		if _, ok := field.Tag.Lookup("flag"); ok {
			if !yield(taggedField{field.Tag, at}) {
				return false
			}
		} else if at.Kind() == reflect.Struct && field.IsExported() && !eachFlag(at, yield) {
			return false
		}
	}
	return true
}

// add adds the flag to a set.
func (f taggedField) add(fs *pflag.FlagSet) {
	at, name, usage := f.at, f.name(), f.tag.Get("usage")
	to := at.Addr().Interface()
	if at.Kind() == reflect.Int64 && at.Type() != reflect.TypeFor[time.Duration]() {
		to = at.Addr().Convert(reflect.TypeFor[*int64]()).Interface()
	}
	switch to := to.(type) {
	case *string:
		fs.StringVar(to, name, *to, usage)
	case *bool:
		fs.BoolVar(to, name, *to, usage)
	case *int:
		fs.IntVar(to, name, *to, usage)
	case *int64:
		fs.Int64Var(to, name, *to, usage)
	case *time.Duration:
		fs.DurationVar(to, name, *to, usage)
	case *[]int64:
		fs.Int64SliceVar(to, name, *to, usage)
	case *[]string:
		if strings.HasSuffix(f.tag.Get("flag"), ",split") {
			fs.StringSliceVar(to, name, *to, usage)
		} else {
			fs.StringArrayVar(to, name, *to, usage)
		}
	default:
		panic(fmt.Sprintf("the setting --%s has the type %s, which flags do not support", name, at.Type()))
	}
}
