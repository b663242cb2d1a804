package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// system is where the kernel shows control groups.
var system = root("/")

// root is a directory that stands for "/".
type root string

// Cores is how many cores this process can keep busy: those that it may run on
// (sched_getaffinity), and no more than the CPU quota of its control group and
// of those around it, rounded up. At least 1.
//
// Go's runtime does the same for GOMAXPROCS but never goes below 2.
func Cores() int { return system.cores(runtime.NumCPU()) }

func (r root) cores(usable int) int {
	if quota := r.cpuQuota(); quota < float64(usable) {
		return max(1, int(math.Ceil(quota)))
	}
	return usable
}

// cpuQuota is the lowest quota of the groups that this process is in, in cores.
func (r root) cpuQuota() float64 {
	quota := math.Inf(1)
	for _, dir := range r.groups("cpu") {
		var of, period float64
		if _, err := fmt.Sscanf(r.read(dir, "cpu.max"), "%g %g", &of, &period); err != nil { // "max 100000" is not a limit
			_, err1 := fmt.Sscan(r.read(dir, "cpu.cfs_quota_us"), &of)
			_, err2 := fmt.Sscan(r.read(dir, "cpu.cfs_period_us"), &period)
			if err1 != nil || err2 != nil {
				continue
			}
		}
		if of > 0 && period > 0 {
			quota = min(quota, of/period)
		}
	}
	return quota
}

// groups are the directories of the groups that this process is in by a
// controller, the innermost first. If a container hides the outer part of a path,
// these are the visible directories.
func (r root) groups(controller string) (dirs []string) {
	for line := range strings.Lines(r.read("/proc/self", "cgroup")) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		var mounts []string
		switch {
		case part[0] == "0":
			mounts = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
		case strings.Contains(","+part[1]+",", ","+controller+","):
			mounts = []string{"/sys/fs/cgroup/" + controller, "/sys/fs/cgroup/" + part[1]}
		}
		for _, mount := range mounts {
			for path := filepath.Clean("/" + part[2]); ; path = filepath.Dir(path) {
				dirs = append(dirs, filepath.Join(mount, path))
				if path == "/" {
					break
				}
			}
		}
	}
	return dirs
}

func (r root) read(dir, file string) string {
	b, err := os.ReadFile(filepath.Join(string(r), dir, file))
	if err != nil {
		return ""
	}
	return string(b)
}

// OOMKills counts the processes that the kernel has killed because memory ran out:
// in this process's control group if it counts them, else on the whole machine; -1
// if neither is known.
func OOMKills() int { return system.oomKills() }

func (r root) oomKills() int {
	for _, dir := range r.groups("memory") {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			if n, ok := field(r.read(dir, file), "oom_kill"); ok {
				return n
			}
		}
	}
	if n, ok := field(r.read("/proc", "vmstat"), "oom_kill"); ok {
		return n
	}
	return -1
}

// field finds "name value" on a line of its own.
func field(text, name string) (int, bool) {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, err := strconv.Atoi(value)
			return n, err == nil
		}
	}
	return 0, false
}

// Starved is part of every text that Evidence returns, so that errors which include
// it can be recognised.
const Starved = "because memory ran out"

// Evidence describes out-of-memory kills since OOMKills returned before, and how
// much memory dead, a process that has ended, had used; "" if there were none or the
// system does not count them.
func Evidence(before int, dead *os.ProcessState) string {
	var peak int64
	if usage, ok := dead.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss << 10 // Linux counts KiB; elsewhere there is no evidence
	}
	return system.evidence(before, peak)
}

func (r root) evidence(before int, peak int64) string {
	now := r.oomKills()
	if before < 0 || now <= before {
		return ""
	}
	text := fmt.Sprintf("the kernel killed %d process(es) "+Starved+"%s", now-before, r.memoryLimit())
	if peak > 0 {
		text += fmt.Sprintf("; this one had used up to %.1f GiB", float64(peak)/(1<<30))
	}
	return text
}

// memoryLimit is the lowest limit of the groups that this process is in.
func (r root) memoryLimit() string {
	least := uint64(1 << 60) // version 1 shows a larger number for no limit
	for _, dir := range r.groups("memory") {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			if n, err := strconv.ParseUint(strings.TrimSpace(r.read(dir, file)), 10, 64); err == nil {
				least = min(least, n)
			}
		}
	}
	if least == 1<<60 {
		return ""
	}
	return fmt.Sprintf(" (limit of its control group: %.1f GiB)", float64(least)/(1<<30))
}
