package plugins

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/install"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// A configuration's name with a space is quoted in the command that locks its plugins.
func TestUnlockedErrorQuotesFiles(t *testing.T) {
	e := &unlockedError{config: "my runs/it's.toml", plugins: []string{"./mine"}}
	if want := `run trainctl plugins lock 'my runs/it'\''s.toml'`; !strings.Contains(e.Error(), want) {
		t.Errorf("%v: want %s", e, want)
	}
}

// A bundle has the version that is locked, although a newer one is installed, and refuses it if
// its files have changed.
func TestNamedPluginsAreThoseOfTheLock(t *testing.T) {
	dir := t.TempDir()
	exe := func(version string) string {
		return filepath.Join(dir, "trainctl-dataset-mine@"+version, "trainctl-dataset-mine")
	}
	for _, v := range []string{"1.0.0", "2.0.0"} {
		if err := errors.Join(os.Mkdir(filepath.Dir(exe(v)), 0o755), os.WriteFile(exe(v), []byte(v), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	search := registry.Search{{Path: dir}}
	old, err := search.Find(sdk.KindDataset, "mine", "= 1.0.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := install.Entry(&old)
	if err != nil {
		t.Fatal(err)
	}
	h, text := host.New(host.Options{Search: search}), []byte("[dataset]\nplugin = \"mine\"\n")
	for version, lock := range map[string]*registry.Lock{"2.0.0": nil, "1.0.0": {Plugins: []registry.Locked{entry}}} {
		list, err := namedPlugins(h, "train.toml", text, lock)
		if err != nil || len(list) != 1 || list[0].found.Path != exe(version) {
			t.Errorf("want %s, got %+v, %v", version, list, err)
		}
	}
	if err := os.WriteFile(exe("1.0.0"), []byte("changed"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := namedPlugins(h, "train.toml", text, &registry.Lock{Plugins: []registry.Locked{entry}}); err == nil || !strings.Contains(err.Error(), "the SHA-256 sum of its files is") {
		t.Errorf("with other files: %v", err)
	}
}
