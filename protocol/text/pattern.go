package text

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles a regular expression once, when it is first called.
// A program that never needs the pattern has neither its memory nor its start-up time.
func Pattern(source string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}
