//go:build !linux

package launch

import "syscall"

// Without Linux's help a rank learns of the launcher's death from its lifeline,
// and descendants are found only in their rank's group.

func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setSubreaper(bool) {}

func children() []int { return nil }

func killOrphan(int) {}
