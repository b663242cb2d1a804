//go:build !linux || portable

package launch

import "syscall"

// On other systems than Linux only the lifeline tells a rank that the launcher
// died, and descendants are found only in their rank's process group.

// ProcAttr puts a process into a process group of its own. Nothing tells it that this process died.
func ProcAttr(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setSubreaper(bool) {}

func children() []int { return nil }

func killOrphan(int) {}

func reapOrphan(int) bool { return true }
