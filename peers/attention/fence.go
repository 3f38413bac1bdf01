package attention

import "strings"

// A fence consists of unpredictable characters and their checksum.
const (
	fenceDrawn = 12
	fenceCheck = 4
	fenceChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Fence returns the fence of a prompt for at least 12 random characters, such as those of
// rand.Text. VisibleText recognizes the fence in the text of a model.
func Fence(drawn string) string {
	return drawn[:fenceDrawn] + fenceChecksum(drawn[:fenceDrawn])
}

// fenceChecksum returns the checksum of random characters: 20 bits of a polynomial over a prime.
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
	// fenceLine matches a line that may be a fence, with or without its marks.
	fenceLine = compiled(`(?m)^[ \t]*<{0,2}[A-Z2-7]{16}x*>{0,2}[ \t]*(?:\n|\z)`)
	fenceWord = compiled(`[A-Z2-7]{16}`)
	// fenceWithin matches a possible fence inside a line, with its marks.
	fenceWithin = compiled(`<<[A-Z2-7]{16}x*\b|\b[A-Z2-7]{16}x*>{1,2}`)

	// bareMarks matches a text that consists of the marks of a fence or of code.
	bareMarks = compiled("\\A\\s*(?:<<|>>|`{3,})\\s*\\z")
)

// withoutFences removes fences with marks, and lines that consist of a fence. It returns "" if no
// other line is left.
func withoutFences(text string) string {
	without := func(fence string) string {
		if word := fenceWord().FindString(fence); fenceChecksum(word[:fenceDrawn]) == word[fenceDrawn:] {
			return ""
		}
		return fence
	}
	kept := fenceWithin().ReplaceAllStringFunc(fenceLine().ReplaceAllStringFunc(text, without), without)
	if bareMarks().MatchString(kept) {
		return ""
	}
	return kept
}
