package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/trainctl/trainctl/core/base/similar"
	"github.com/trainctl/trainctl/core/sdk"
)

// EnvPath is the variable with the folders that are searched first, separated as in PATH.
const EnvPath = "TRAINCTL_PLUGIN_PATH"

// Kinds are the kinds of plugins. A file for AnyKind may serve several.
var Kinds = []sdk.Kind{sdk.KindBackend, sdk.KindDataset, sdk.KindLayer, sdk.KindObserver, sdk.KindPrecision}

// Table is the table of the configuration for plugins of a kind.
func Table(kind sdk.Kind) string {
	lists := map[sdk.Kind]string{sdk.KindObserver: "observers", sdk.KindLayer: "layer_plugins"}
	return cmp.Or(lists[kind], string(kind))
}

// KindNames lists the kinds for messages.
func KindNames() string {
	var b strings.Builder
	for i, k := range Kinds {
		switch i {
		case 0:
		case len(Kinds) - 1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}

// AnyKind is the kind in the name of a file that does not say which one it serves.
const AnyKind sdk.Kind = "plugin"

// Folder is a folder that is searched for plugins.
type Folder struct {
	Path   string
	Origin string // why it is searched: "TRAINCTL_PLUGIN_PATH", "installed", "VIRTUAL_ENV", "beside trainctl"
}

// Search holds the folders that are searched for plugins, the first one first.
type Search []Folder

// Folders returns the folders to search: those of TRAINCTL_PLUGIN_PATH, that of installed
// plugins, that of the active virtual environment of Python, to which pip installs programs,
// and the one in which the executable lies.
func Folders(exe string) Search {
	var s Search
	for _, dir := range filepath.SplitList(os.Getenv(EnvPath)) {
		if dir != "" {
			s = append(s, Folder{Expand(dir), EnvPath})
		}
	}
	if dir, err := Installed(); err == nil {
		s = append(s, Folder{dir, "installed"})
	}
	for _, environment := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := os.Getenv(environment); dir != "" {
			s = append(s, Folder{filepath.Join(dir, "bin"), environment})
		}
	}
	if exe != "" {
		s = append(s, Folder{filepath.Dir(exe), "beside trainctl"})
	}
	return s
}

// Installed is the folder of installed plugins: trainctl/plugins in XDG_DATA_HOME if
// that is set, else .trainctl/plugins in the home folder.
func Installed() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // relative paths are to be ignored: XDG Base Directory Specification
		return filepath.Join(dir, "trainctl", "plugins"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".trainctl", "plugins"), err
}

// Expand replaces ~ at the start of a path by the home folder.
func Expand(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	home, err := os.UserHomeDir()
	if !ok || rest != "" && rest[0] != '/' || err != nil {
		return path
	}
	return home + rest
}

// Plugin is a plugin that was found by its name.
type Plugin struct {
	Kind    sdk.Kind // or AnyKind
	Name    string
	Version string // in the name of the file or folder; "" if there is none
	Path    string // of the executable
	Root    string // folder that holds everything it consists of; "" for a single file
	Folder  Folder
}

// ID is the plugin's name in its folder, such as "trainctl-dataset-mine@1.2.0".
func (p *Plugin) ID() string {
	id := prefix + string(p.Kind) + "-" + p.Name
	if p.Version != "" {
		id += "@" + p.Version
	}
	return id
}

// prefix starts the names of files and folders of plugins.
const prefix = "trainctl-"

// Parse reads "trainctl-KIND-NAME" or "trainctl-KIND-NAME@VERSION".
func Parse(entry string) (p Plugin, ok bool) {
	rest, ok := strings.CutPrefix(entry, prefix)
	kind, rest, named := strings.Cut(rest, "-")
	p.Kind = sdk.Kind(kind)
	p.Name, p.Version, _ = strings.Cut(rest, "@")
	return p, ok && named && p.Name != "" && (p.Kind == AnyKind || slices.Contains(Kinds, p.Kind))
}

// read lists the plugins in a folder. One that cannot be read has none.
func (f Folder) read() (found []Plugin) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		p, ok := Parse(e.Name())
		if !ok {
			continue
		}
		p.Folder, p.Path = f, filepath.Join(f.Path, e.Name())
		info, err := os.Stat(p.Path)
		if err == nil && info.IsDir() {
			p.Root = p.Path
			p.Path = filepath.Join(p.Root, prefix+string(p.Kind)+"-"+p.Name)
		}
		if Check(p.Path) == nil {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, newestFirst)
	return found
}

// newestFirst orders plugins by name and then by version: releases, the newest first,
// pre-releases, and last those without a version.
func newestFirst(a, b Plugin) int {
	va, ra := a.rank()
	vb, rb := b.rank()
	newer := 0
	if ra == rb && va != nil {
		newer = vb.Compare(va)
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), ra-rb, newer, strings.Compare(string(a.Kind), string(b.Kind)))
}

