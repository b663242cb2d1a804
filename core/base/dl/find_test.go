package dl

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var nccl = Spec{
	Name: "NCCL", Sonames: []string{"libnccl.so.2"}, Toolkit: true, Env: "TRAINCTL_LIBNCCL",
	Wheels: []string{"nvidia/nccl/lib"}, Pip: Pip{"nvidia-nccl-cu12", "nvidia-nccl-cu13"},
}

var nvrtc = Spec{
	Name: "NVRTC", Sonames: []string{"libnvrtc.so.13", "libnvrtc.so.12"}, Toolkit: true, Env: "TRAINCTL_LIBNVRTC",
	Wheels: []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
}

// tree makes files below a temporary root; a finder looks only there.
func tree(t *testing.T, env map[string]string, files ...string) *Finder {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Finder{Root: root, Getenv: func(name string) string {
		return strings.ReplaceAll(env[name], "ROOT", root)
	}}
}

func TestFindOrder(t *testing.T) {
	for name, c := range map[string]struct {
		spec  Spec
		env   map[string]string
		files []string
		want  []string // path below the root, source
	}{
		"nothing": {spec: nccl},
		"system before wheel": {
			spec: nccl, env: map[string]string{"VIRTUAL_ENV": "ROOT/venv"},
			files: []string{"venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "usr/lib64/libnccl.so.2"},
			want:  []string{"usr/lib64/libnccl.so.2 system", "venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2 VIRTUAL_ENV, wheel"},
		},
		"LD_LIBRARY_PATH before all": {
			spec: nccl, env: map[string]string{"LD_LIBRARY_PATH": "ROOT/none:ROOT/own"},
			files: []string{"usr/lib64/libnccl.so.2", "own/libnccl.so.2"},
			want:  []string{"own/libnccl.so.2 LD_LIBRARY_PATH", "usr/lib64/libnccl.so.2 system"},
		},
		"CUDA_HOME before the newest toolkit": {
			spec: nvrtc, env: map[string]string{"CUDA_HOME": "ROOT/opt/cuda"},
			files: []string{"opt/cuda/lib64/libnvrtc.so.12", "usr/local/cuda-12.9/lib64/libnvrtc.so.12", "usr/local/cuda-12.10/lib64/libnvrtc.so.12"},
			want: []string{"opt/cuda/lib64/libnvrtc.so.12 CUDA_HOME", "usr/local/cuda-12.10/lib64/libnvrtc.so.12 /usr/local/cuda",
				"usr/local/cuda-12.9/lib64/libnvrtc.so.12 /usr/local/cuda"},
		},
		"flat wheel of CUDA 13 before the one of CUDA 12": {
			spec: nvrtc, env: map[string]string{"CONDA_PREFIX": "ROOT/conda"},
			files: []string{"conda/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "conda/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13"},
			want: []string{"conda/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13 CONDA_PREFIX, wheel",
				"conda/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 CONDA_PREFIX, wheel"},
		},
		"user site": {
			spec: nccl, env: map[string]string{"HOME": "ROOT/home"},
			files: []string{"home/.local/lib/python3.9/site-packages/nvidia/nccl/lib/libnccl.so.2"},
			want:  []string{"home/.local/lib/python3.9/site-packages/nvidia/nccl/lib/libnccl.so.2 user site, wheel"},
		},
		"override alone, also when it is not there": {
			spec: nccl, env: map[string]string{"TRAINCTL_LIBNCCL": "ROOT/gone.so"}, files: []string{"usr/lib64/libnccl.so.2"},
			want: []string{"gone.so TRAINCTL_LIBNCCL"},
		},
		"override by a directory": {
			spec: nccl, env: map[string]string{"TRAINCTL_LIBNCCL": "ROOT/mine"}, files: []string{"usr/lib64/libnccl.so.2", "mine/libnccl.so.2"},
			want: []string{"mine/libnccl.so.2 TRAINCTL_LIBNCCL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := tree(t, c.env, c.files...)
			var got []string
			for _, found := range f.Find(c.spec) {
				path, err := filepath.Rel(f.Root, found.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, path+" "+found.Source)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestPythonIsAskedLastAndOnce(t *testing.T) {
	f := tree(t, nil, "site/nvidia/nccl/lib/libnccl.so.2", "usr/lib64/libnvrtc.so.12")
	asked := 0
	f.Python = func() []string { asked++; return []string{filepath.Join(f.Root, "site")} }
	if got := f.Find(nvrtc); len(got) != 1 || asked != 0 {
		t.Fatalf("found %v after asking python %d times", got, asked)
	}
	for range 2 {
		got := f.Find(nccl)
		if len(got) != 1 || got[0].Source != "python on PATH, wheel" || asked != 1 {
			t.Fatalf("found %v after asking python %d times", got, asked)
		}
	}
}

func TestLinksToOneFileAreOneCandidate(t *testing.T) {
	f := tree(t, nil, "usr/lib64/libnccl.so.2")
	if err := os.Symlink(filepath.Join(f.Root, "usr/lib64"), filepath.Join(f.Root, "usr/lib/x86_64-linux-gnu")); err != nil {
		if err := os.MkdirAll(filepath.Join(f.Root, "usr/lib"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(f.Root, "usr/lib64"), filepath.Join(f.Root, "usr/lib/x86_64-linux-gnu")); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Find(nccl); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// cache writes a linker cache with one foreign and one own entry of a soname.
func cache(soname, path string) []byte {
	strs := []byte(soname + "\x00/foreign/" + soname + "\x00" + path + "\x00")
	at := uint32(cacheHeader + 2*cacheRow)
	var b bytes.Buffer
	b.WriteString("an older table before it")
	b.WriteString(cacheMagic)
	put := func(v ...uint32) { _ = binary.Write(&b, binary.NativeEndian, v) }
	put(2, uint32(len(strs)), 0, 0, 0, 0, 0)
	put(cacheArch^0x0f00|3, at, at+uint32(len(soname))+1, 0, 0, 0)
	put(cacheArch|3, at, at+uint32(len(strs)-len(path)-1), 0, 0, 0)
	b.Write(strs)
	return b.Bytes()
}

func TestLinkerCache(t *testing.T) {
	f := tree(t, nil, "odd/place/libnccl.so.2", "foreign/libnccl.so.2", "etc/ld.so.cache")
	whole := cache("libnccl.so.2", "/odd/place/libnccl.so.2")
	file := filepath.Join(f.Root, "etc/ld.so.cache")
	for n := range whole { // any cut gives less, and never a panic
		if err := os.WriteFile(file, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		f.Find(nccl)
	}
	if err := os.WriteFile(file, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	got := f.Find(nccl)
	if len(got) != 1 || got[0] != (Candidate{filepath.Join(f.Root, "odd/place/libnccl.so.2"), "ld.so.cache"}) {
		t.Errorf("got %v", got)
	}
}

func TestMend(t *testing.T) {
	for cuda, want := range map[int]string{0: "pip install nvidia-nccl-cu12", 12: "pip install nvidia-nccl-cu12", 13: "pip install nvidia-nccl-cu13"} {
		if got := nccl.Fix(cuda); got != want {
			t.Errorf("CUDA %d: %s", cuda, got)
		}
	}
	if got := (Spec{Install: "install the driver"}).Fix(13); got != "install the driver" {
		t.Error(got)
	}
}
