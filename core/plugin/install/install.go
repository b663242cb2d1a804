package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// Request says what to install.
type Request struct {
	Source string       // a folder, an executable, an archive, an https address, or MODULE@VERSION
	SHA256 string       // the sum of an archive or executable, hexadecimal; an address needs it
	Name   string       // to install it under, "": its own
	Force  bool         // replace the same version if it is installed
	Dir    string       // the folder of installed plugins
	Host   *host.Host   // starts the plugin to see what it is
	Client *http.Client // for addresses; nil: http.DefaultClient
	Limits Limits       // zero: [DefaultLimits]
}

// Limits bound what a source may contain.
type Limits struct {
	Download int64         // bytes of a file that is fetched
	Silence  time.Duration // how long a server may send nothing; 0: for ever
	Bytes    int64         // of all files that are unpacked
	Files    int           // and folders
}

// DefaultLimits leave room for a Python environment with its libraries.
var DefaultLimits = Limits{Download: 4 << 30, Silence: time.Minute, Bytes: 16 << 30, Files: 500_000}

// Receipt describes an installed plugin. It lies beside the plugin's folder.
type Receipt struct {
	Kind    sdk.Kind   `json:"kind"` // or registry.AnyKind
	Name    string     `json:"name"`
	Version string     `json:"version"`
	Kinds   []sdk.Kind `json:"kinds"`            // that it serves
	Source  string     `json:"source"`           // as in the request; of an address without user and query, which may be secret
	SHA256  string     `json:"sha256,omitempty"` // of the archive or executable
	Path    string     `json:"path,omitempty"`   // the plugin's folder
}

// id is the name of the plugin's folder.
func (r *Receipt) id() string {
	p := registry.Plugin{Kind: r.Kind, Name: r.Name, Version: r.Version}
	return p.ID()
}

// Install installs a plugin: it fetches it, starts it once to see its kind, name and
// version, and moves it to its place. A bundle may have several plugins, which are verified
// and not started.
func Install(ctx context.Context, r Request) ([]Receipt, error) {
	if r.Limits == (Limits{}) {
		r.Limits = DefaultLimits
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("the folder of installed plugins cannot be created: %w; fix: set XDG_DATA_HOME to a folder that you may write, or put the plugin into a folder of %s", err, registry.EnvPath)
	}
	removeStale(r.Dir)
	stage, err := os.MkdirTemp(r.Dir, staging)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(stage)
	s := &stager{Request: r, dir: filepath.Join(stage, "plugin"), tmp: stage}
	if err := s.fetch(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Source, err)
	}
	all, err := s.install(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Source, err)
	}
	return all, nil
}

// install installs what was fetched.
func (s *stager) install(ctx context.Context) ([]Receipt, error) {
	m, err := s.bundled()
	if err != nil {
		return nil, err
	}
	if m != nil {
		return s.installAll(m)
	}
	if err := checkLinks(s.dir); err != nil {
		return nil, err
	}
	r, err := s.identify(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.commit(r); err != nil {
		return nil, err
	}
	return []Receipt{*r}, nil
}

// staging starts the names of temporary folders.
const staging = ".installing-"

// removeStale removes temporary folders of installations that were killed.
func removeStale(dir string) {
	entries, _ := os.ReadDir(dir) // what cannot be read is left
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), staging) && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // another one will try again
		}
	}
}

// stager holds a plugin on its way.
type stager struct {
	Request
	tmp     string // removed at the end
	dir     string // what becomes the plugin's folder
	version string // of the module; "" if the plugin is to be asked
	sum     string // of what was fetched
}

// Names and versions become parts of paths.
var (
	goodName    = pattern.Lazy{Expr: `^[a-z0-9][a-z0-9._-]{0,99}$`}
	goodVersion = pattern.Lazy{Expr: `^[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}$`}
)

// identify starts the plugin and puts its executable under its final name.
func (s *stager) identify(ctx context.Context) (*Receipt, error) {
	exe, found, err := s.executable()
	if err != nil {
		return nil, err
	}
	kinds := registry.Kinds
	if found.Kind != "" && found.Kind != registry.AnyKind {
		kinds = []sdk.Kind{found.Kind}
	}
	receipt := &Receipt{Source: public(s.Source), SHA256: s.sum}
	var first error
	for _, kind := range kinds {
		info, err := s.probe(ctx, kind, exe)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		receipt.Kinds = append(receipt.Kinds, kind)
		receipt.Name = cmp.Or(s.Name, found.Name, info.Name)
		receipt.Version = cmp.Or(strings.TrimPrefix(s.version, "v"), found.Version, strings.TrimPrefix(info.Version, "v"))
	}
	if len(receipt.Kinds) == 0 && len(kinds) > 1 {
		return nil, host.OfAnyKind(first)
	} else if len(receipt.Kinds) == 0 {
		return nil, first
	}
	receipt.Kind = receipt.Kinds[0]
	if len(receipt.Kinds) > 1 {
		receipt.Kind = registry.AnyKind
	}
	if err := s.check(receipt); err != nil {
		return nil, err
	}
	bare := registry.Plugin{Kind: receipt.Kind, Name: receipt.Name}
	return receipt, os.Rename(exe, filepath.Join(s.dir, bare.ID()))
}

// probe starts the plugin in the sandbox of a data set, whatever its kind: to describe itself
// even a backend needs no network.
func (s *stager) probe(ctx context.Context, kind sdk.Kind, exe string) (sdk.Info, error) {
	rules := host.DefaultPlugins().Rules(sdk.KindDataset, false, false, nil)
	return s.Host.WithTerms(map[host.Key]host.Terms{{Kind: kind, Plugin: exe}: {Sandbox: rules}}).Probe(ctx, kind, exe)
}

