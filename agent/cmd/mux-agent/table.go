package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sonic-mux/terraform-provider-mux/internal/api"
)

// A paint colours text for a terminal (ECMA-48, select graphic rendition).
type paint string

const (
	plain  paint = ""
	bold   paint = "1"
	faint  paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	blue   paint = "34"
	purple paint = "35"
)

// A screen is where text for people goes, and the one way to a terminal. What comes from an agent, a switch or a file is
// made printable on the way. It is coloured on a terminal, unless NO_COLOR says otherwise.
type screen struct {
	out    io.Writer
	colour bool
}

func newScreen(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return screen{w, false}
	}
	info, err := f.Stat()
	return screen{w, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// painted is text that is printable already, but for our own colours.
type painted string

func (s screen) paint(p paint, text string) painted {
	text = api.Printable(text)
	if !s.colour || p == plain || text == "" {
		return painted(text)
	}
	return painted("\x1b[" + string(p) + "m" + text + "\x1b[0m")
}

// note prints a text with a title, in lines that fit a terminal.
func (s screen) note(p paint, title, text string) {
	title = api.Printable(title)
	_ = s.printf("%s %s\n", s.paint(p, title), painted(wrap(text, utf8.RuneCountInString(title)+1)))
}

// printf writes as fmt.Fprintf does. The format is ours; each argument that isn't a number or painted is made printable.
func (s screen) printf(format string, args ...any) error {
	for i, arg := range args {
		switch arg.(type) {
		case painted, int, int64, uint64, float64:
		default:
			args[i] = api.Printable(fmt.Sprint(arg))
		}
	}
	_, err := fmt.Fprintf(s.out, format, args...)
	return err
}

// json writes a value as the API would, but for people: indented where indent is not "". What a terminal would act on is
// escaped, so that programs read what was sent.
func (s screen) json(v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	safe := make([]byte, 0, text.Len())
	for _, r := range text.String() {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			safe = utf8.AppendRune(safe, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			safe = fmt.Appendf(safe, `\u%04x\u%04x`, high, low)
		default:
			safe = fmt.Appendf(safe, `\u%04x`, r)
		}
	}
	_, err := s.out.Write(safe)
	return err
}

// A cell is one field of a table.
type cell struct {
	text  string
	paint paint
}

// table writes rows in columns that are as wide as their longest text.
func (s screen) table(rows [][]cell) error {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			c.text = api.Printable(c.text)
			row[i] = c
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(string(s.paint(c.paint, c.text)))
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		}
		if err := s.printf("%s\n", painted(strings.TrimRight(line.String(), " "))); err != nil {
			return err
		}
	}
	return nil
}

// columns is how wide a terminal is taken to be: what the tables of status and history fit, and -o wide does not.
const columns = 80

// fit cuts the texts of some columns, so that rows fit a terminal: always the widest of them first.
func fit(rows [][]cell, flexible ...int) [][]cell {
	widths := make([]int, len(rows[0]))
	sum := 2 * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			row[i].text = api.Printable(row[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
		sum += widths[i]
	}
	for ; sum > columns; sum-- {
		widest := flexible[0]
		for _, i := range flexible {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 1 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for _, i := range flexible {
			if text := []rune(row[i].text); len(text) > widths[i] {
				row[i].text = string(text[:widths[i]-1]) + "…"
			}
		}
	}
	return rows
}

// wrap breaks a text at blanks into lines that fit a terminal; those behind the first are indented. The first one has room for
// less, as something stands before it.
func wrap(text string, before int) string {
	var lines strings.Builder
	at := before
	for i, word := range strings.Fields(api.Printable(text)) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			at += n
		case at+1+n > columns:
			lines.WriteString("\n  ")
			at = 2 + n
		default:
			lines.WriteString(" ")
			at += 1 + n
		}
		lines.WriteString(word)
	}
	return lines.String()
}

// header is the first row of a table.
func header(names ...string) []cell {
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = cell{name, faint}
	}
	return row
}

// sidePaint gives each side its colour, the same as on the page.
func sidePaint(side string) paint {
	if strings.HasPrefix(side, "upper") {
		return blue
	}
	return yellow
}

// ago writes how long something is past, in its largest unit.
func ago(t time.Time) string {
	d := max(time.Since(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}
