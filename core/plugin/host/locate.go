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
	if b := h.builtin(kind, name); b != nil {
		exe, err := h.exe()
		if err != nil {
			return nil, refused(kind, name, err)
		}
		return &program{path: exe, args: []string{builtinArg, string(kind), name}, builtin: b}, nil
	}
	found, err := h.find(kind, name)
	if err != nil {
		return nil, refused(kind, name, err)
	}
	f, err := verified(&found, h.terms(kind, name))
	if err != nil {
		return nil, refused(kind, name, err)
	}
	p := &program{path: found.Path, file: f}
	if found.Root != "" {
		p.env = []string{"PYTHONDONTWRITEBYTECODE=1"} // which would change the sum of its files
	}
	return p, nil
}

// verified opens the executable of a plugin whose sum is known; nil if none is.
func verified(found *registry.Plugin, t Terms) (f *os.File, err error) {
	if t.Lock != nil {
		sum, err := t.Lock.Sum(registry.Platform())
		if err == nil {
			f, err = found.OpenTree(sum)
		}
		if err != nil || t.SHA256 == "" {
			return f, err
		}
		_ = f.Close() // it was only read
	}
	if t.SHA256 == "" {
		return nil, nil
	}
	return registry.Open(found.Path, t.SHA256)
}

// find finds the executable of a plugin that is not built in: that at a path, or that
// with a name in the folders that are searched.
func (h *Host) find(kind sdk.Kind, name string) (registry.Plugin, error) {
	if registry.IsPath(name) {
		p := registry.Plugin{Kind: kind, Name: name, Path: registry.Expand(name)}
		dir := filepath.Dir(p.Path)
		if _, ok := registry.Parse(filepath.Base(dir)); ok {
			p.Root = dir // of a plugin that has a name as well, as in plugins list
		}
		return p, registry.Check(p.Path)
	}
	t := h.terms(kind, name)
	if t.Lock == nil || t.Lock.Version == "" {
		return h.Search().Find(kind, name, t.Version, h.names(kind))
	}
	if err := registry.Allow(t.Version, t.Lock.Version); err != nil {
		return registry.Plugin{}, &registry.Problem{Err: err, Text: registry.LockName + " does not fit the configuration: " + err.Error(), Help: "run trainctl plugins lock CONFIG"}
	}
	return h.Search().FindVersion(kind, name, t.Lock.Version, h.names(kind))
}

// Find finds the executable of a plugin that is not built in, and does not start it. The
// error is a *StartError.
func (h *Host) Find(kind sdk.Kind, name string) (registry.Plugin, error) {
	p, err := h.find(kind, name)
	if err != nil {
		return p, refused(kind, name, err)
	}
	return p, nil
}

// Search returns the folders in which plugins are found by name.
func (h *Host) Search() registry.Search {
	if h.opts.Search != nil {
		return h.opts.Search
	}
	exe, _ := h.exe() // without it the others are searched
	return registry.Folders(exe)
}

func (h *Host) terms(kind sdk.Kind, name string) Terms {
	t, ok := h.opts.Terms[Key{kind, name}]
	if !ok && h.opts.Sandbox != nil {
		t.Sandbox = h.opts.Sandbox(kind)
	}
	return t
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

// names returns the names of the built-in plugins of a kind.
func (h *Host) names(kind sdk.Kind) (names []string) {
	for i := range h.opts.Builtins {
		if b := &h.opts.Builtins[i]; b.Kind == kind {
			names = append(names, b.Name)
		}
	}
	return names
}

// BuiltIn reports whether a plugin is part of this program.
func (h *Host) BuiltIn(kind sdk.Kind, name string) bool { return h.builtin(kind, name) != nil }

// PathOf returns the path of a plugin's executable: as written in the TOML if that gives
// one, "" for a built-in plugin and for one that is not found or was attached.
func (h *Host) PathOf(kind sdk.Kind, name string) string {
	switch {
	case h.BuiltIn(kind, name), h.Attached(kind, name) != "":
		return ""
	case registry.IsPath(name):
		return registry.Expand(name)
	}
	found, _ := h.find(kind, name)
	return found.Path
}

// Checksum returns the SHA-256 sum in hexadecimal of the plugin at a path. The
// plugin is not executed. The error is a *StartError.
func Checksum(kind sdk.Kind, path string) (string, error) {
	err := registry.Check(path)
	sum := ""
	if err == nil {
		sum, err = registry.Sum(path, nil)
	}
	if err != nil {
		return "", refused(kind, path, err)
	}
	return sum, nil
}

// Executable returns the absolute path of the executable of a plugin as named in the
// TOML. For a built-in plugin it is the host's own.
func (h *Host) Executable(kind sdk.Kind, name string) (string, error) {
	if h.BuiltIn(kind, name) {
		exe, err := h.exe()
		if err != nil {
			return "", err
		}
		return filepath.Abs(exe)
	}
	found, err := h.find(kind, name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found.Path)
}

// Sum returns the SHA-256 sum in hexadecimal of [Host.Executable]: the sum that was
// verified before it was executed, or that of the file now, read with pauses as by
// [registry.Sum]; "" if the plugin was attached.
func (h *Host) Sum(kind sdk.Kind, name string, pause func()) (string, error) {
	if h.Attached(kind, name) != "" {
		return "", nil
	}
	if sum := h.terms(kind, name).SHA256; sum != "" {
		return strings.ToLower(sum), nil
	}
	path, err := h.Executable(kind, name)
	if err != nil {
		return "", err
	}
	return registry.Sum(path, pause)
}

// WithTerms returns a host with additional terms, see Options.Terms.
func (h *Host) WithTerms(terms map[Key]Terms) *Host {
	o := h.opts
	o.Terms = map[Key]Terms{}
	maps.Copy(o.Terms, h.opts.Terms)
	maps.Copy(o.Terms, terms)
	return &Host{opts: o}
}

// rules returns the sandbox of a program; nil if it has none, or if this machine cannot
// enforce one that is not strict.
func (p *program) rules(t Terms) *sandbox.Rules {
	if p.builtin != nil || t.Sandbox == nil || !t.Sandbox.Strict && sandbox.Supported() != nil {
		return nil
	}
	return t.Sandbox
}

// sandboxed returns a program that executes another one inside a sandbox.
func (h *Host) sandboxed(prog *program, r sandbox.Rules) (*program, error) {
	exe, err := h.exe()
	if err != nil {
		return nil, err
	}
	target := prog.path
	if prog.file != nil {
		target = executablePath(prog)
	}
	args, env, err := sandbox.Command(target, prog.args, prog.path, r)
	if err != nil {
		return nil, err
	}
	return &program{path: exe, args: args, file: prog.file, within: true, env: append(env, prog.env...)}, nil
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
