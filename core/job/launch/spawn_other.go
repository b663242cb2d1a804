//go:build !linux || portable

package launch

import "syscall"

// On other systems than Linux only the lifeline tells a rank that the launcher
// died, and descendants are found only in their rank's process group.

func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setSubreaper(bool) {}

func children() []int { return nil }

func killOrphan(int) {}

func reapOrphan(int) bool { return true }
