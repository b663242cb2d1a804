//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "faults: the fault matrix needs Linux: it uses network namespaces and control groups; run it in a Linux container or virtual machine")
	os.Exit(1)
}
