package app

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// peakRSS is the peak resident memory of this rank and its plugins, in bytes; 0 where
// the system does not report it. Pages that a plugin shares with the rank, and the
// code of the binary, are counted once.
func (r *runner) peakRSS() int64 {
	total := peakOf(os.Getpid(), false)
	for _, pid := range r.pluginPIDs() {
		if pid > 0 { // 0: in this process
			total += peakOf(pid, true)
		}
	}
	return total
}

// pluginPIDs are the processes of the plugins, which all run by now.
func (r *runner) pluginPIDs() []int {
	return []int{r.p.Backend.value.PID(), r.p.Precision.value.PID(), r.p.Dataset.value.PID()}
}

// peakOf reads a process's peak from /proc: VmHWM, for a plugin minus the memory that it shares
// with others.
func peakOf(pid int, plugin bool) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	fields := map[string]int64{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		key, value, _ := bytes.Cut(s.Bytes(), []byte(":"))
		if kib, ok := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB")); ok {
			n, _ := strconv.ParseInt(string(kib), 10, 64)
			fields[string(key)] = n << 10
		}
	}
	peak := fields["VmHWM"]
	if plugin {
		peak -= fields["RssFile"] + fields["RssShmem"]
	}
	return max(0, peak)
}
