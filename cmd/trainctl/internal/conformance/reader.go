package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// reader parses the output of package testing with -test.v=test2json: control
// lines begin with a mark, and name the test that the lines after them belong to.
type reader struct {
	report  *Report
	now     string                      // the test that prints
	output  map[string]*strings.Builder // by test
	parents map[string]bool             // tests with subtests
	group   []Check                     // of the current group
}

const mark = "\x16"

func newReader(t *Report) *reader {
	return &reader{report: t, output: map[string]*strings.Builder{}, parents: map[string]bool{}}
}

func (s *reader) line(text string) {
	control, ok := strings.CutPrefix(text, mark)
	if !ok {
		if s.now != "" && text != "" {
			s.of(s.now).WriteString(text + "\n")
		}
		return
	}
	word, rest, _ := strings.Cut(strings.TrimPrefix(control, "=== "), " ")
	switch verdict, isVerdict := strings.CutPrefix(control, "--- "); {
	case isVerdict:
		s.verdict(verdict)
	case word == "RUN" || word == "NAME" || word == "CONT" || word == "PAUSE":
		s.now = strings.TrimSpace(rest)
		for p := parentTest(s.now); p != "" && !s.parents[p]; p = parentTest(p) {
			s.parents[p] = true
		}
	}
}

func (s *reader) of(test string) *strings.Builder {
	if s.output[test] == nil {
		s.output[test] = &strings.Builder{}
	}
	return s.output[test]
}

func parentTest(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}

// verdict reads "PASS: Suite/2_ranks/arena (0.12s)".
func (s *reader) verdict(text string) {
	status, rest, _ := strings.Cut(text, ": ")
	i := strings.LastIndex(rest, " (")
	if i < 0 {
		return
	}
	name := rest[:i]
	seconds, _ := strconv.ParseFloat(strings.TrimSuffix(rest[i+2:], "s)"), 64) // 0 if it says something else
	s.now = name
	s.add(name, strings.ToLower(status), seconds)
}

// add records a check. A group is a test directly below the suite; a test with
// subtests counts only if it failed itself.
func (s *reader) add(name, status string, seconds float64) {
	own := strings.TrimSpace(s.of(name).String())
	if !s.parents[name] || status == "fail" && own != "" {
		c := Check{Name: checkName(name), Status: status, Seconds: seconds}
		if status != "pass" {
			c.Output = own
		}
		s.count(c)
	}
	if parentTest(name) == suiteName {
		s.report.group(checkName(name), status, seconds, s.group)
		s.group = nil
	}
}

func (s *reader) count(c Check) {
	switch c.Status {
	case "pass":
		s.report.Passed++
	case "skip":
		s.report.Skipped++
	default:
		s.report.Failed++
	}
	s.report.Checks = append(s.report.Checks, c)
	s.group = append(s.group, c)
}

// checkName reverses package testing's rewriting of names.
func checkName(test string) string {
	return strings.ReplaceAll(strings.TrimPrefix(test, suiteName+"/"), "_", " ")
}

// ended compares the exit of the process with its output: if the suite panicked or
// timed out, the error names the test that was running.
func (s *reader) ended(err error, stderr string) error {
	if err == nil || s.report.Failed > 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(s.of(s.now).String()+stderr), "\n")
	return fmt.Errorf("%w (%v) in %q: %s", errSuite, err, checkName(s.now), strings.Join(lines[:min(len(lines), 12)], "\n"))
}
