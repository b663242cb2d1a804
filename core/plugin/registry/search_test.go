package registry_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// put creates executables, given by their paths in a folder.
func put(t *testing.T, dir string, paths ...string) {
	t.Helper()
	for _, p := range paths {
		path := filepath.Join(dir, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(p), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// found lists two folders of plugins, the first with older versions.
func found(t *testing.T) (s registry.Search, first, second string) {
	t.Helper()
	first, second = t.TempDir(), t.TempDir()
	put(t, first, "trainctl-dataset-mine@1.2.0/trainctl-dataset-mine", "trainctl-dataset-mine@1.10.0/trainctl-dataset-mine",
		"trainctl-dataset-mine@2.0.0-rc1/trainctl-dataset-mine", "trainctl-dataset-mine@3.0.0/other", "trainctl-backend-fabric", "trainctl-nothing-x", "README")
	put(t, second, "trainctl-dataset-mine@2.1.0", "trainctl-plugin-both", "trainctl-precision-fabric")
	return registry.Search{{Path: first, Origin: "a"}, {Path: second, Origin: "b"}}, first, second
}

func TestFind(t *testing.T) {
	s, first, second := found(t)
	for _, c := range []struct {
		kind             sdk.Kind
		name, constraint string
		path, version    string
	}{
		{sdk.KindDataset, "mine", "", first + "/trainctl-dataset-mine@1.10.0/trainctl-dataset-mine", "1.10.0"},
		{sdk.KindDataset, "mine", "~> 1.2", first + "/trainctl-dataset-mine@1.10.0/trainctl-dataset-mine", "1.10.0"},
		{sdk.KindDataset, "mine", "~> 1.2.0", first + "/trainctl-dataset-mine@1.2.0/trainctl-dataset-mine", "1.2.0"},
		{sdk.KindDataset, "mine", "= 2.0.0-rc1", first + "/trainctl-dataset-mine@2.0.0-rc1/trainctl-dataset-mine", "2.0.0-rc1"},
		{sdk.KindDataset, "mine", ">= 2", second + "/trainctl-dataset-mine@2.1.0", "2.1.0"},
		{sdk.KindBackend, "fabric", "", first + "/trainctl-backend-fabric", ""},
		{sdk.KindPrecision, "fabric", "~> 1.0", second + "/trainctl-precision-fabric", ""},
		{sdk.KindBackend, "both", "", second + "/trainctl-plugin-both", ""},
		{sdk.KindDataset, "both", "", second + "/trainctl-plugin-both", ""},
	} {
		p, err := s.Find(c.kind, c.name, c.constraint, nil)
		if err != nil || p.Path != c.path || p.Version != c.version {
			t.Errorf("%s %s %q: found %s version %q, %v; want %s", c.kind, c.name, c.constraint, p.Path, p.Version, err, c.path)
		}
	}
}

func TestNotFound(t *testing.T) {
	t.Setenv(registry.EnvPath, "")
	s, first, _ := found(t)
	gone := filepath.Join(first, "gone")
	s = append(s, registry.Folder{Path: gone})
	for _, c := range []struct {
		kind             sdk.Kind
		name, constraint string
		want             []string
	}{
		{sdk.KindDataset, "mime", "", []string{"no executable trainctl-dataset-mime in TRAINCTL_PLUGIN_PATH (not set), " + first, gone + " (no such folder)", "did you mean mine? known: both, mine, mnist; "}},
		{sdk.KindBackend, "mine", "", []string{"no executable trainctl-backend-mine", "known: both, fabric, mnist; ", "needs a slash, as in ./mine"}},
		{sdk.KindDataset, "mine", "~> 4.0", []string{`no version satisfies "~> 4.0"; found: 1.10.0, 1.2.0, 2.0.0-rc1, 2.1.0; install another version`}},
		{sdk.KindDataset, "mine", "new", []string{`"new" is not a version constraint`}},
	} {
		_, err := s.Find(c.kind, c.name, c.constraint, []string{"mnist"})
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s %q: want %q, got %v", c.kind, c.name, c.constraint, want, err)
			}
		}
		if errors.Is(err, fs.ErrNotExist) != (c.constraint == "") {
			t.Errorf("%s %s %q: %v has the wrong cause", c.kind, c.name, c.constraint, err)
		}
	}
}

// A locked version is found by what the name of the file says, even if that is no number.
func TestFindVersion(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "trainctl-dataset-mine@nightly")
	put(t, dir, "trainctl-dataset-mine@1.0.0")
	s := registry.Search{{Path: dir}}
	for version, want := range map[string]string{"nightly": "nightly", "1.0.0": "1.0.0", "v1.0": "1.0.0"} {
		if p, err := s.FindVersion(sdk.KindDataset, "mine", version, nil); err != nil || p.Version != want {
			t.Errorf("%s: %+v, %v", version, p, err)
		}
	}
	if _, err := s.FindVersion(sdk.KindDataset, "mine", "weekly", nil); err == nil || !strings.Contains(err.Error(), `no version satisfies "= weekly"; found: 1.0.0, nightly`) {
		t.Errorf("another version: %v", err)
	}
}

