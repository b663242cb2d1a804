package nccl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/sdk"
)

func TestOpenListsLibraries(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "usr/lib64")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(root, "libnccl.so.2")
	for _, c := range []struct {
		options sdk.Options
		want    []string
	}{
		{nil, []string{"driver: found " + filepath.Join(dir, "libcuda.so.1"), "NCCL: libnccl.so.2 was not found, pip install nvidia-nccl-cu12", `use backend.plugin = "tcp"`}},
		{sdk.Options{"library": own}, []string{"NCCL: no file " + own}},
	} {
		b := New()
		b.finder = &dl.Finder{Root: root, Getenv: func(string) string { return "" }}
		err := b.Open(t.Context(), sdk.Group{WorldSize: 1}, c.options)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.CodeUnavailable {
			t.Fatalf("got %v", err)
		}
		for _, w := range c.want {
			if !strings.Contains(e.Text, w) {
				t.Errorf("%q is not in %q", w, e.Text)
			}
		}
	}
}

func TestNothingWorksWithoutOpen(t *testing.T) {
	b := New()
	_, listen := b.Listen(t.Context())
	for what, err := range map[string]error{
		"attach": b.Attach(t.Context(), nil), "listen": listen, "connect": b.Connect(t.Context(), nil), "do": b.Do(t.Context(), nil),
	} {
		if err == nil {
			t.Errorf("%s worked", what)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
