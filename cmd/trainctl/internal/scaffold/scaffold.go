package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/registry"
)

// templates are copies of the plugins in examples/, one folder for each kind; a
// test checks that they are equal.
//
//go:embed templates
var templates embed.FS

// exampleNames are the names of the examples, by kind.
var exampleNames = map[string]string{"backend": "star", "dataset": "spirals", "layer": "swish", "observer": "curve", "precision": "halving"}

const (
	pluginPrefix = "trainctl-plugin-"
	sourceModule = "github.com/trainctl/trainctl"
)

// Plugin is a plugin to create.
type Plugin struct {
	Kind   string // as in registry.Kinds
	Dir    string // must be new or empty
	Name   string // "": the name of Dir, without the prefix
	Module string // path of the Go module; "": one of example.com
	Lang   string // "go" or "python"; "": go

	mod  string // go.mod
	sums string // go.sum; empty when go mod tidy has to find them
}

// Create writes the plugin's files and returns how many there are besides hidden ones. The plugin is built
// against the trainctl of this version, or against its source in a folder if that is
// not "". An error with an exit code is a mistake of the user.
func (p *Plugin) Create(fsys afero.Fs, version, source string) (files int, err error) {
	if err := p.complete(); err != nil {
		return 0, err
	}
	list := p.files
	if p.python() {
		list = func() (map[string]string, error) { return p.script(fsys, source, version) }
	} else if err := p.require(fsys, source, version); err != nil {
		return 0, err
	}
	return p.write(fsys, list)
}

// Next returns the commands that build and test the new plugin.
func (p *Plugin) Next() (commands []string) {
	if p.python() {
		return []string{"pip install -r requirements.txt", "trainctl plugins test ./" + p.Name + ".py"}
	}
	if p.sums == "" {
		commands = append(commands, "go mod tidy") // which finds the versions of dependencies
	}
	return append(commands, "go test ./...", "go build -o "+p.binary()+" .", "trainctl plugins test ./"+p.binary())
}

// binary is the usual name of the plugin's executable.
func (p *Plugin) binary() string { return pluginPrefix + p.Name }

// refused is a request that cannot be fulfilled as it stands.
type refused string

func (e refused) Error() string { return string(e) }

// ExitCode is that of a mistake on the command line.
func (e refused) ExitCode() int { return launch.ExitConfig }

func refusedf(format string, args ...any) error { return refused(fmt.Sprintf(format, args...)) }

var pluginNames = pattern.Lazy{Expr: `^[a-z][a-z0-9]*(-[a-z0-9]+)*$`}

func (p *Plugin) complete() error {
	if exampleNames[p.Kind] == "" {
		return refusedf("KIND %q: use %s", p.Kind, registry.KindNames())
	}
	if p.Lang != "" && p.Lang != "go" && p.Lang != "python" {
		return refusedf("--lang %q: use go or python", p.Lang)
	}
	if p.Name == "" {
		abs, err := filepath.Abs(p.Dir)
		if err != nil {
			return err
		}
		p.Name = strings.TrimPrefix(filepath.Base(abs), pluginPrefix)
	}
	if !pluginNames.Get().MatchString(p.Name) {
		return refusedf("%q is not a valid plugin name: use lower-case words joined by -, with --name NAME", p.Name)
	}
	if p.Module == "" {
		p.Module = "example.com/" + pluginPrefix + p.Name
	}
	if strings.ContainsAny(p.Module, " \t\n\"'`()") {
		return refusedf("--module %q: a module's path has no spaces, quotes or brackets", p.Module)
	}
	return nil
}

// require decides which trainctl the module is built against. With --replace, the
// versions and checksums of dependencies are copied from that source.
func (p *Plugin) require(fsys afero.Fs, source, v string) error {
	if source == "" {
		if err := released(v); err != nil {
			return err
		}
		p.mod = fmt.Sprintf("module %s\n\ngo %s\n\nrequire %s %s\n", p.Module, goVersion, sourceModule, v)
		return nil
	}
	dir, mod, err := sourceFolder(fsys, source)
	if err != nil {
		return err
	}
	sums, err := afero.ReadFile(fsys, filepath.Join(dir, "go.sum"))
	if err != nil {
		return refusedf("--replace: %v", err)
	}
	_, rest, _ := strings.Cut(mod, "\n")
	p.mod = fmt.Sprintf("module %s\n%s\nrequire %s v0.0.0\n\nreplace %s => %q\n", p.Module, rest, sourceModule, sourceModule, dir)
	p.sums = string(sums)
	return nil
}

// released refuses a version that nobody can download.
func released(version string) error {
	if !strings.HasPrefix(version, "v") || strings.Contains(version, "+") {
		return refusedf("this trainctl (%s) was built from source without a released version; fix: give the folder of the source by --replace DIR", version)
	}
	return nil
}

// sourceFolder returns the absolute path of trainctl's source and its go.mod.
func sourceFolder(fsys afero.Fs, source string) (dir, mod string, err error) {
	if dir, err = filepath.Abs(source); err != nil {
		return "", "", err
	}
	text, err := afero.ReadFile(fsys, filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", "", refusedf("--replace: %v", err)
	}
	if !strings.HasPrefix(string(text), "module "+sourceModule+"\n") {
		return "", "", refusedf("--replace: %s is not the source of trainctl, whose go.mod has module %s", dir, sourceModule)
	}
	return dir, string(text), nil
}

const goVersion = "1.26.0"

// write creates the folder and its files, which list returns by name.
func (p *Plugin) write(fsys afero.Fs, list func() (map[string]string, error)) (n int, err error) {
	entries, err := afero.ReadDir(fsys, p.Dir)
	if err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, refusedf("%s is not an empty folder; fix: choose a new or empty folder", p.Dir)
	}
	files, err := list()
	if err != nil {
		return 0, err
	}
	if err := fsys.MkdirAll(p.Dir, 0o755); err != nil {
		return 0, err
	}
	for name, text := range files {
		if err := afero.WriteFile(fsys, filepath.Join(p.Dir, name), []byte(text), mode(text)); err != nil {
			return 0, fmt.Errorf("%w; the new plugin is incomplete: remove %s", err, p.Dir)
		}
		if !strings.HasPrefix(name, ".") {
			n++
		}
	}
	return n, nil
}

// mode is that of a new file: scripts can be executed.
func mode(text string) fs.FileMode {
	if strings.HasPrefix(text, "#!") {
		return 0o755
	}
	return 0o644
}

// files returns the template's files, by name, with the plugin's names in them.
func (p *Plugin) files() (map[string]string, error) {
	old := exampleNames[p.Kind]
	rename := strings.NewReplacer(
		"example.com/"+pluginPrefix+old, p.Module,
		pluginPrefix+old, pluginPrefix+p.Name,
		fmt.Sprintf("%q", old), fmt.Sprintf("%q", p.Name),
		" See README.md.", "",
	)
	out := map[string]string{"go.mod": p.mod, ".gitignore": "/" + pluginPrefix + p.Name + "\n"}
	if p.sums != "" {
		out["go.sum"] = p.sums
	}
	dir := "templates/" + p.Kind
	entries, err := templates.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := templates.ReadFile(dir + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(e.Name(), ".txt")] = rename.Replace(string(text))
	}
	return out, nil
}
