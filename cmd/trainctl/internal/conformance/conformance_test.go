package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Options keep their types on the way to the other process.
func TestRequestRoundTrip(t *testing.T) {
	want := Request{Plugin: "./mine", Kind: "dataset", Options: map[string]any{"n": int64(3), "rate": 0.5, "shape": []any{int64(1), int64(28)}}, Quick: true, Timeout: time.Minute, Call: time.Second}
	got, err := Parse(want.String())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// The output of a suite with a passing, a failing and a skipped check.
func TestReaderReportsChecks(t *testing.T) {
	var out strings.Builder
	r := &Report{out: &out}
	s := newReader(r)
	for line := range strings.SplitSeq("=== RUN   Suite\n=== RUN   Suite/open\n--- PASS: Suite/open (0.10s)\n"+
		"=== RUN   Suite/two_ranks\n=== RUN   Suite/two_ranks/sum\n=== NAME  Suite/two_ranks/sum\nwrong sum\n--- FAIL: Suite/two_ranks/sum (0.20s)\n"+
		"=== RUN   Suite/two_ranks/max\n=== NAME  Suite/two_ranks/max\nnot offered\n--- SKIP: Suite/two_ranks/max (0.00s)\n--- FAIL: Suite/two_ranks (0.20s)\n--- FAIL: Suite (0.30s)", "\n") {
		if strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			line = mark + line
		}
		s.line(line)
	}
	want := &Report{Passed: 1, Failed: 1, Skipped: 1, Checks: []Check{
		{Name: "open", Status: "pass", Seconds: 0.1},
		{Name: "two ranks/sum", Status: "fail", Seconds: 0.2, Output: "wrong sum"},
		{Name: "two ranks/max", Status: "skip", Output: "not offered"},
	}}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreUnexported(Report{})); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(out.String(), "wrong sum") || strings.Count(out.String(), "\n") < 3 {
		t.Errorf("printed:\n%s", out.String())
	}
	if err := s.ended(nil, ""); err != nil {
		t.Error(err)
	}
}
