package kernel

import "golang.org/x/sys/unix"

// mayUseTiles asks Linux for the registers of AMX, which a process has to do before it uses them (Linux,
// Documentation/arch/x86/xstate.rst). Kernels before 5.16 refuse.
func mayUseTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
