package scaffold

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "copy the examples to the templates")

// What plugins new writes is what examples/ proves. After a change there:
//
//	go test ./cmd/trainctl/internal/scaffold -run Templates -update
func TestTemplatesAreTheExamples(t *testing.T) {
	for kind := range exampleNames {
		dir := filepath.Join("../../../../examples", kind)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, e := range entries {
			name := templateName(kind, e.Name())
			if name == "" || filepath.Ext(e.Name()) == "" {
				continue // also a binary that was built there
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			want[name] = string(text)
		}
		at := filepath.Join("templates", kind)
		if *update {
			copyTemplates(t, at, want)
		}
		got := map[string]string{}
		entries, err = os.ReadDir(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(at, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[e.Name()] = string(text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-example +template), -update copies them:\n%s", kind, diff)
		}
	}
}

func copyTemplates(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
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
