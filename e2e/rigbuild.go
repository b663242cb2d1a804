package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds a package of this module, named from its root, into dir and
// gives the executable's path. TRAINCTL_E2E_BUILD adds flags, such as -race.
func build(dir, pkg string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, filepath.Base(pkg))
	args := append([]string{"build", "-o", out}, strings.Fields(os.Getenv("TRAINCTL_E2E_BUILD"))...)
	cmd := exec.Command("go", append(args, "./"+pkg)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, text)
	}
	return out, nil
}

// moduleRoot is the root of the checkout in which this process was started.
func moduleRoot() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	path := strings.TrimSpace(string(mod))
	if err != nil || path == "" || path == os.DevNull {
		return "", fmt.Errorf("run it inside a checkout of trainctl: no go.mod is found here (%v)", err)
	}
	return filepath.Dir(path), nil
}
