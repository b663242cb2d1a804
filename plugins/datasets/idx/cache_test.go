package idx

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/afero"
)

const packedPath = "/data/images.gz"

// cached gives a cache, and the path of its copy after a first load.
func cached(t *testing.T, fs afero.Fs) (*Cache, string) {
	t.Helper()
	if err := afero.WriteFile(fs, packedPath, zipped(t, good), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &Cache{Fs: fs, Dir: "/cache/idx"}
	load(t, c)
	c.Wait()
	copies, err := afero.Glob(fs, "/cache/idx/*")
	if err != nil || len(copies) != 1 || filepath.Ext(copies[0]) != ".idx" {
		t.Fatalf("the cache holds %v, %v", copies, err)
	}
	return c, copies[0]
}

func load(t *testing.T, c *Cache) {
	t.Helper()
	a, err := c.Load(packedPath, 3)
	if err != nil {
		t.Fatal(err)
	}
	if string(a.Data) != "abcdefABCDEF" || len(a.Dims) != 3 || a.Dims[2] != 3 {
		t.Fatalf("%v %q", a.Dims, a.Data)
	}
}

func TestCacheKeepsTheDecompressedFile(t *testing.T) {
	fs := afero.NewMemMapFs()
	c, name := cached(t, fs)
	if got, _ := afero.ReadFile(fs, name); string(got) != string(good) {
		t.Fatalf("the copy is %q", got)
	}
	if a := c.read(name, zipped(t, good), 3); a == nil {
		t.Error("the copy is not believed")
	}
	load(t, c)
}

func TestCacheBelievesNoOtherCopy(t *testing.T) {
	for what, content := range map[string]string{
		"shorter": string(good[:len(good)-1]), "changed": string(good[:20]) + "x" + string(good[21:]), "empty": "",
	} {
		t.Run(what, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			c, name := cached(t, fs)
			if err := afero.WriteFile(fs, name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			load(t, c)
			c.Wait()
			if got, _ := afero.ReadFile(fs, name); string(got) != string(good) {
				t.Errorf("the copy was not repaired: %q", got)
			}
		})
	}
}

func TestCacheFollowsTheFile(t *testing.T) {
	fs := afero.NewMemMapFs()
	c, _ := cached(t, fs)
	other := append([]byte{}, good...)
	other[16] = 'z'
	if err := afero.WriteFile(fs, packedPath, zipped(t, other), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Load(packedPath, 3); err != nil || a.Data[0] != 'z' {
		t.Fatalf("%+v, %v", a, err)
	}
	c.Wait()
}

func TestCacheWithoutAFolder(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, packedPath, zipped(t, good), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Cache{{Fs: fs}, {Fs: afero.NewReadOnlyFs(fs), Dir: "/cache"}} {
		load(t, c)
		c.Wait()
	}
	if ok, _ := afero.DirExists(fs, "/cache"); ok {
		t.Error("a folder appeared")
	}
}

func TestCacheClearsAwayWhatAKilledWriterLeft(t *testing.T) {
	fs := afero.NewMemMapFs()
	c, name := cached(t, fs)
	part := name + ".part"
	if err := afero.WriteFile(fs, part, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs.Remove(name)
	load(t, c)
	c.Wait()
	if ok, _ := afero.Exists(fs, part); !ok {
		t.Fatal("a writer's file was taken away under its hands")
	}
	old := time.Now().Add(-time.Hour)
	if err := fs.Chtimes(part, old, old); err != nil {
		t.Fatal(err)
	}
	for range 2 { // clears away, then writes
		load(t, c)
		c.Wait()
	}
	if ok, _ := afero.Exists(fs, name); !ok {
		t.Error("no copy")
	}
}
