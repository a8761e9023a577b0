package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
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

// A screen is where text for people goes. It is coloured on a terminal, unless NO_COLOR says otherwise.
type screen struct {
	io.Writer
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

func (s screen) paint(p paint, text string) string {
	if !s.colour || p == plain || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
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
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(s.paint(c.paint, c.text))
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		}
		if _, err := fmt.Fprintln(s, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
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
