//go:build !darwin

package rundir

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// processStart reads /proc; false where there is none.
func processStart(pid int) (began time.Time, state string, ok bool) {
	fields, known := processStat(pid)
	boot, ok := bootTime()
	if !known || !ok {
		return began, "", false
	}
	since, err := strconv.ParseInt(fields[19], 10, 64) // field 22 of proc(5)
	return boot.Add(time.Duration(since) * time.Second / ticks), fields[0], err == nil
}

func bootTime() (time.Time, bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	_, after, ok := strings.Cut(string(b), "\nbtime ")
	text, _, _ := strings.Cut(after, "\n")
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), ok && err == nil
}
