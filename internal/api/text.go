package api

import (
	"strings"
	"unicode"
)

// Printable makes text from somewhere else safe for a terminal and for a line of its own: what would move the cursor, turn
// text around, or is not UTF-8 becomes U+FFFD, and what would begin a new line a space.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
