//go:build linux

package main

import (
	"os"

	"github.com/trainctl/trainctl/e2e"
)

func main() { os.Exit(e2e.Faults(os.Args[1:], os.Stdout, os.Stderr)) }
