package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// DescribeTypeError explains in the sender's terms why json.Unmarshal refused a value. what names
// the value.
func DescribeTypeError(what string, err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return what + " cannot be read: " + err.Error()
	}
	name := what
	for part := range strings.SplitSeq(wrong.Field, ".") {
		if part != "" && strings.ToLower(part[:1]) == part[:1] { // other names are embedded Go types
			name += "." + part
		}
	}
	kind := wrong.Type.Kind()
	if kind == reflect.Pointer {
		kind = wrong.Type.Elem().Kind()
	}
	want := "an object"
	switch kind { //nolint:exhaustive // nothing is decoded into the others
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "an array"
	case reflect.Int, reflect.Int64, reflect.Float64:
		want = "a number"
	}
	given, _, _ := strings.Cut(wrong.Value, " ") // the value of a number includes its digits
	return fmt.Sprintf("%s must be %s, not %s", name, want, given)
}
