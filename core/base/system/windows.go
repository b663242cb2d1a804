//go:build windows

package system

// The compiler quotes the text in its error.
const _ int = "trainctl runs on Windows inside WSL 2: build it there with GOOS=linux (docs/cli.md, Systems)"
