//go:build !portable

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemDirs are the folders that every program may read: libraries, interpreters,
// and information of the kernel.
var systemDirs = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/opt", "/etc", "/proc", "/sys", "/dev"}

// Access rights of Landlock rules: include/uapi/linux/landlock.h.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	allRights   = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV - 1 // of version 3
	netRights   = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	scopeRights = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	leastABI    = 4 // of Linux 6.7, the first with network rules
)

// lockIn restricts this process and its children as the rules say. Then it executes the
// program. It returns only on failure.
func lockIn(r Rules, target string, argv, env []string) error {
	runtime.LockOSThread() // rules apply to a thread; the other threads end with exec
	set, err := newRules(r)
	if err != nil {
		return err
	}
	if r.Strict {
		err = allowAll(set, append(r.Read, systemDirs...), readRights)
	}
	write := append([]string{os.Getenv(envSockets), "/dev/null"}, r.Write...)
	if err = errors.Join(err, allowAll(set, write, allRights&handled(r))); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	if !r.Network {
		if err := denySockets(r.Strict); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", target, unix.Exec(target, argv, env))
}

// allowAll grants rights for the paths that exist.
func allowAll(set int, paths []string, rights uint64) error {
	for _, path := range paths {
		if err := allow(set, path, rights); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// handled are the rights that the rules restrict.
func handled(r Rules) uint64 {
	if r.Strict {
		return allRights
	}
	return allRights &^ readRights
}

// Supported returns why this machine cannot enforce rules, nil if it can.
func Supported() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if _, ok := auditArch[runtime.GOARCH]; !ok {
		return fmt.Errorf("it does not support %s", runtime.GOARCH)
	}
	if errno != 0 {
		return fmt.Errorf("this kernel does not support Landlock (%w)", errno)
	}
	if abi < leastABI {
		return fmt.Errorf("this kernel supports version %d of Landlock, and version %d, of Linux 6.7, is needed", int(abi), leastABI)
	}
	return nil
}

// newRules returns a set of rules that deny every access they can control.
func newRules(r Rules) (fd int, err error) {
	if err := Supported(); err != nil {
		return 0, fmt.Errorf("%w; set sandbox = false, or isolate the whole run, for example in a container", err)
	}
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	attr, size := unix.LandlockRulesetAttr{Handled_access_fs: handled(r)}, uintptr(16)
	if !r.Network {
		attr.Handled_access_net = netRights
	}
	if abi >= 6 {
		attr.Scoped, size = scopeRights, 24
	}
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	return int(n), nil
}

// allow grants rights for a file, or for a directory and everything below it.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_add_rule", errno)
	}
	return nil
}

// Offsets in struct seccomp_data of include/uapi/linux/seccomp.h, and the
// architectures on which the filter knows the system calls' numbers.
const (
	dataNumber, dataArch, dataFirst, dataSecond = 0, 4, 16, 24
	x32Bit                                      = 0x40000000
	socketTypes                                 = 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// denySockets denies all sockets except unix sockets: Landlock restricts only TCP,
// not UDP for example. Landlock does not restrict unix sockets, so strictly, they are streams
// that are listened on, as for the host, and connect is denied.
func denySockets(strict bool) error {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("it does not support %s; set sandbox = false", runtime.GOARCH)
	}
	filter := socketFilter(arch, strict)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// socketFilter returns the program that the kernel runs for every system call.
func socketFilter(arch uint32, strict bool) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// unless skips the next instruction, which denies, if the comparison says yes.
	unless := func(op uint16, k uint32, yes bool) []unix.SockFilter {
		j := unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jf: 1}
		if yes {
			j.Jt, j.Jf = 1, 0
		}
		return []unix.SockFilter{j, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)}}
	}
	const same, atLeast = unix.BPF_JEQ, unix.BPF_JGE
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	filter := slices.Concat(
		[]unix.SockFilter{load(dataArch)}, unless(same, arch, true),
		[]unix.SockFilter{load(dataNumber)}, unless(atLeast, x32Bit, false),
		unless(same, unix.SYS_IO_URING_SETUP, false), // could open sockets behind the filter
	)
	if strict {
		filter = append(filter, unless(same, unix.SYS_CONNECT, false)...)
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | same | unix.BPF_K, K: unix.SYS_SOCKET, Jt: 1}, allow, load(dataFirst))
	filter = append(filter, unless(same, unix.AF_UNIX, true)...)
	if strict {
		filter = append(filter, load(dataSecond), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketTypes})
		filter = append(filter, unless(same, unix.SOCK_STREAM, true)...)
	}
	return append(filter, allow)
}
