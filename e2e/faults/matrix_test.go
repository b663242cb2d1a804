//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// The list of cases has no gap and none twice, and each says what it promises.
func TestFaultMatrixIsComplete(t *testing.T) {
	names := map[string]bool{}
	for i, f := range matrix() {
		if f.number != i+1 {
			t.Errorf("case %d follows case %d", f.number, i)
		}
		if f.name == "" || f.promise == "" || f.run == nil || names[f.name] {
			t.Errorf("case %d: %+v", f.number, f.name)
		}
		names[f.name] = true
	}
	if n := len(matrix()); n != 54 {
		t.Errorf("%d cases, want 54", n)
	}
}

func TestFaultsAreChosen(t *testing.T) {
	all := matrix()
	for only, want := range map[string][]int{"7": {7}, "13,7": {7, 13}, " 52-54 , 1": {1, 52, 53, 54}, "3,3,2-4": {2, 3, 4}} {
		chosen, err := choose(all, only)
		rig.Must(t, err)
		var got []int
		for _, f := range chosen {
			got = append(got, f.number)
		}
		if !slices.Equal(got, want) {
			t.Errorf("-only %q takes %v, want %v", only, got, want)
		}
	}
	for _, only := range []string{"0", "55", "a", "4-", "9-3", ",", "1,,2", "-1"} {
		if _, err := choose(all, only); err == nil || !strings.Contains(err.Error(), "1 to 54") {
			t.Errorf("-only %q: %v", only, err)
		}
	}
}

// What a case leaves behind, a panic, a failure and a case without an end are
// failures of only that case. It runs beside no other test, whose processes it
// would take for what a case leaves behind.
func TestTrialsFail(t *testing.T) {
	lacking := func() string { return "this machine lacks it" }
	for name, c := range map[string]struct {
		fault fault
		want  string // outcome and the beginning of the reason
	}{
		"passes":  {fault{run: func(t *trial) { t.saw("all well") }}, "passed"},
		"fails":   {fault{run: func(t *trial) { t.Fatalf("exit code %d\nand more", 3) }}, "failed exit code 3"},
		"panics":  {fault{run: func(*trial) { panic("oh") }}, "failed panic: oh"},
		"skips":   {fault{run: func(t *trial) { t.skip("no network") }}, "skipped no network"},
		"lacks":   {fault{run: func(t *trial) { t.Fatal("it ran") }, needs: []need{lacking}}, "skipped this machine lacks it"},
		"waits":   {fault{limit: 50 * time.Millisecond, run: func(t *trial) { rig.Eventually(t, "nothing", func() bool { return false }) }}, "failed waited"},
		"litters": {fault{limit: 2 * time.Second, run: func(t *trial) { rig.Must(t, exec.Command("sleep", "1000").Start()) }}, "failed left behind: process"},
		"tidies":  {fault{run: func(t *trial) { t.Cleanup(func() { t.Error("late") }) }}, "failed late"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.fault.try(t.Context(), t.TempDir())
			if got := strings.TrimSpace(o.Outcome + " " + o.Reason); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s (%s)", got, o.Log)
			}
		})
	}
}

// The command itself, on quick cases.
func TestFaultsCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exe, err := rig.Build(dir, "e2e/faults")
	rig.Must(t, err)
	results, page := filepath.Join(dir, "faults.json"), filepath.Join(dir, "faults.md")
	var out bytes.Buffer
	cmd := exec.Command(exe, "-program", rig.Program, "-only", "26,35,40", "-json", results, "-markdown", page)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	var report faultReport
	rig.Must(t, json.Unmarshal([]byte(rig.ReadFile(results)), &report))
	if report.Failed != 0 || len(report.Outcomes) != 3 || report.Outcomes[1].Case != 35 || report.Outcomes[1].Happened == "" {
		t.Errorf("%+v", report)
	}
	if text := rig.ReadFile(page); !strings.Contains(text, "| 35 | unknown, misspelt, wrong-case keys |") || !strings.Contains(text, ", 0 failed, ") {
		t.Errorf("the page:\n%s", text)
	}
	for _, args := range [][]string{{"-only", "99"}, {"-nonsense"}, {"extra"}, {"-program", "/nowhere"}} {
		cmd := exec.Command(exe, args...)
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: exit code %d", args, cmd.ProcessState.ExitCode())
		}
	}
	list, err := exec.Command(exe, "-list").Output()
	rig.Must(t, err)
	if n := strings.Count(string(list), "\n"); n != 54 {
		t.Errorf("-list has %d lines", n)
	}
}

// docs/faults.md has every case.
func TestFaultPageIsComplete(t *testing.T) {
	page := rig.ReadFile("../../docs/faults.md")
	for _, f := range matrix() {
		if !strings.Contains(page, fmt.Sprintf("\n| %d | %s | ", f.number, cell(f.name))) {
			t.Errorf("docs/faults.md has no case %d, %s: write it with go run ./e2e/faults -markdown docs/faults.md", f.number, f.name)
		}
	}
}
