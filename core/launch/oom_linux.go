package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKills counts the processes that the kernel killed for memory in this
// process's cgroup, -1 where it cannot be read.
func oomKills() int {
	for _, path := range memoryFiles("memory.events", "memory.oom_control") {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
				if n, err := strconv.Atoi(value); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// memoryFiles finds this process's memory cgroup, version 2 or 1.
func memoryFiles(v2, v1 string) []string {
	text, _ := os.ReadFile("/proc/self/cgroup")
	var paths []string
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(part) != 3:
		case part[0] == "0":
			paths = append(paths, filepath.Join("/sys/fs/cgroup", part[2], v2), filepath.Join("/sys/fs/cgroup", v2))
		case part[1] == "memory":
			paths = append(paths, filepath.Join("/sys/fs/cgroup/memory", part[2], v1), filepath.Join("/sys/fs/cgroup/memory", v1))
		}
	}
	return paths
}

// oomEvidence compares with the count from before the ranks were started.
func oomEvidence(before int) string {
	now := oomKills()
	if before < 0 || now <= before {
		return ""
	}
	return fmt.Sprintf("the kernel killed %d process(es) of this control group for want of memory%s", now-before, memoryLimit())
}

func memoryLimit() string {
	for _, path := range memoryFiles("memory.max", "memory.limit_in_bytes") {
		text, err := os.ReadFile(path)
		n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && bad == nil && n < 1<<60 {
			return fmt.Sprintf(" (limit %.1f GiB)", float64(n)/(1<<30))
		}
	}
	return ""
}
