package agent

import (
	"io"
	"log/slog"
	"strings"
	"unicode"
)

// Formats of the log.
const (
	LogText = "text" // key=value
	LogJSON = "json" // an object a line
)

// NewLogHandler writes records to w. Whatever clients send, each is one line, and nothing in it moves a terminal's cursor
// or turns text around: the text format quotes such characters, and in JSON, which allows some of them, they are replaced.
func NewLogHandler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if format != LogJSON {
		return slog.NewTextHandler(w, opts)
	}
	opts.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(printable(v))
		case error:
			a.Value = slog.StringValue(printable(v.Error()))
		}
		return a
	}
	return slog.NewJSONHandler(w, opts)
}

// printable replaces what JSON passes through although a terminal acts on it. ASCII's own controls are escaped there.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