func (s *stager) check(r *Receipt) error {
	switch {
	case !goodName.Get().MatchString(r.Name):
		return fmt.Errorf("%q cannot be the name of an installed plugin; choose one of lower-case letters, digits, dots and dashes with --name", r.Name)
	case !goodVersion.Get().MatchString(r.Version):
		return fmt.Errorf("its version %q cannot be part of a file name; it should read like 1.2.0", r.Version)
	}
	for _, kind := range r.Kinds {
		if s.Host.BuiltIn(kind, r.Name) {
			return fmt.Errorf("a built-in %s plugin is named %q, so it could not be used by this name; choose another with --name", kind, r.Name)
		}
	}
	return nil
}

// executable finds the executable at the top of the folder: the one that has the name of
// a plugin, or the only one.
func (s *stager) executable() (path string, found registry.Plugin, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return "", found, err
	}
	var named, all []string
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		if registry.Check(path) != nil {
			continue
		}
		all = append(all, path)
		if _, ok := registry.Parse(e.Name()); ok {
			named = append(named, path)
		}
	}
	switch {
	case len(named) == 1:
		found, _ = registry.Parse(filepath.Base(named[0]))
		return named[0], found, nil
	case len(named) == 0 && len(all) == 1:
		return all[0], found, nil
	case len(all) == 0:
		return "", found, errors.New("it contains no executable; it should have one named trainctl-KIND-NAME at its top")
	}
	for i, path := range all {
		all[i] = filepath.Base(path)
	}
	return "", found, fmt.Errorf("it contains several executables (%s); exactly one should be named trainctl-KIND-NAME", strings.Join(all, ", "))
}

// commit moves the plugin to its place.
func (s *stager) commit(r *Receipt) error {
	r.Path = filepath.Join(s.Dir, r.id())
	stored := *r
	stored.Path = ""
	text, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	receipt := filepath.Join(s.tmp, "receipt")
	if err := os.WriteFile(receipt, append(text, '\n'), 0o644); err != nil {
		return err
	}
	_, err = os.Lstat(r.Path)
	switch {
	case err != nil:
		err = os.Rename(s.dir, r.Path)
	case !s.Force:
		return fmt.Errorf("%s %s is already installed in %s; remove it first, or replace it with --force", r.Name, r.Version, r.Path)
	default:
		err = s.replace(r.Path)
	}
	return errors.Join(err, os.Rename(receipt, r.Path+".json"))
}

// replace puts the plugin in the place of the one that is installed there: in one step, so that
// there is always one of the two, if the file system can do that.
func (s *stager) replace(path string) error {
	if exchange(s.dir, path) == nil {
		return nil
	}
	old := filepath.Join(s.tmp, "replaced-"+filepath.Base(path))
	if err := os.Rename(path, old); err != nil {
		return err
	}
	err := os.Rename(s.dir, path)
	if err != nil {
		err = errors.Join(err, os.Rename(old, path))
	}
	return err
}

// List returns the receipts of installed plugins, by name and version. A folder without
// one has what its name says.
func List(dir string) (all []Receipt) {
	for _, p := range (registry.Search{{Path: dir}}).All() {
		if p.Root == "" || p.Version == "" {
			continue
		}
		all = append(all, receiptOf(&p))
	}
	return all
}

// Remove removes the installed plugins of a name: all versions, or one. Kind selects one
// if plugins of several kinds have the name. It returns what it has removed.
func Remove(dir string, kind sdk.Kind, name, version string) (removed []Receipt, err error) {
	all := List(dir)
	var match []Receipt
	kinds := map[sdk.Kind]bool{}
	for _, r := range all {
		if r.Name == name && (version == "" || r.Version == version) && (kind == "" || r.Kind == kind || slices.Contains(r.Kinds, kind)) {
			match = append(match, r)
			kinds[r.Kind] = true
		}
	}
	switch {
	case len(match) == 0:
		return nil, notInstalled(dir, name, version, all)
	case len(kinds) > 1:
		return nil, fmt.Errorf("plugins of several kinds are named %s; choose one with --kind", name)
	}
	for _, r := range match {
		if err := remove(dir, r.Path); err != nil {
			return removed, err
		}
		removed = append(removed, r)
	}
	return removed, nil
}

// NotInstalledError reports that a folder has no plugin of a name and a version.
type NotInstalledError struct {
	Dir, Plugin string
	Installed   []string // NAME@VERSION of the plugins in it
}

func (e *NotInstalledError) Error() string {
	if len(e.Installed) == 0 {
		return fmt.Sprintf("%s is not installed in %s, which has no plugins; built-in plugins cannot be removed", e.Plugin, e.Dir)
	}
	return fmt.Sprintf("%s is not installed in %s; installed are %s", e.Plugin, e.Dir, strings.Join(e.Installed, ", "))
}

func notInstalled(dir, name, version string, all []Receipt) error {
	e := &NotInstalledError{Dir: dir, Plugin: name}
	for _, r := range all {
		e.Installed = append(e.Installed, r.Name+"@"+r.Version)
	}
	if version != "" {
		e.Plugin += "@" + version
	}
	return e
}

// remove renames a plugin's folder before it deletes it, so that no half of it is found.
func remove(dir, path string) error {
	tmp, err := os.MkdirTemp(dir, staging)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Rename(path, filepath.Join(tmp, "removed")); err != nil {
		return err
	}
	if err := os.Remove(path + ".json"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
