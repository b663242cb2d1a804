package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/bytesize"
)

// Limits that are enough for any run on one host.
const (
	filesEnough = 1024
	shmEnough   = 1 << 30 // bytes; for NCCL's shared memory
)

// limitChecks check the resource limits of this process.
func limitChecks() []Check {
	checks := []Check{openFiles(), lockedMemory()}
	if total := meminfo("MemTotal"); total > 0 {
		checks = append(checks, Check{Name: "memory", Verdict: fine,
			Found: fmt.Sprintf("%s, %s available", bytesize.Text(total), bytesize.Text(meminfo("MemAvailable")))})
	}
	return append(checks, devShm()...)
}

func openFiles() Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return Check{Name: "open files", Verdict: remark, Found: err.Error()}
	}
	c := Check{Name: "open files", Verdict: fine, Found: limitText(l.Cur, func(n uint64) string { return fmt.Sprint(n) })}
	if l.Cur < filesEnough {
		c.Verdict, c.Fix = remark, fmt.Sprintf("ulimit -n %d", filesEnough)
	}
	return c
}

// lockedMemory is only reported: memory registered by network adapters counts
// towards the limit, memory pinned by the CUDA driver does not.
func lockedMemory() Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return Check{Name: "locked memory", Verdict: remark, Found: err.Error()}
	}
	c := Check{Name: "locked memory", Verdict: fine, Found: limitText(l.Cur, bytesize.Text[uint64])}
	if l.Cur != unix.RLIM_INFINITY {
		c.Found += "; InfiniBand needs ulimit -l unlimited"
	}
	return c
}

func limitText(n uint64, text func(uint64) string) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return text(n)
}

// devShm checks /dev/shm, where NCCL keeps its shared memory; trainctl's is anonymous.
func devShm() []Check {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil {
		return nil
	}
	size := fs.Blocks * uint64(fs.Bsize)
	c := Check{Name: "/dev/shm", Verdict: fine, Found: bytesize.Text(size)}
	if size < shmEnough {
		c.Verdict, c.Fix = remark, "NCCL needs more: start the container with --shm-size=1g"
	}
	return []Check{c}
}
