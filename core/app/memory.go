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
	r.seePrograms()
	total := memoryOf(os.Getpid())["VmHWM"]
	for i, pid := range r.pluginPIDs() {
		if pid > 0 { // 0: in this process
			m := memoryOf(pid)
			total += max(0, m["VmHWM"]-r.programs[i]-m["RssShmem"])
		}
	}
	return total
}

// seePrograms notes the most pages of files, which are its program's, that each plugin was seen with: the system tells how
// many a process has now, and processes that have started give them back.
func (r *runner) seePrograms() {
	for i, pid := range r.pluginPIDs() {
		r.programs[i] = max(r.programs[i], memoryOf(pid)["RssFile"])
	}
}

// pluginPIDs are the processes of the plugins, which all run by now.
func (r *runner) pluginPIDs() [3]int {
	return [3]int{r.p.Backend.value.PID(), r.p.Precision.value.PID(), r.p.Dataset.value.PID()}
}

// memoryOf reads the sizes in /proc/PID/status, in bytes.
func memoryOf(pid int) map[string]int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	sizes := map[string]int64{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		key, value, _ := bytes.Cut(s.Bytes(), []byte(":"))
		if kib, ok := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB")); ok {
			n, _ := strconv.ParseInt(string(kib), 10, 64)
			sizes[string(key)] = n << 10
		}
	}
	return sizes
}
