//go:build linux && !amd64

package main

import "github.com/trainctl/trainctl/e2e/rig"

func canTrace() string { return "registers are only known on amd64" }

func leave(t rig.TB, pid, code int) { t.Fatal(canTrace()) }

func crashKernel(t rig.TB, pid int, address uint64) string {
	t.Fatal(canTrace())
	return ""
}

func jump(t rig.TB, pid int, seconds int32) { t.Fatal(canTrace()) }
