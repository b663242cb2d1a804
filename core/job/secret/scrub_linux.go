//go:build !portable

package secret

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Scrubs says whether a process overwrites what the kernel shows of its initial environment.
const Scrubs = true

// scrub overwrites a variable's value in the memory where the kernel put it when
// the process started. os.Unsetenv changes only Go's copy.
func scrub(name string) error {
	from, to, err := environment()
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	text := make([]byte, to-from)
	if _, err := mem.ReadAt(text, from); err != nil {
		return err
	}
	for at := 0; at < len(text); {
		entry, _, _ := bytes.Cut(text[at:], []byte{0})
		if value, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			if _, err := mem.WriteAt(make([]byte, len(value)), from+int64(at+len(entry)-len(value))); err != nil {
				return err
			}
		}
		at += len(entry) + 1
	}
	return nil
}

// environment is the address range of the initial environment: fields 50 and 51 of
// /proc/PID/stat (proc_pid_stat(5)).
func environment() (from, to int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from field 3
	if len(fields) < 49 {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields)+2)
	}
	from, err1 := strconv.ParseInt(fields[47], 10, 64)
	to, err2 := strconv.ParseInt(fields[48], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if from <= 0 || to <= from || to-from > 64<<20 {
		return 0, 0, errors.New("the kernel does not report where the environment is")
	}
	return from, to, nil
}
