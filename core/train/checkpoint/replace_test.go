package checkpoint

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

func replace(fsys FS, text string) error {
	return durable.Write(fsys, "/d/file", func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

func replaceable(t *testing.T) *faultfs.FS {
	t.Helper()
	fsys := faultfs.New()
	if err := fsys.MkdirAll("/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fsys.SyncDir("/"), replace(fsys, "old content")); err != nil {
		t.Fatal(err)
	}
	return fsys
}

// Whatever operation fails, the file has its old content or the new one, and
// nothing else lies beside it.
func TestReplaceAtEveryOperation(t *testing.T) {
	whole := replaceable(t)
	whole.Inject(nil)
	if err := replace(whole, "new"); err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= whole.Ops(); k++ {
		fsys := replaceable(t)
		fsys.Inject(faultfs.FailAt(k, syscall.EIO))
		err := replace(fsys, "new")
		fsys.Inject(nil)
		text, readErr := afero.ReadFile(fsys, "/d/file")
		if readErr != nil || string(text) != "old content" && string(text) != "new" || err == nil && string(text) != "new" {
			t.Errorf("operation %d: %q (%v) after %v", k, text, readErr, err)
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v does not tell the cause", k, err)
		}
		if entries, _ := afero.ReadDir(fsys, "/d"); err != nil && string(text) == "old content" && len(entries) != 1 {
			t.Errorf("operation %d left %d entries", k, len(entries))
		}

		fsys = replaceable(t)
		fsys.Inject(faultfs.CrashAt(k))
		_ = replace(fsys, "new")
		for seed := range uint64(3) {
			after := fsys.PowerLoss(seed)
			if text, err := afero.ReadFile(after, "/d/file"); err != nil || string(text) != "old content" && string(text) != "new" {
				t.Errorf("power loss in operation %d: %q, %v", k, text, err)
			}
		}
	}
}

func TestReplaceKeepsPermissions(t *testing.T) {
	fsys, path := OsFS(), t.TempDir()+"/file"
	for _, mode := range []os.FileMode{0o600, 0o640} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := durable.Write(fsys, path, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v became %v, %v", mode, info.Mode(), err)
		}
	}
	if err := durable.Write(fsys, t.TempDir(), func(io.Writer) error { return nil }); err == nil {
		t.Error("a folder was replaced")
	}
}
