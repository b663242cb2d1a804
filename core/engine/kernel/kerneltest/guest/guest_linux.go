package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func main() {
	if os.Getpid() != 1 { // it would turn off the machine of whoever starts it
		fmt.Fprintln(os.Stderr, "guest: this is not the first process of a virtual machine: .ci/avx512 starts it there")
		os.Exit(2)
	}
	failed, err := run()
	if err != nil {
		fmt.Println("guest:", err)
	} else {
		fmt.Printf("guest: %d failed\n", failed)
	}
	drain()
	if err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guest:", err)
	}
	select {} // the kernel panics if its first process ends
}

// run counts the programs that failed.
func run() (failed int, err error) {
	// os/exec opens /dev/null, and tests map and read what lies in /proc.
	for _, fs := range []struct{ kind, at string }{{"proc", "/proc"}, {"devtmpfs", "/dev"}} {
		if err := syscall.Mount(fs.kind, fs.at, fs.kind, 0, ""); err != nil {
			return 0, fmt.Errorf("mount %s: %w", fs.at, err)
		}
	}
	if err := showCPU(); err != nil {
		return 0, err
	}
	list, err := os.ReadFile("/tests")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		began := time.Now()
		c := exec.Command(f[1], f[2:]...)
		c.Dir, c.Stdout, c.Stderr = f[0], os.Stdout, os.Stderr
		state := "ok"
		if err := c.Run(); err != nil {
			failed++
			state = "FAIL (" + err.Error() + ")"
		}
		fmt.Printf("guest: %s %s, %.1f s of this machine\n", state, strings.Join(f[1:], " "), time.Since(began).Seconds())
		drain()
	}
	return failed, nil
}

// showCPU prints what the processor is and which of AVX-512 the kernel lets programs use.
func showCPU() error {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(info)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name":
			fmt.Print("guest:", value)
		case "flags":
			var wide []string
			for _, f := range strings.Fields(value) {
				if strings.HasPrefix(f, "avx512") {
					wide = append(wide, f)
				}
			}
			fmt.Println("guest:", strings.Join(wide, " "))
		}
	}
	return nil
}

// drain waits until the console has sent everything, which turning the machine off does not.
func drain() {
	const tcsbrk, wait = 0x5409, 1
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(syscall.Stdout), tcsbrk, wait)
}
