//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// outcome is how a case went.
type outcome struct {
	Case     int     `json:"case"`
	Fault    string  `json:"fault"`
	Promise  string  `json:"promise"`
	Happened string  `json:"happened"`
	Seconds  float64 `json:"seconds"`
	Outcome  string  `json:"outcome"`          // "passed", "failed" or "skipped"
	Reason   string  `json:"reason,omitempty"` // of a failure or of skipping
	Log      string  `json:"log,omitempty"`    // of a failure
}

// faultReport is the file that -json writes.
type faultReport struct {
	Schema   int       `json:"schema"`
	Date     time.Time `json:"date"`
	Machine  string    `json:"machine"`
	Version  string    `json:"version"`
	Seconds  float64   `json:"seconds"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Outcomes []outcome `json:"cases"`
}

func (r *faultReport) add(o outcome) {
	r.Outcomes = append(r.Outcomes, o)
	switch o.Outcome {
	case "passed":
		r.Passed++
	case "failed":
		r.Failed++
	default:
		r.Skipped++
	}
}

func (r *faultReport) total() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
}

func (o outcome) print(w io.Writer, verbose bool) {
	text := o.Happened
	if o.Reason != "" {
		text = o.Reason
		if o.Outcome == "failed" && o.Happened != "" {
			text += " (" + o.Happened + ")"
		}
	}
	fmt.Fprintf(w, "%4d  %-44s %8.1f  %s: %s\n", o.Case, o.Fault, o.Seconds, o.Outcome, text)
	if verbose && o.Log != "" {
		fmt.Fprintln(w, indent(o.Log))
	}
}

func indent(text string) string {
	return "      | " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      | ")
}

func (r *faultReport) write(o faultOptions) error {
	if o.json != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.markdown != "" {
		return os.WriteFile(o.markdown, []byte(r.markdown()), 0o644)
	}
	return nil
}
