package attention

import (
	"regexp"
	"sync"
)

// A pattern is a regular expression that is compiled when it is first used. There are too many of
// them to compile at the start of each process that imports this package.
type pattern func() *regexp.Regexp

func compiled(source string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}

// begins returns a pattern for the beginning of a text, ignoring case.
func begins(source string) pattern { return compiled(`(?is)\A(?:` + source + `)`) }

// ends returns a pattern for the first end of a part.
func ends(source string) pattern { return compiled(`(?is)` + source) }
