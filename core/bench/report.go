package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Save writes a report as indented JSON into a file; an empty path saves nothing.
func Save(path string, report any) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// MachineName is the processor as the system names it, and the number of its cores.
func MachineName() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if cpu := CPUModel(); cpu != "" {
		name = cpu
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}

// Build builds trainctl into a directory. It returns the program and the root of the
// repository, in which the caller has to run.
func Build(ctx context.Context, dir string) (program, root string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", "", fmt.Errorf("run this inside trainctl's repository: %w", err)
	}
	root, program = strings.TrimSpace(string(out)), filepath.Join(dir, "trainctl")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/trainctl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, root, nil
}
