package event

import (
	"testing"

	"github.com/spf13/afero"
)

func TestRemove(t *testing.T) {
	fsys := afero.NewOsFs()
	base := t.TempDir()
	var dirs []RunDir
	for range 3 {
		d, err := CreateRunDir(fsys, base, "x")
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, d)
	}
	if err := fsys.MkdirAll(base+"/x/.removed-9/logs", 0o755); err != nil { // of an interrupted Remove
		t.Fatal(err)
	}
	latest := func() string {
		t.Helper()
		d, err := afero.NewBasePathFs(fsys, base).(afero.LinkReader).ReadlinkIfPossible("/x/latest")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, want := range []string{"3", "2"} { // 1 goes, then 3
		if err := dirs[2*i].Remove(); err != nil {
			t.Fatal(err)
		}
		if got := latest(); got != want {
			t.Errorf("after the removal of run %d latest is %s, want %s", 2*i+1, got, want)
		}
	}
	if left, _ := afero.Glob(fsys, base+"/x/.removed*"); left != nil {
		t.Errorf("%v are left", left)
	}
	if err := dirs[1].Remove(); err != nil {
		t.Fatal(err)
	}
	if ok, _ := afero.Exists(fsys, base+"/x"); ok {
		t.Error("the directory of a name without runs is left")
	}
	for _, run := range []string{"x/2", base + "/x", "x"} {
		if err := fsys.MkdirAll(base+"/x/.removed-2/logs", 0o755); err != nil { // the last one was interrupted
			t.Fatal(err)
		}
		paths, err := FinishRemoval(fsys, base, run)
		if left, _ := afero.Exists(fsys, base+"/x"); err != nil || left || len(paths) != 1 || paths[0] != base+"/x/2" {
			t.Errorf("%s: %v, %v, %v", run, paths, err, left)
		}
		if again, err := FinishRemoval(fsys, base, run); err != nil || again != nil {
			t.Errorf("%s: again %v, %v", run, again, err)
		}
	}
	if dirs[1].Remove() == nil {
		t.Error("a run that does not exist is removed")
	}
}
