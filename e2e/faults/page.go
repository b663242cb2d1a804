//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// faultPage is docs/faults.md around its table.
const faultPage = `# Faults

What happens when something breaks: %d cases, each run against the built program with real processes, signals, networks and disks.
This page is written by the command that runs them:

` + "```" + `
go run ./e2e/faults                                # all cases, ten to twenty minutes on two cores
go run ./e2e/faults -only 7,13,44-48 -v            # some, with what failed ones logged
go run ./e2e/faults -json faults.json -markdown docs/faults.md
` + "```" + `

The command builds trainctl, works in a mount namespace and a temporary directory of its own, and ends with 1 when a case failed. Every case has a time limit,
and after each one no process, mount, network namespace, cgroup, shared memory or temporary file may be left: that is part of the case. A case is skipped, with
the reason, where the machine lacks something, such as the rights of root for network namespaces. "What happened" is what was seen in that run; seconds are
the whole case with all its runs, not the time until the fault was noticed. The cases are in ` + "`e2e/faults/cases_*.go`" + `.

%s, %s, trainctl %s: **%s**.

| # | fault | promise | what happened | s | outcome |
|---|---|---|---|---|---|
`

func (r *faultReport) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, faultPage, len(r.Outcomes), r.Date.Format("2 January 2006"), r.Machine, r.Version, r.total())
	for _, o := range r.Outcomes {
		text := o.Happened
		if o.Reason != "" {
			text = strings.TrimPrefix(text+"; "+o.Reason, "; ")
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %.1f | %s |\n", o.Case, cell(o.Fault), cell(o.Promise), cell(text), o.Seconds, o.Outcome)
	}
	return b.String()
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

func machineLine() string {
	var model string
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = ", " + strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s/%s with %d cores%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model)
}

// versionLine is the commit that was built.
func versionLine() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "of an unknown commit"
	}
	return strings.TrimSpace(string(out))
}
