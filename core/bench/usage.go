package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process and all its descendants have at one moment. Linux only: figures
// that /proc does not have are 0.
type Usage struct {
	Processes   int           `json:"processes"`
	PSS         int64         `json:"pss_bytes"` // proportional set sizes
	Descriptors int           `json:"descriptors"`
	Sockets     int           `json:"sockets"`          // among the descriptors
	Most        int           `json:"most_descriptors"` // of one process
	CPU         time.Duration `json:"cpu_ns"`           // used so far
	Threads     int           `json:"threads"`
}

// UsageOf adds up a process and its descendants. It takes about a millisecond per process.
func UsageOf(root int) (u Usage) {
	eachProcess(root, func(pid int) {
		u.Processes++
		u.PSS += pssOf(pid)
		all, sockets := descriptors(pid)
		u.Descriptors += all
		u.Sockets += sockets
		u.Most = max(u.Most, all)
		u.CPU += cpuOf(pid)
		u.Threads += int(procField(fmt.Sprintf("/proc/%d/status", pid), "Threads"))
	})
	return u
}

// Add adds the usage of other processes.
func (u *Usage) Add(o Usage) {
	u.Processes += o.Processes
	u.PSS += o.PSS
	u.Descriptors += o.Descriptors
	u.Sockets += o.Sockets
	u.Most = max(u.Most, o.Most)
	u.CPU += o.CPU
	u.Threads += o.Threads
}

// CPUTime is the CPU time that a process and its descendants have used so far.
func CPUTime(root int) (total time.Duration) {
	eachProcess(root, func(pid int) { total += cpuOf(pid) })
	return total
}

// PSS is the proportional set size of a process and its descendants, in bytes.
func PSS(root int) (total int64) {
	eachProcess(root, func(pid int) { total += pssOf(pid) })
	return total
}

func pssOf(pid int) int64 { return procField(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss") << 10 }

func eachProcess(root int, do func(pid int)) {
	children := childrenByParent()
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		do(todo[0])
		todo = append(todo, children[todo[0]]...)
	}
}

func childrenByParent() map[int][]int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		parent := int(procField(f, "PPid"))
		children[parent] = append(children[parent], pid)
	}
	return children
}

// procField is a number of a file of "Key: number unit" lines; 0 if there is none,
// or the process is gone.
func procField(path, key string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && name == key {
			n, _ := strconv.ParseInt(strings.Fields(value + " 0")[0], 10, 64)
			return n
		}
	}
	return 0
}

func descriptors(pid int) (all, sockets int) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return len(entries), sockets
}

// cpuOf is the CPU time of a process in user mode and in the kernel, fields 14 and 15 of
// /proc/PID/stat (proc(5)), in hundredths of a second.
func cpuOf(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
