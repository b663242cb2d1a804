package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Report is the result of the suite.
type Report struct {
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Skipped int     `json:"skipped"`
	Seconds float64 `json:"seconds"`
	Checks  []Check `json:"checks"`

	out  io.Writer // gets a line when a group has ended; may be nil
	last string    // of the failures that were printed
}

// Check is a test without subtests.
type Check struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"` // "pass", "fail" or "skip"
	Seconds float64 `json:"seconds"`
	Output  string  `json:"output,omitempty"` // of those that did not pass
}

// Run starts the command, a program that calls [Request.Main], and reads its output.
// It writes a line to out for every group of checks that has ended, unless out is nil.
func Run(cmd *exec.Cmd, out io.Writer) (*Report, error) {
	t := &Report{out: out}
	began := time.Now()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := newReader(t)
	lines := bufio.NewReader(stdout)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		s.line(strings.TrimSuffix(line, "\n"))
	}
	t.Seconds = time.Since(began).Seconds()
	return t, s.ended(cmd.Wait(), stderr.String())
}

// group prints a line for a group of the suite that has ended.
func (t *Report) group(name, status string, seconds float64, checks []Check) {
	if t.out == nil {
		return
	}
	note := ""
	if len(checks) > 1 {
		note = fmt.Sprintf("  (%d checks)", len(checks))
	}
	fmt.Fprintf(t.out, "  %s  %-38s %6.2f s%s\n", status, name, seconds, note)
	for _, c := range checks {
		if c.Status != "fail" {
			continue
		}
		if c.Name != name {
			fmt.Fprintf(t.out, "        %s\n", c.Name)
		}
		t.failure(c.Output)
	}
}

// failure prints a check's output, unless it is the same as that of the check before.
func (t *Report) failure(text string) {
	if text == t.last && text != "" {
		text = "as above"
	} else {
		t.last = text
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(t.out, "          %s\n", strings.TrimSpace(line))
	}
}

// Total writes the last line: how many checks passed, and in what time.
func (t *Report) Total(w io.Writer) error {
	_, err := fmt.Fprintf(w, "passed %d, skipped %d, failed %d in %.1f s\n", t.Passed, t.Skipped, t.Failed, t.Seconds)
	return err
}

var errSuite = errors.New("the conformance suite did not finish")
