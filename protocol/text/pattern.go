package text

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles a regular expression at its first call. A program that
// never needs the pattern saves its memory and its start-up time.
func Pattern(source string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}
