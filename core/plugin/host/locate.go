package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// builtinArg is the first argument of a process that serves a built-in plugin.
const builtinArg = "plugin"

// ServeBuiltin serves a built-in plugin and does not return if args, the command
// line without the program's name, is "plugin KIND NAME" for one of them. It also
// does not return if this process is to enter a sandbox and execute a plugin there.
// Otherwise it returns false at once.
func ServeBuiltin(builtins []Builtin, args []string) bool {
	sandbox.Enter(args)
	if len(args) != 3 || args[0] != builtinArg {
		return false
	}
	for i := range builtins {
		if b := &builtins[i]; string(b.Kind) == args[1] && b.Name == args[2] {
			sdk.Serve(b.Plugin)
		}
	}
	return false
}

// List returns the built-in plugins' Info, ordered by kind and name.
func (h *Host) List() []sdk.Info {
	var out []sdk.Info
	for i := range h.opts.Builtins {
		b := &h.opts.Builtins[i]
		if info, err := b.info(); err == nil {
			out = append(out, info)
		}
	}
	slices.SortFunc(out, func(a, b sdk.Info) int {
		return strings.Compare(string(a.Kind)+a.Name, string(b.Kind)+b.Name)
	})
	return out
}

func (b *Builtin) info() (sdk.Info, error) {
	info, err := b.Plugin.Info(b.Kind)
	info.Kind, info.Name = b.Kind, b.Name
	return info, err
}

func (h *Host) builtin(kind sdk.Kind, name string) *Builtin {
	for i := range h.opts.Builtins {
		if b := &h.opts.Builtins[i]; b.Kind == kind && b.Name == name {
			return b
		}
	}
	return nil
}

// program is the executable of a plugin and how to run it.
type program struct {
	path    string
	args    []string
	file    *os.File // open executable whose checksum was verified, or nil
	within  bool     // path creates the sandbox; file runs in it
	env     []string // in addition to the host's
	builtin *Builtin
}

func (p *program) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}

// locate finds the program of a plugin as named in the TOML.
func (h *Host) locate(kind sdk.Kind, name string) (*program, *StartError) {
	if !registry.IsPath(name) {
		return h.locateBuiltin(kind, name)
	}
	if err := registry.Check(name); err != nil {
		return nil, refused(kind, name, err)
	}
	sum := h.opts.Checksums[name]
	if sum == "" {
		return &program{path: name}, nil
	}
	f, err := registry.Open(name, sum)
	if err != nil {
		return nil, refused(kind, name, err)
	}
	return &program{path: name, file: f}, nil
}

// refused is the error for a plugin whose file cannot be used.
func refused(kind sdk.Kind, name string, err error) *StartError {
	e := &StartError{Kind: kind, Name: name, Problem: err.Error(), Err: err}
	var p *registry.Problem
	if errors.As(err, &p) {
		e.Problem, e.Help, e.Err = p.Text, p.Help, p.Err
	}
	return e
}

func (h *Host) locateBuiltin(kind sdk.Kind, name string) (*program, *StartError) {
	b := h.builtin(kind, name)
	if b == nil {
		return nil, &StartError{Kind: kind, Name: name, Problem: "there is no built-in plugin of this name", Help: h.suggest(kind)}
	}
	exe, err := h.exe()
	if err != nil {
		return nil, refused(kind, name, err)
	}
	return &program{path: exe, args: []string{builtinArg, string(kind), name}, builtin: b}, nil
}

func (h *Host) suggest(kind sdk.Kind) string {
	var names []string
	for i := range h.opts.Builtins {
		if b := &h.opts.Builtins[i]; b.Kind == kind {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("known: %s; the path of an executable needs a slash, as in ./name", strings.Join(names, ", "))
}

// Checksum returns the SHA-256 sum in hexadecimal of the plugin at a path. The
// plugin is not executed. The error is a *StartError.
func Checksum(kind sdk.Kind, path string) (string, error) {
	err := registry.Check(path)
	sum := ""
	if err == nil {
		sum, err = registry.Sum(path)
	}
	if err != nil {
		return "", refused(kind, path, err)
	}
	return sum, nil
}

// Executable returns the absolute path of the executable of a plugin as named in the
// TOML. For a built-in plugin it is the host's own.
func (h *Host) Executable(name string) (string, error) {
	if registry.IsPath(name) {
		return filepath.Abs(name)
	}
	exe, err := h.exe()
	if err != nil {
		return "", err
	}
	return filepath.Abs(exe)
}

// Sum returns the SHA-256 sum in hexadecimal of [Host.Executable]: the sum that was
// verified before it was executed, or that of the file now.
func (h *Host) Sum(name string) (string, error) {
	if sum := h.opts.Checksums[name]; sum != "" {
		return strings.ToLower(sum), nil
	}
	path, err := h.Executable(name)
	if err != nil {
		return "", err
	}
	return registry.Sum(path)
}

// WithChecksums returns a host with additional checksums, see Options.Checksums.
func (h *Host) WithChecksums(sums map[string]string) *Host {
	o := h.opts
	o.Checksums = map[string]string{}
	maps.Copy(o.Checksums, h.opts.Checksums)
	maps.Copy(o.Checksums, sums)
	return &Host{opts: o}
}

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
	}
	args, env, err := sandbox.Command(target, prog.args, append([]string{prog.path}, readable...))
	if err != nil {
		return nil, err
	}
	return &program{path: exe, args: args, file: prog.file, within: true, env: env}, nil
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
