package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Severity tells errors, which keep a run from starting, from warnings.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one problem and its position. Lines and columns count from 1;
// columns count characters; the end is exclusive and on the same line.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Key      string   `json:"key,omitempty"` // dotted path, such as "model.layers[2].kernel_size"
	Summary  string   `json:"summary"`
	Help     string   `json:"help,omitempty"`
	File     string   `json:"file"` // path as given, "<stdin>", or the flag or variable
	Line     int      `json:"line"`
	Col      int      `json:"column"`
	EndCol   int      `json:"end_column"`
	Snippet  string   `json:"snippet,omitempty"` // the source line; empty if the problem belongs to no line
}

// Error holds all problems of a configuration, in the order of the source.
// Extract it from Load's error with errors.As.
type Error struct {
	Diagnostics []Diagnostic // warnings too
	Causes      []error      // errors of plugins that failed when they were asked for their options
}

// Error returns the whole report as [Render] writes it.
func (e *Error) Error() string {
	var b strings.Builder
	_ = Render(&b, e.Diagnostics, false)
	return strings.TrimRight(b.String(), "\n")
}

// Unwrap makes the failures of plugins available to errors.Is and errors.As.
func (e *Error) Unwrap() []error { return e.Causes }

// Diagnostics returns the report inside an error of Load, nil when there is none.
func Diagnostics(err error) []Diagnostic {
	var e *Error
	if errors.As(err, &e) {
		return e.Diagnostics
	}
	return nil
}

// Render writes problems for people: message, position, the line with carets
// under the part in question, and what to write instead.
func Render(w io.Writer, list []Diagnostic, color bool) error {
	var b strings.Builder
	for _, d := range list {
		d.Summary, d.Help, d.Snippet = printable(d.Summary), printable(d.Help), printable(d.Snippet)
		d.render(&b, color)
	}
	if s := tally(list); s != "" {
		fmt.Fprintln(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable replaces each character of a file that a terminal would not print, but carry out.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return utf8.RuneError
		}
		return r
	}, text)
}

func (d Diagnostic) render(b *strings.Builder, color bool) {
	paint := func(code, s string) string {
		if !color {
			return s
		}
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	tint := "1;31"
	if d.Severity == SeverityWarning {
		tint = "1;33"
	}
	msg := d.Summary
	if d.Key != "" {
		msg = d.Key + ": " + msg
	}
	fmt.Fprintf(b, "%s: %s\n", paint(tint, string(d.Severity)), paint("1", msg))
	num := fmt.Sprint(d.Line)
	pad := strings.Repeat(" ", len(num))
	fmt.Fprintf(b, "%s%s %s:%d:%d\n", pad, paint("34", "-->"), d.File, d.Line, d.Col)
	if d.Snippet != "" {
		bar := paint("34", "|")
		fmt.Fprintf(b, "%s %s\n%s %s %s\n", pad, bar, paint("34", num), bar, d.Snippet)
		fmt.Fprintf(b, "%s %s %s%s\n", pad, bar, d.indent(), paint(tint, strings.Repeat("^", d.width())))
	}
	if d.Help != "" {
		fmt.Fprintf(b, "%s %s help: %s\n", pad, paint("34", "="), d.Help)
	}
	b.WriteByte('\n')
}

// indent returns the blanks before the caret: the snippet's tabs, and a space for
// every other character, so that the caret is aligned whatever the width of a tab.
func (d Diagnostic) indent() string {
	var b strings.Builder
	n := 1
	for _, r := range d.Snippet {
		if n >= d.Col {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

func (d Diagnostic) width() int {
	room := 1 + utf8.RuneCountInString(d.Snippet) - d.Col
	return max(1, min(d.EndCol-d.Col, room))
}

// RenderJSON writes the report as one JSON object for editors and CI.
func RenderJSON(w io.Writer, list []Diagnostic) error {
	if list == nil {
		list = []Diagnostic{}
	}
	errs := count(list, SeverityError)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		FormatVersion string       `json:"format_version"`
		Valid         bool         `json:"valid"`
		ErrorCount    int          `json:"error_count"`
		WarningCount  int          `json:"warning_count"`
		Diagnostics   []Diagnostic `json:"diagnostics"`
	}{"1.0", errs == 0, errs, count(list, SeverityWarning), list})
}

// tally is the last line of a report: "2 errors, 1 warning".
func tally(list []Diagnostic) string {
	var parts []string
	for _, s := range []Severity{SeverityError, SeverityWarning} {
		if n := count(list, s); n > 0 {
			parts = append(parts, plural(n, string(s)))
		}
	}
	return strings.Join(parts, ", ")
}

func count(list []Diagnostic, s Severity) (n int) {
	for _, d := range list {
		if d.Severity == s {
			n++
		}
	}
	return n
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if stem, ok := strings.CutSuffix(word, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, word)
}
