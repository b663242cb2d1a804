package usererr

import (
	"fmt"
	"strings"
	"syscall"
)

// shortages maps texts of errors about exhausted resources to advice.
var shortages = []struct{ says, fix string }{
	{syscall.EMFILE.Error(), "Raise the limit of open files per process: ulimit -n."},
	{syscall.ENFILE.Error(), "The whole machine has too many open files: find the process that has most, or raise fs.file-max."},
	{syscall.EAGAIN.Error(), "Raise the limit of processes: ulimit -u, or pids.max of the container."},
	{syscall.EFBIG.Error(), "Raise the limit of the file size, which applies to shared memory too: ulimit -f."},
	{syscall.ENOSPC.Error(), "Free disk space where the run directory is, or choose another with --run-dir;"},
	{syscall.EDQUOT.Error(), "Free space within the quota of the run directory, or choose another with --run-dir;"},
	{syscall.ENOMEM.Error(), memory},
	{"fatal error: runtime: out of memory", memory},
	{"fatal error: out of memory", memory},
	{"because memory ran out", memory}, // core/base/cgroup: a plugin was killed
}

const memory = "Not enough memory for this run (trainctl plan shows how much it needs): use a smaller model or batch or fewer ranks, or raise the limit (ulimit -v, the container's)."

// Shortage returns the advice for a text, an error or a process's last lines, that is
// about an exhausted resource; "" for any other.
func Shortage(text string) string {
	for _, s := range shortages {
		if strings.Contains(text, s.says) {
			return s.fix
		}
	}
	return ""
}

// Explained adds the advice of Shortage to an error.
func Explained(err error) error {
	if fix := Shortage(err.Error()); fix != "" {
		return fmt.Errorf("%w (%s)", err, fix)
	}
	return err
}
