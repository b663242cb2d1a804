//go:build !portable

package codepages

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// starting is for how long a process starts: on an idle machine, and on a busy one.
var starting = []time.Duration{400 * time.Millisecond, 2 * time.Second}

// ReleaseLater unmaps the pages of the executable once this process has started. Those in use come back
// within microseconds.
func ReleaseLater() {
	for _, d := range starting {
		time.AfterFunc(d, Release)
	}
}

// Release unmaps the pages of the executable. Nothing depends on it, so it reports no error.
func Release() {
	for _, a := range areas("self") {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, a.from, a.to-a.from, unix.MADV_DONTNEED)
	}
}

// Mapped is how many bytes of its executable a process can have mapped at most, before it released any; 0 if that is unknown.
func Mapped(pid int) (bytes int64) {
	for _, a := range areas(strconv.Itoa(pid)) {
		bytes += int64(a.to - a.from)
	}
	return bytes
}

// areas are the clean areas of a process's executable.
func areas(process string) []area {
	program, err := os.Readlink("/proc/" + process + "/exe")
	if err != nil {
		return nil
	}
	f, err := os.Open("/proc/" + process + "/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	return clean(f, program)
}

// area is a range of addresses.
type area struct{ from, to uintptr }

// clean lists the areas of a file that a process may not write and never has, in the format of /proc/PID/smaps. A
// private copy of a page, as relocations and breakpoints leave them, would be lost.
func clean(smaps io.Reader, file string) (areas []area) {
	var a area
	own, name := false, []byte(" "+file)
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		switch line := lines.Bytes(); {
		case bytes.HasSuffix(line, name):
			var perms string
			_, err := fmt.Sscanf(string(line), "%x-%x %4s ", &a.from, &a.to, &perms)
			own = err == nil && perms[:2] == "r-" && perms[3] == 'p'
		case len(line) > 0 && (line[0] < 'A' || 'Z' < line[0]): // addresses of something else
			own = false
		case own && bytes.HasPrefix(line, []byte("Anonymous:")) && bytes.HasSuffix(line, []byte(" 0 kB")):
			areas = append(areas, a)
		}
	}
	return areas
}
