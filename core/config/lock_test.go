package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fakeSum(kind, path string) (string, error) {
	if strings.Contains(path, "missing") {
		return "", fmt.Errorf("%s: %w", path, errNoPlugin)
	}
	return "sum-of-" + kind, nil
}

// Lock changes the sums and nothing else, however a table is written.
func TestLock(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"new key below the plugin, comments and order stay",
			"# top\n[backend]\n  timeout = \"1m\"\n  plugin = \"./b\" # mine\n\n[dataset]\nplugin = \"mnist\"\n",
			"# top\n[backend]\n  timeout = \"1m\"\n  plugin = \"./b\" # mine\n  sha256 = \"sum-of-backend\"\n\n[dataset]\nplugin = \"mnist\"\n"},
		{"old sum replaced where it stands",
			"[dataset]\nsha256 = 'old'   # locked\nplugin = \"../d\"\n",
			"[dataset]\nsha256 = \"sum-of-dataset\"   # locked\nplugin = \"../d\"\n"},
		{"last line without an end", "[dataset]\nplugin = \"./d\"", "[dataset]\nplugin = \"./d\"\nsha256 = \"sum-of-dataset\""},
		{"line ends of another system, and a byte order mark",
			"\ufeff[dataset]\r\nplugin = \"./d\"\r\n[train]\r\n", "\ufeff[dataset]\r\nplugin = \"./d\"\r\nsha256 = \"sum-of-dataset\"\r\n[train]\r\n"},
		{"inline table", "precision = { plugin = \"./p\", options = { a = 1 } }\n",
			"precision = { plugin = \"./p\", sha256 = \"sum-of-precision\", options = { a = 1 } }\n"},
		{"dotted key", "backend.plugin = \"./b\"\nbackend.timeout = \"1m\"\n",
			"backend.plugin = \"./b\"\nbackend.sha256 = \"sum-of-backend\"\nbackend.timeout = \"1m\"\n"},
		{"two at once, in any order", "[dataset]\nplugin = \"./d\"\n[backend]\nplugin = \"./b\"\n",
			"[dataset]\nplugin = \"./d\"\nsha256 = \"sum-of-dataset\"\n[backend]\nplugin = \"./b\"\nsha256 = \"sum-of-backend\"\n"},
		{"entries of a list", "[[observers]]\nplugin = \"tracker\"\n[[observers]]\nplugin = \"./o\"\n",
			"[[observers]]\nplugin = \"tracker\"\n[[observers]]\nplugin = \"./o\"\nsha256 = \"sum-of-observer\"\n"},
		{"entries of an inline list", "observers = [{ plugin = \"./o\" }]\n", "observers = [{ plugin = \"./o\", sha256 = \"sum-of-observer\" }]\n"},
		{"locked already", "[dataset]\nplugin = \"./d\"\nsha256 = 'sum-of-dataset'\n", "[dataset]\nplugin = \"./d\"\nsha256 = 'sum-of-dataset'\n"},
		{"nothing by a path", "[dataset]\nplugin = \"mnist\"\n", "[dataset]\nplugin = \"mnist\"\n"},
	} {
		got, tables, err := Lock("train.toml", []byte(c.text), fakeSum)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if want := strings.Count(c.text, "/"); len(tables) != want {
			t.Errorf("%s: %d tables, want %d", c.name, len(tables), want)
		}
	}
}

func TestLockRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no file", "[backend]\nplugin = \"./b\"\n[dataset]\nplugin = \"./missing\"\n", "train.toml:4:10"},
		{"no TOML", "[dataset\n", "not valid TOML"},
		{"no place for a key", "[dataset]\nplugin = \"./d\"\nsha256.x = 1\n", `write it by hand: sha256 = "sum-of-dataset"`},
	} {
		_, _, err := Lock("train.toml", []byte(c.text), fakeSum)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.name, c.want, err)
		}
	}
	if _, _, err := Lock("train.toml", []byte("[dataset]\nplugin = \"./missing\"\n"), fakeSum); !errors.Is(err, errNoPlugin) {
		t.Errorf("the cause is lost: %v", err)
	}
}
