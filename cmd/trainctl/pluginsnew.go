package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"
)

// templates are copies of the plugins in examples/, one folder for each kind; a
// test checks that they are equal.
//
//go:embed templates
var templates embed.FS

// exampleNames are the names of the examples, by kind.
var exampleNames = map[string]string{"backend": "star", "dataset": "spirals", "precision": "halving"}

const (
	pluginPrefix = "trainctl-plugin-"
	sourceModule = "github.com/trainctl/trainctl"
)

func pluginsNewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new KIND DIR",
		Short: "Create a working plugin as a starting point",
		Long: `Write a Go module with a plugin of KIND (backend, dataset or precision) to DIR,
which must be new or empty. It builds and passes the conformance suite; replace
its small example with your own code.`,
		Example: `  trainctl plugins new dataset ./mydata
  trainctl plugins new backend ./fabric --module example.org/fabric --replace ~/src/trainctl`,
		Args: exactly("KIND", "DIR"),
	}
	f := cmd.Flags()
	name := f.String("name", "", "name the plugin `NAME`; default: the name of the folder")
	module := f.String("module", "", "set the path of the Go module to `PATH`; default: example.com/trainctl-plugin-NAME")
	replace := f.String("replace", "", "build against the source of trainctl in `DIR` instead of a released version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := newPlugin{Kind: args[0], Dir: filepath.Clean(args[1]), Name: *name, Module: *module}
		if err := p.complete(); err != nil {
			return err
		}
		fsys := afero.NewOsFs()
		if err := p.require(fsys, *replace); err != nil {
			return err
		}
		files, err := p.write(fsys)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "%s: a %s plugin in %d files\nnext:\n  cd %s\n", p.Dir, p.Kind, files, p.Dir)
		if p.sums == "" {
			fmt.Fprintln(w, "  go mod tidy")
		}
		_, err = fmt.Fprintf(w, "  go test ./...\n  go build -o %[1]s%[2]s .\n  trainctl plugins test ./%[1]s%[2]s\n", pluginPrefix, p.Name)
		return err
	}
	return cmd
}

// newPlugin is a plugin to be written.
type newPlugin struct {
	Kind, Dir, Name, Module string

	mod  string // go.mod
	sums string // go.sum; empty when go mod tidy has to find them
}

var pluginNames = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

func (p *newPlugin) complete() error {
	if exampleNames[p.Kind] == "" {
		return usagef("KIND %q: use backend, dataset or precision", p.Kind)
	}
	if p.Name == "" {
		abs, err := filepath.Abs(p.Dir)
		if err != nil {
			return err
		}
		p.Name = strings.TrimPrefix(filepath.Base(abs), pluginPrefix)
	}
	if !pluginNames.MatchString(p.Name) {
		return usagef("%q is not a valid plugin name: use lower-case words joined by -, with --name NAME", p.Name)
	}
	if p.Module == "" {
		p.Module = "example.com/" + pluginPrefix + p.Name
	}
	if strings.ContainsAny(p.Module, " \t\n\"'`()") {
		return usagef("--module %q: a module's path has no spaces, quotes or brackets", p.Module)
	}
	return nil
}

// require decides which trainctl the module is built against. With --replace, the
// versions and checksums of dependencies are copied from that source.
func (p *newPlugin) require(fsys afero.Fs, source string) error {
	if source == "" {
		v := version()
		if !strings.HasPrefix(v, "v") || strings.Contains(v, "+") {
			return usagef("this trainctl (%s) was built from source without a released version; fix: give the folder of the source by --replace DIR", v)
		}
		p.mod = fmt.Sprintf("module %s\n\ngo %s\n\nrequire %s %s\n", p.Module, goVersion, sourceModule, v)
		return nil
	}
	dir, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	mod, err := afero.ReadFile(fsys, filepath.Join(dir, "go.mod"))
	if err != nil {
		return usagef("--replace: %v", err)
	}
	if !strings.HasPrefix(string(mod), "module "+sourceModule+"\n") {
		return usagef("--replace: %s is not the source of trainctl, whose go.mod has module %s", dir, sourceModule)
	}
	sums, err := afero.ReadFile(fsys, filepath.Join(dir, "go.sum"))
	if err != nil {
		return usagef("--replace: %v", err)
	}
	_, rest, _ := strings.Cut(string(mod), "\n")
	p.mod = fmt.Sprintf("module %s\n%s\nrequire %s v0.0.0\n\nreplace %s => %q\n", p.Module, rest, sourceModule, sourceModule, dir)
	p.sums = string(sums)
	return nil
}

const goVersion = "1.26.0"

// write creates the folder and its files.
func (p *newPlugin) write(fsys afero.Fs) (n int, err error) {
	entries, err := afero.ReadDir(fsys, p.Dir)
	if err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, usagef("%s is not an empty folder; fix: choose a new or empty folder", p.Dir)
	}
	files, err := p.files()
	if err != nil {
		return 0, err
	}
	if err := fsys.MkdirAll(p.Dir, 0o755); err != nil {
		return 0, err
	}
	for name, text := range files {
		if err := afero.WriteFile(fsys, filepath.Join(p.Dir, name), []byte(text), 0o644); err != nil {
			return 0, fmt.Errorf("%w; the new plugin is incomplete: remove %s", err, p.Dir)
		}
	}
	return len(files), nil
}

// files returns the template's files, by name, with the plugin's names in them.
func (p *newPlugin) files() (map[string]string, error) {
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

// templateName returns the name of an example's file among the templates, "" for
// files that new plugins do not have.
func templateName(kind, file string) string {
	if slices.Contains([]string{"README.md", "go.mod", "go.sum", ".gitignore"}, file) {
		return ""
	}
	file = strings.Replace(file, exampleNames[kind]+".toml", "train.toml", 1)
	return strings.Replace(file, exampleNames[kind], kind, 1) + ".txt"
}
