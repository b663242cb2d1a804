package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/e2e/rig"
)

// What is injected here goes into the built program from outside, as a debugger
// would do it: nothing in the program knows of it.

// canTrace is the need of cases that do so.
func canTrace() string {
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(b)) == "3" {
		return "this machine forbids ptrace (kernel.yama.ptrace_scope = 3)"
	}
	return ""
}

// traced stops a thread, lets change alter its registers and lets it go on. It
// reports what change reports; the registers are only set when that is true.
func traced(tid int, change func(*unix.PtraceRegs) bool) (bool, error) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(tid); err != nil {
		return false, err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(tid, &ws, unix.WALL, nil); err != nil {
		return false, err
	}
	if !ws.Stopped() {
		return false, fmt.Errorf("thread %d ended", tid)
	}
	var regs unix.PtraceRegs
	err := unix.PtraceGetRegs(tid, &regs)
	done := err == nil && change(&regs)
	if done {
		err = unix.PtraceSetRegs(tid, &regs)
	}
	if e := unix.PtraceDetach(tid); err == nil {
		err = e
	}
	return done, err
}

func threads(pid int) (tids []int) {
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
	for _, d := range dirs {
		tid, _ := strconv.Atoi(filepath.Base(d))
		tids = append(tids, tid)
	}
	return tids
}

// leave makes a process call exit_group(code) in the middle of what it does.
func leave(t rig.TB, pid, code int) {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	rig.Must(t, err)
	defer mem.Close()
	rig.Eventually(t, "a thread in a system call", func() bool {
		for _, tid := range threads(pid) {
			done, err := traced(tid, func(r *unix.PtraceRegs) bool {
				at := make([]byte, 2)
				if _, err := mem.ReadAt(at, int64(r.Rip)-2); err != nil || at[0] != 0x0f || at[1] != 0x05 {
					return false // not behind a syscall instruction
				}
				r.Rip, r.Rax, r.Orig_rax, r.Rdi = r.Rip-2, unix.SYS_EXIT_GROUP, ^uint64(0), uint64(code)
				return true
			})
			if done && err == nil {
				return true
			}
		}
		return false
	})
}

// crashKernel puts an address into the pointers of an assembly kernel that a
// process is executing, and names the kernel. An address below a page is a nil
// dereference to Go, a panic; another one a fatal SIGSEGV.
func crashKernel(t rig.TB, pid int, address uint64) (name string) {
	t.Helper()
	kernels := assembly(t, fmt.Sprintf("/proc/%d/exe", pid))
	rig.Eventually(t, "a thread in an assembly kernel", func() bool {
		for _, tid := range threads(pid) {
			done, err := traced(tid, func(r *unix.PtraceRegs) bool {
				for _, k := range kernels {
					// Behind the prologue, before the epilogue.
					if r.Rip > k.Value+64 && r.Rip+64 < k.Value+k.Size {
						name = k.Name
						for _, p := range []*uint64{&r.Rax, &r.Rbx, &r.Rcx, &r.Rdx, &r.Rsi, &r.Rdi, &r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13} {
							*p = address
						}
						return true
					}
				}
				return false
			})
			if done && err == nil {
				return true
			}
		}
		return false
	})
	name = name[strings.LastIndexByte(name, '.')+1:]
	return name
}

// assembly are the kernels written in assembly of an executable.
func assembly(t rig.TB, path string) (kernels []elf.Symbol) {
	t.Helper()
	f, err := elf.Open(path)
	rig.Must(t, err)
	defer f.Close()
	all, err := f.Symbols()
	rig.Must(t, err)
	for _, s := range all {
		if name, ok := strings.CutSuffix(s.Name, ".abi0"); ok && strings.Contains(name, "/core/engine/kernel/") && s.Size > 256 {
			s.Name = name
			kernels = append(kernels, s)
		}
	}
	return kernels
}

// jump lets a process's clock of the day be off by some seconds from now on.
// Its monotonic clock does not change, as the system's would not. Go asks the vDSO
// for the time, code that the kernel maps into every process: the copy of this
// process is replaced by one that asks the kernel and adds the seconds.
func jump(t rig.TB, pid int, seconds int32) {
	t.Helper()
	rig.Signal(t, pid, syscall.SIGSTOP)
	defer rig.Signal(t, pid, syscall.SIGCONT)
	rig.Eventually(t, "all threads to stand still", func() bool {
		for _, tid := range threads(pid) {
			if _, rest, _ := strings.Cut(rig.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid)), ") "); rest != "" && rest[0] != 'T' {
				return false
			}
		}
		return true
	})
	var first, last int64
	for line := range strings.Lines(rig.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &first, &last)
			rig.Must(t, err)
		}
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	rig.Must(t, err)
	defer mem.Close()
	image := make([]byte, last-first)
	_, err = mem.ReadAt(image, first)
	rig.Must(t, err)
	vdso, err := elf.NewFile(bytes.NewReader(image))
	rig.Must(t, err)
	symbols, err := vdso.DynamicSymbols()
	rig.Must(t, err)
	code := []byte{
		0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall: clock in rdi, result in rsi, both kept
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne over the addition
		0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
		0xc3, // ret
	}
	binary.LittleEndian.PutUint32(code[14:], uint32(seconds))
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			_, err = mem.WriteAt(code, first+int64(s.Value))
			rig.Must(t, err)
			return
		}
	}
	t.Fatal("the vDSO has no clock_gettime")
}
