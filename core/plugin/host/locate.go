package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// builtinArg is the first argument of a process that serves a built-in plugin.
const builtinArg = "plugin"

// ServeBuiltin serves a built-in plugin and does not return if args, the command
// line without the program's name, is "plugin KIND NAME" for one of them.
// Otherwise it returns false at once.
func ServeBuiltin(builtins []Builtin, args []string) bool {
	if len(args) > 1 && args[0] == sandboxArg {
		serveSandboxed(args[1:])
	}
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

// IsPath reports whether the plugin's name in the TOML is a path.
func IsPath(plugin string) bool { return strings.ContainsRune(plugin, '/') }

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
	if !IsPath(name) {
		return h.locateBuiltin(kind, name)
	}
	if failed := executable(kind, name); failed != nil {
		return nil, failed
	}
	sum := h.opts.Checksums[name]
	if sum == "" {
		return &program{path: name}, nil
	}
	f, err := verified(name, sum)
	if err != nil {
		return nil, &StartError{Kind: kind, Name: name, Problem: err.Error(), Err: err,
			Help: "if this file is the right one, write its sum with trainctl plugins lock CONFIG"}
	}
	return &program{path: name, file: f}, nil
}

// executable returns why the file of a plugin cannot be executed, nil if no reason
// is known.
func executable(kind sdk.Kind, name string) *StartError {
	failed := func(err error, help, problem string) *StartError {
		return &StartError{Kind: kind, Name: name, Problem: problem, Help: help, Err: err}
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed(err, "build the plugin or correct the path, which is relative to the working directory", "no such file")
	case err != nil:
		return failed(err, "", err.Error())
	case info.IsDir():
		return failed(nil, "give the path of the executable in it", "it is a directory")
	case info.Mode()&0o111 == 0:
		return failed(nil, "chmod +x "+usererr.Shell(name), "the file is not executable")
	}
	return nil
}

func (h *Host) locateBuiltin(kind sdk.Kind, name string) (*program, *StartError) {
	b := h.builtin(kind, name)
	if b == nil {
		return nil, &StartError{Kind: kind, Name: name, Problem: "there is no built-in plugin of this name", Help: h.suggest(kind)}
	}
	exe, err := h.exe()
	if err != nil {
		return nil, &StartError{Kind: kind, Name: name, Problem: err.Error(), Err: err}
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