func TestFolders(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv(registry.EnvPath, "~/mine:/site")
	t.Setenv("VIRTUAL_ENV", "/venv")
	t.Setenv("CONDA_PREFIX", "")
	got := registry.Folders("/usr/bin/trainctl")
	want := registry.Search{{home + "/mine", registry.EnvPath}, {"/site", registry.EnvPath}, {home + "/.trainctl/plugins", "installed"}, {"/venv/bin", "VIRTUAL_ENV"}, {"/usr/bin", "beside trainctl"}}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	t.Setenv("XDG_DATA_HOME", "/data")
	if dir, err := registry.Installed(); err != nil || dir != "/data/trainctl/plugins" {
		t.Errorf("with XDG_DATA_HOME: %s, %v", dir, err)
	}
	for path, want := range map[string]string{"~/x": home + "/x", "~": home, "~other/x": "~other/x", "a~/x": "a~/x", "/x": "/x"} {
		if got := registry.Expand(path); got != want {
			t.Errorf("Expand(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestAllow(t *testing.T) {
	for _, c := range []struct{ constraint, version, want string }{
		{"", "anything", ""}, {"~> 1.2", "1.9.3", ""}, {">= 1.2, < 1.5", "v1.4", ""},
		{"~> 1.2", "2.0.0", `its version is 2.0.0, which "~> 1.2" does not allow`},
		{"~> 1.2", "devel", `its version "devel" is not a version number that "~> 1.2" could be compared with`},
	} {
		err := registry.Allow(c.constraint, c.version)
		if got := ""; err != nil && err.Error() != c.want || err == nil && c.want != got {
			t.Errorf("Allow(%q, %q): %v, want %q", c.constraint, c.version, err, c.want)
		}
	}
}

// A sum covers the files of a folder that is found through a symbolic link, and the content of
// an executable that is one.
func TestTreeSumFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "real/data", "outside")
	exe := filepath.Join(dir, "real", "trainctl-dataset-mine")
	link := filepath.Join(dir, "trainctl-dataset-mine@1.0.0")
	if err := errors.Join(os.Symlink("real", link), os.Symlink("../outside", exe)); err != nil {
		t.Fatal(err)
	}
	sum := func() string {
		p, err := registry.Search{{Path: dir}}.Find(sdk.KindDataset, "mine", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.TreeSum()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seen := map[string]string{sum(): "nothing"}
	for _, name := range []string{"real/data", "outside"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("changed"), 0o755); err != nil {
			t.Fatal(err)
		}
		if before, again := seen[sum()]; again {
			t.Errorf("after a change of %s the sum is that after a change of %s", name, before)
		}
		seen[sum()] = name
	}
}
