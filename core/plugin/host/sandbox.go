package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sandboxArg is the first argument of a process that enters a sandbox and then
// executes a plugin.
const sandboxArg = "sandboxed-plugin"

// envReadable lists what a plugin in a sandbox may read, besides the system.
const envReadable = "TRAINCTL_SANDBOX_READ"

// WithSandboxes returns a host that starts these plugins, given by path, in a
// sandbox in which each may read what is listed for it; see Options.Sandboxes.
func (h *Host) WithSandboxes(readable map[string][]string) *Host {
	o := h.opts
	o.Sandboxes = map[string][]string{}
	maps.Copy(o.Sandboxes, h.opts.Sandboxes)
	maps.Copy(o.Sandboxes, readable)
	return &Host{opts: o}
}

// sandboxed returns a program that executes another one inside a sandbox.
func (h *Host) sandboxed(prog *program, readable []string) (*program, error) {
	exe, err := h.exe()
	if err != nil {
		return nil, err
	}
	target := prog.path
	if prog.file != nil {
		target = executablePath(prog)
	} else if target, err = filepath.Abs(target); err != nil {
		return nil, err
	}
	own, err := filepath.Abs(prog.path)
	if err != nil {
		return nil, err
	}
	may := []string{own}
	for _, path := range readable {
		if path, err = filepath.Abs(path); err == nil {
			may = append(may, path)
		}
	}
	return &program{path: exe, args: append([]string{sandboxArg, target}, prog.args...), file: prog.file, within: true,
		env: []string{envReadable + "=" + strings.Join(may, string(os.PathListSeparator))}}, nil
}

func (h *Host) exe() (string, error) {
	if h.opts.Exe != "" {
		return h.opts.Exe, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the program cannot find its own executable: %w", err)
	}
	return exe, nil
}

// serveSandboxed executes a plugin in a sandbox and returns only on failure.
func serveSandboxed(args []string) {
	readable := filepath.SplitList(os.Getenv(envReadable))
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, envReadable+"=") })
	err := errors.New("no program is given")
	if len(args) > 0 {
		err = lockIn(readable, args, env)
	}
	fmt.Fprintf(os.Stderr, "cannot create the sandbox: %v\n", err)
	os.Exit(1)
}
