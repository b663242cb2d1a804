package rig

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Build builds a package of this module, named from its root, into dir and
// returns the executable's path. TRAINCTL_E2E_BUILD adds flags, such as -race.
// go run keeps linked executables in Go's build cache, which go build does not, so that many test
// packages link trainctl once.
func Build(dir, pkg string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, filepath.Base(pkg))
	args := append([]string{"run", "-exec", "cp"}, strings.Fields(os.Getenv("TRAINCTL_E2E_BUILD"))...)
	cmd := exec.Command("go", append(args, "./"+pkg, out)...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, text)
	}
	return out, nil
}

// Prepare builds trainctl in a directory, unless program names an executable. Runs
// keep their caches there too, apart from those of other test packages. Go's build cache
// stays where it is, so that nothing is compiled or linked again.
func Prepare(dir, program string) error {
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	builds.dir = dir
	if Program = program; program == "" {
		Program, err = Build(dir, "cmd/trainctl")
	}
	return errors.Join(err, os.Setenv("GOCACHE", strings.TrimSpace(string(goCache))), os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")))
}

// builds holds the executables that several tests use. Each is built once.
var builds struct {
	dir  string
	once sync.Map // of package to func() (string, error)
}

// AddProgram builds a package and copies its executable into the place.
func (p *Place) AddProgram(t TB, pkg string) {
	t.Helper()
	once, _ := builds.once.LoadOrStore(pkg, sync.OnceValues(func() (string, error) { return Build(builds.dir, pkg) }))
	from, err := once.(func() (string, error))()
	Must(t, err)
	b, err := os.ReadFile(from)
	Must(t, err)
	Must(t, os.WriteFile(filepath.Join(p.Dir, filepath.Base(from)), b, 0o755))
}

// ModuleRoot is the root of the checkout in which this process was started.
func ModuleRoot() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	path := strings.TrimSpace(string(mod))
	if err != nil || path == "" || path == os.DevNull {
		return "", fmt.Errorf("run it inside a checkout of trainctl: no go.mod is found here (%v)", err)
	}
	return filepath.Dir(path), nil
}

// Main builds trainctl, or takes the executable that TRAINCTL_E2E_PROGRAM names,
// and calls run, the Run of a testing.M. It returns the exit code. Twice as many tests as usual run
// in parallel: jobs that lose ranks, plugins and links mostly wait.
func Main(run func() int) int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "trainctl-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = Prepare(dir, os.Getenv("TRAINCTL_E2E_PROGRAM"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
