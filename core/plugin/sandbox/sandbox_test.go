package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/sandbox"
)

// Values of options give the right to write what they name, or what would be made in a folder that exists,
// but not the working directory and what is above it, for the sake of a new name.
func TestUsualGrantsWhatOptionsName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TMPDIR", "/elsewhere")
	t.Setenv("TRAINCTL_DATA", filepath.Join(dir, "data"))
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_CACHE_HOME", "/caches")
	for _, name := range []string{"data", "home", "root/below"} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := sandbox.Usual([]string{"a/b", "new", "root/new", "root/below", "root/new/er", "../new", "", "home", "/", "text", "https://example.com/data"}).Write
	want := []string{"/caches", "/dev", "/elsewhere", filepath.Join(dir, "data"), filepath.Join(dir, "root"), filepath.Join(dir, "root/below")}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it writes %q, want %q", got, want)
	}
}