// rank is the version, nil if there is none, and how early it is taken, 0 first.
func (p *Plugin) rank() (*version.Version, int) {
	v, err := version.NewVersion(p.Version)
	switch {
	case err != nil:
		return nil, 2
	case v.Prerelease() != "":
		return v, 1
	}
	return v, 0
}

// All lists the plugins in all folders, in the order of the search.
func (s Search) All() (all []Plugin) {
	seen := map[string]bool{}
	for _, f := range s {
		if path := filepath.Clean(f.Path); !seen[path] {
			seen[path] = true
			all = append(all, f.read()...)
		}
	}
	return all
}

// Find returns the first plugin of a kind and name whose version satisfies a constraint:
// of the first folder that has one, the newest. One without a version in its name is taken
// too; its version must be compared when it has started. The error is a *Problem that
// says where it looked; builtin are names that exist without a file.
func (s Search) Find(kind sdk.Kind, name, constraint string, builtin []string) (Plugin, error) {
	want, err := ParseConstraint(constraint)
	if err != nil {
		return Plugin{}, &Problem{Text: err.Error(), Err: err}
	}
	return s.find(kind, name, constraint, func(v string) bool { return v == "" || want.allows(v) == nil }, builtin)
}

// FindVersion is Find for one version, which need not be a version number.
func (s Search) FindVersion(kind sdk.Kind, name, version string, builtin []string) (Plugin, error) {
	return s.find(kind, name, "= "+version, func(v string) bool { return v == "" || v == version || Allow("= "+version, v) == nil }, builtin)
}

func (s Search) find(kind sdk.Kind, name, constraint string, takes func(version string) bool, builtin []string) (Plugin, error) {
	var other, known []string
	for _, p := range s.All() {
		if p.Kind != kind && p.Kind != AnyKind {
			continue
		}
		known = append(known, p.Name)
		if p.Name != name {
			continue
		}
		if takes(p.Version) {
			return p, nil
		}
		other = append(other, p.Version)
	}
	if len(other) > 0 {
		return Plugin{}, &Problem{Text: fmt.Sprintf("no version satisfies %q; found: %s", constraint, strings.Join(other, ", ")),
			Help: "install another version with trainctl plugins install, or change the key version"}
	}
	return Plugin{}, s.unknown(kind, name, append(known, builtin...))
}

// unknown is the error for a name that no plugin has.
func (s Search) unknown(kind sdk.Kind, name string, known []string) *Problem {
	slices.Sort(known)
	help := "known: " + strings.Join(slices.Compact(known), ", ") + "; the path of an executable needs a slash, as in ./" + name
	return &Problem{Help: near(name, known) + help, Err: fs.ErrNotExist,
		Text: fmt.Sprintf("it is not built in, and there is no executable %s%s-%s in %s", prefix, kind, name, s.Places())}
}

// near suggests the name that is probably meant, "" if none is similar.
func near(name string, known []string) string {
	if n := similar.Nearest(name, known, max(1, len(name)/3)); n != "" {
		return "did you mean " + n + "? "
	}
	return ""
}

// Places says where plugins are looked for, for messages.
func (s Search) Places() string {
	var places []string
	if os.Getenv(EnvPath) == "" {
		places = append(places, EnvPath+" (not set)")
	}
	for _, f := range s {
		place := f.Path
		if _, err := os.Stat(f.Path); errors.Is(err, fs.ErrNotExist) {
			place += " (no such folder)"
		}
		places = append(places, place)
	}
	return strings.Join(places, ", ")
}

// Constraint limits the versions of a plugin. The zero value allows all.
type Constraint struct {
	text string
	list version.Constraints
}

// ParseConstraint parses a constraint such as "~> 1.2" (1.2 or newer, but older than 2) or
// ">= 1.2, < 1.5"; "" allows all versions.
func ParseConstraint(text string) (Constraint, error) {
	if text == "" {
		return Constraint{}, nil
	}
	list, err := version.NewConstraint(text)
	if err != nil {
		return Constraint{}, fmt.Errorf("%q is not a version constraint", text)
	}
	return Constraint{text, list}, nil
}

// Allow returns why a constraint does not allow a version, nil if it does.
func Allow(constraint, v string) error {
	c, err := ParseConstraint(constraint)
	if err != nil {
		return err
	}
	return c.allows(v)
}

func (c Constraint) allows(v string) error {
	if c.list == nil {
		return nil
	}
	parsed, err := version.NewVersion(v)
	switch {
	case err != nil:
		return fmt.Errorf("its version %q is not a version number that %q could be compared with", v, c.text)
	case !c.list.Check(parsed):
		return fmt.Errorf("its version is %s, which %q does not allow", v, c.text)
	}
	return nil
}
