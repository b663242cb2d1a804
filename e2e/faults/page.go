//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// onPurpose is the section of docs/faults.md about the table [faults].
var onPurpose = strings.ReplaceAll(`## Faults on purpose

A configuration can itself cause faults, so that users can test whether their job survives them. Each fault happens before a given step, so a repeated run
has the same faults; after a restart of the ranks no more faults happen. 'run' and 'worker' refuse such a configuration unless '--allow-faults' is given.

| fault | what happens |
|---|---|
| 'kill rank 3' | SIGKILL to the process of rank 3 |
| 'kill dataset of rank 3' | SIGKILL to that plugin; also 'backend' and 'precision' |
| 'hang backend of rank 1' | SIGSTOP to that plugin, for ever; also 'dataset' and 'precision' |
| 'delay rank 2 by 200ms' | the rank sleeps, and the others wait for it |
| 'silence node 1 for 5s' | the backend plugins of the node are stopped and continue afterwards, so that nothing is sent or read. A plugin that is silent for longer than its heartbeat allows, 10 s or half of 'backend.timeout', is killed as one that hangs |
| 'damage checkpoint' | a byte in the middle of the largest file of the newest checkpoint is inverted |
| 'fill disk', 'fill disk for 10 steps' | nothing can be written to checkpoints: the disk has no space left |

'''toml
[faults]
at = ["step 50: kill dataset of rank 1", "step 80: hang backend of rank 0"]
'''

## The matrix
`, "'", "`")

// faultPage is docs/faults.md around its table.
const faultPage = `# Faults

What happens when something breaks: %d cases, each run against the built program with real processes, signals, networks and disks.
This page is written by the command that runs them:

` + "```" + `
go run ./e2e/faults                                # all cases, ten to twenty minutes on two cores
go run ./e2e/faults -only 7,13,44-48 -v            # some, with what failed ones logged
go run ./e2e/faults -json faults.json -markdown docs/faults.md
` + "```" + `

The command builds trainctl, works in a mount namespace and a temporary directory of its own, and exits with code 1 if a case failed. Every case has a time limit,
and fails if it leaves a process, mount, network namespace, cgroup, shared memory or temporary file behind. A case is skipped, with
the reason, if the machine lacks something that it needs, such as root rights for network namespaces. "What happened" is what was observed in that run; the seconds are
for the whole case with all its runs, not the time until the fault was noticed. The cases are in ` + "`e2e/faults/cases_*.go`" + `.

%s
%s, %s, trainctl %s: **%s**.

| # | fault | promise | what happened | s | outcome |
|---|---|---|---|---|---|
`

func (r *faultReport) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, faultPage, len(r.Outcomes), onPurpose, r.Date.Format("2 January 2006"), r.Machine, r.Version, r.total())
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
