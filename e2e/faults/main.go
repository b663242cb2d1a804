//go:build linux

// Command faults runs the fault matrix of docs/faults.md against the built
// trainctl: "go run ./e2e/faults", with -only, -list, -json and -markdown.
package main

import (
	"os"

	"github.com/trainctl/trainctl/e2e"
)

func main() { os.Exit(e2e.Faults(os.Args[1:], os.Stdout, os.Stderr)) }
