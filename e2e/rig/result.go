package rig

import (
	"regexp"
	"strings"
	"time"
)

// Result is the exit code and output of a trainctl.
type Result struct {
	Code           int // minus the signal's number for a signal
	Stdout, Stderr string
	Took           time.Duration
}

// Since returns the time from an instant to the end of the run of r0.
func (r Result) Since(r0 *Proc, at time.Time) time.Duration { return r0.Began.Add(r.Took).Sub(at) }

// Expect asserts the exit code.
func (r Result) Expect(t TB, code int) Result {
	t.Helper()
	if r.Code != code {
		t.Fatalf("exit code %d, want %d; standard error:\n%s\nand standard output:\n%s", r.Code, code, r.Stderr, r.Stdout)
	}
	return r
}

// Prints asserts that standard error contains all of the texts.
func (r Result) Prints(t TB, texts ...string) Result {
	t.Helper()
	for _, s := range texts {
		if !strings.Contains(r.Stderr, s) {
			t.Errorf("standard error does not contain %q:\n%s", s, r.Stderr)
		}
	}
	return r
}

// OneFailureBlock asserts that the failure is shown in one block of text, which does
// not refer to commands that would show more.
func (r Result) OneFailureBlock(t TB) Result {
	t.Helper()
	if n := strings.Count(r.Stderr, " FAILED"); n != 1 {
		t.Errorf("%d failure blocks:\n%s", n, r.Stderr)
	}
	told := strings.ReplaceAll(r.Stderr, "trainctl doctor --run", "") // of a plugin that hangs: that shows where it stands
	for _, no := range []string{"trainctl logs", "trainctl doctor", "goroutine "} {
		if strings.Contains(told, no) {
			t.Errorf("standard error mentions %q:\n%s", no, r.Stderr)
		}
	}
	return r
}

// Soon asserts that the run ended because it noticed what had happened, not because a deadline had passed:
// those of Unhurried are minutes. A busy machine may take half a minute for what takes a second on an idle one.
func (r Result) Soon(t TB) Result {
	t.Helper()
	return r.Within(t, 30*time.Second)
}

// Within asserts that the run ended in time.
func (r Result) Within(t TB, d time.Duration) Result {
	t.Helper()
	if r.Took > d {
		t.Errorf("it took %v, more than %v:\n%s", r.Took, d, r.Stderr)
	}
	return r
}

// Matches asserts that standard error has a match of each pattern.
func (r Result) Matches(t TB, patterns ...string) Result {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(r.Stderr) {
			t.Errorf("standard error has no match of %q:\n%s", p, r.Stderr)
		}
	}
	return r
}

// BlockPrints asserts that the one failure block holds all of the texts.
func (r Result) BlockPrints(t TB, texts ...string) Result {
	t.Helper()
	_, block, ok := strings.Cut(r.Stderr, " FAILED")
	if !ok || strings.Contains(block, " FAILED") {
		t.Errorf("there is not one failure block:\n%s", r.Stderr)
	}
	for _, s := range texts {
		if !strings.Contains(block, s) {
			t.Errorf("the failure block does not contain %q:\n%s", s, r.Stderr)
		}
	}
	return r
}
