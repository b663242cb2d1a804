// Command trainctl trains models on several ranks from one TOML file.
//
// Each command has a file of its own; what the commands do beyond parsing
// their flags and printing comes in through [services].
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), &services{}, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}
