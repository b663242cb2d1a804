//go:build linux && !amd64

package e2e

func canTrace() string { return "registers are only known on amd64" }

func leave(t tester, pid, code int) { t.Fatal(canTrace()) }

func crashKernel(t tester, pid int, address uint64) string {
	t.Fatal(canTrace())
	return ""
}

func jump(t tester, pid int, seconds int32) { t.Fatal(canTrace()) }
