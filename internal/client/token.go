package client

import (
	"errors"
	"strings"
)

// ParseToken returns a bearer token without the white space around it, such as the line break at the end of a file. The
// error says what a token can't hold.
func ParseToken(s string) (string, error) {
	token := strings.TrimSpace(s)
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return "", errors.New("bad token: it must be one word of printable ASCII characters, without a space or a line break inside")
		}
	}
	return token, nil
}
