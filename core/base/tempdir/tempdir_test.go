package tempdir

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A socket's path has to fit, however long TMPDIR is.
func TestSocketsFitUnderAnyTemporaryDirectory(t *testing.T) {
	for n := 5; n < 300; n++ {
		tmp := "/" + strings.Repeat("t", n-1)
		got := home(tmp)
		if len(got)+len("/trainctl-sockets-1234567890/plugin-dir1234567890/plugin1234567890") > 103 {
			t.Fatalf("%d bytes of TMPDIR: sockets go to %s", n, got)
		}
		if n < 36 && got != tmp {
			t.Errorf("%d bytes of TMPDIR fit and are not used", n)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// occupied is a directory with a plugin's socket in it.
func occupied(t *testing.T) *Dir {
	t.Helper()
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d.Path) })
	if err := os.Mkdir(filepath.Join(d.Path, "plugin-dir7"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "plugin-dir7", "plugin8"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCloseRemovesWhatPluginsLeft(t *testing.T) {
	d := occupied(t)
	if err := d.Close(); err != nil || exists(d.Path) {
		t.Errorf("%v, still there: %v", err, exists(d.Path))
	}
}

func TestTheNextOwnerRemovesWhatADeadOneLeft(t *testing.T) {
	dead, alive := occupied(t), occupied(t)
	_ = dead.lock.Close() // as the system does for a process that ends
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if exists(dead.Path) || !exists(alive.Path) {
		t.Errorf("the dead owner's is there: %v; the live owner's: %v", exists(dead.Path), exists(alive.Path))
	}
}

// Files of others under a name like ours are not removed.
func TestForeignFilesStay(t *testing.T) {
	d := occupied(t)
	file := filepath.Join(d.Path, "thesis.tex")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil || !exists(file) {
		t.Errorf("%v; the file is there: %v", err, exists(file))
	}
}

func TestTheLastPluginRemovesTheDirectoryOfADeadOwner(t *testing.T) {
	d := occupied(t)
	own := filepath.Join(d.Path, "plugin-dir7")
	if Leave(own); !exists(own) {
		t.Fatal("a plugin's directory that is in use was removed")
	}
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	if Leave(own); !exists(d.Path) {
		t.Fatal("removed while the owner lives")
	}
	_ = d.lock.Close()
	if Leave(own); exists(d.Path) {
		t.Error("the last one left the directory")
	}
}

func TestOwnersThatBeginTogether(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				d, err := New()
				if err != nil {
					t.Error(err)
					return
				}
				if !exists(d.Path) {
					t.Error("a directory was removed while its owner lives")
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
