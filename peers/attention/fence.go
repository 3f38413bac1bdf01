package attention

import (
	"regexp"
	"strings"
)

// What a fence is made of: characters that nobody can guess, and a check of them.
const (
	fenceDrawn = 12
	fenceCheck = 4
	fenceChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Fence returns the fence of a prompt for characters that were drawn, such as those of
// rand.Text, at least 12. Answer knows it again in what a model writes.
func Fence(drawn string) string {
	return drawn[:fenceDrawn] + fenceChecksum(drawn[:fenceDrawn])
}

// fenceChecksum returns the check of drawn characters: 20 bits of a polynomial over a prime.
func fenceChecksum(drawn string) string {
	sum := uint64(5)
	for _, c := range []byte(drawn) {
		sum = (sum*257 + uint64(c)) % 1_048_573
	}
	var check strings.Builder
	for range fenceCheck {
		check.WriteByte(fenceChars[sum%32])
		sum /= 32
	}
	return check.String()
}

var (
	// fenceLine matches a line that may be a fence, with its marks, some of them or none.
	fenceLine = regexp.MustCompile(`(?m)^[ \t]*<{0,2}[A-Z2-7]{16}x*>{0,2}[ \t]*(?:\n|\z)`)
	fenceWord = regexp.MustCompile(`[A-Z2-7]{16}`)
	// fenceWithin matches what may be one within a line, with its marks.
	fenceWithin = regexp.MustCompile(`<<[A-Z2-7]{16}x*\b|\b[A-Z2-7]{16}x*>{1,2}`)

	// bareMarks matches a text that is nothing but the marks of a fence or of code.
	bareMarks = regexp.MustCompile("\\A\\s*(?:<<|>>|`{3,})\\s*\\z")
)

// withoutFences returns a text without fences that have their marks, and without the lines
// that are a fence and nothing else: "" if no other line is left.
func withoutFences(text string) string {
	without := func(fence string) string {
		if word := fenceWord.FindString(fence); fenceChecksum(word[:fenceDrawn]) == word[fenceDrawn:] {
			return ""
		}
		return fence
	}
	kept := fenceWithin.ReplaceAllStringFunc(fenceLine.ReplaceAllStringFunc(text, without), without)
	if bareMarks.MatchString(kept) {
		return ""
	}
	return kept
}
