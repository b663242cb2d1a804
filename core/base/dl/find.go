package dl

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Spec has the names of a library and the places where installers put it.
type Spec struct {
	Name    string   // for people: "cuDNN"
	Sonames []string // file names, the preferred one first; always with their version, wheels have no bare link
	Wheels  []string // directories below site-packages
	Toolkit bool     // also below CUDA_HOME and /usr/local/cuda
	Env     string   // environment variable that names the file or its directory and wins over every search
	Install string   // what brings the library, where no wheel does
	Pip     Pip      // the wheels that bring it
}

// Pip lists the wheels that contain a library, for each major version of CUDA.
type Pip struct{ CUDA12, CUDA13 string }

// Fix is the command or deed that brings the library, for a driver of the
// given major version of CUDA; 0 where that is not known.
func (s Spec) Fix(cuda int) string {
	switch {
	case s.Pip == Pip{}:
		return s.Install
	case cuda >= 13:
		return "pip install " + s.Pip.CUDA13
	}
	return "pip install " + s.Pip.CUDA12
}

// Candidate is a file that may be the library.
type Candidate struct {
	Path   string `json:"path"`
	Source string `json:"source"` // why it was looked for there: "VIRTUAL_ENV", "ld.so.cache", …
}

// Finder looks for libraries. The zero value is not useful; see [System].
type Finder struct {
	Root   string              // of the file system; "/" outside of tests
	Getenv func(string) string // os.Getenv outside of tests
	Python func() []string     // the site-packages of the python on PATH, asked for once and only when nothing else had a library

	once  sync.Once
	sites []string
}

// System is the finder of this machine.
func System() *Finder { return &Finder{Root: "/", Getenv: os.Getenv, Python: askPython} }

// Find lists the files that may be the library, best first. The order is:
// the override alone if it is set; what the dynamic linker would take
// (LD_LIBRARY_PATH, its cache, the system's directories); the CUDA toolkit;
// wheels of the active environment, of the python on PATH, of the user.
func (f *Finder) Find(s Spec) []Candidate {
	if given := f.Getenv(s.Env); s.Env != "" && given != "" {
		return f.override(s, given)
	}
	var out []Candidate
	for _, place := range f.places(s) {
		out = f.in(out, s, place)
	}
	if len(out) == 0 && len(s.Wheels) > 0 {
		for _, place := range wheelsIn(f.pythonSites(), s, "python on PATH") {
			out = f.in(out, s, place)
		}
	}
	return out
}

// override uses a file as it is, and searches a directory for the sonames.
func (f *Finder) override(s Spec, given string) []Candidate {
	if info, err := os.Stat(given); err != nil || !info.IsDir() {
		return []Candidate{{Path: given, Source: s.Env}}
	}
	return f.in(nil, s, place{dir: given, source: s.Env})
}

// place is a directory to look in.
type place struct{ dir, source string }

func (f *Finder) places(s Spec) []place {
	var out []place
	add := func(source string, dirs ...string) {
		for _, d := range dirs {
			if d != "" {
				out = append(out, place{d, source})
			}
		}
	}
	add("LD_LIBRARY_PATH", filepath.SplitList(f.Getenv("LD_LIBRARY_PATH"))...)
	for _, path := range f.cached(s.Sonames) {
		add("ld.so.cache", filepath.Dir(path))
	}
	add("system", f.under(systemDirs...)...)
	if s.Toolkit {
		for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
			if home := f.Getenv(v); home != "" {
				add(v, filepath.Join(home, "lib64"), filepath.Join(home, "lib"))
			}
		}
		add("/usr/local/cuda", f.toolkits()...)
	}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if home := f.Getenv(v); home != "" {
			out = append(out, wheelsIn(f.glob(filepath.Join(home, "lib/python3*/site-packages")), s, v)...)
			add(v, filepath.Join(home, "lib"))
		}
	}
	if home := f.Getenv("HOME"); home != "" {
		out = append(out, wheelsIn(f.glob(filepath.Join(home, ".local/lib/python3*/site-packages")), s, "user site")...)
	}
	return out
}

// systemDirs are where distributions and container runtimes put libraries,
// for systems without a linker cache. The first one is WSL's.
var systemDirs = []string{
	"usr/lib/wsl/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/nvidia/lib", "usr/local/nvidia/lib64",
}

// toolkits are the directories of installed CUDA toolkits: the linked one, then the newest.
func (f *Finder) toolkits() []string {
	versions := f.glob(filepath.Join(f.Root, "usr/local/cuda-*"))
	sort.Slice(versions, func(i, j int) bool { return newer(filepath.Base(versions[i]), filepath.Base(versions[j])) })
	var out []string
	for _, dir := range append(f.under("usr/local/cuda"), versions...) {
		out = append(out, filepath.Join(dir, "lib64"))
	}
	return out
}

// newer compares names such as cuda-12.10 and cuda-12.9 by their numbers.
func newer(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) > 0
}

func numbers(s string) []int {
	var out []int
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n := 0
		for _, r := range part {
			n = n*10 + int(r-'0')
		}
		out = append(out, n)
	}
	return out
}

// wheelsIn are a library's directories below each site-packages.
func wheelsIn(sites []string, s Spec, source string) []place {
	var out []place
	for _, site := range sites {
		for _, w := range s.Wheels {
			out = append(out, place{filepath.Join(site, w), source + ", wheel"})
		}
	}
	return out
}

// in adds the first of the sonames that lies in the place. A file that is
// there already, by another name or link, is not added again.
func (f *Finder) in(found []Candidate, s Spec, p place) []Candidate {
	for _, soname := range s.Sonames {
		path := filepath.Join(p.dir, soname)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if !slices.ContainsFunc(found, func(c Candidate) bool { return sameFile(c.Path, path) }) {
			found = append(found, Candidate{Path: path, Source: p.source})
		}
		break
	}
	return found
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (f *Finder) under(dirs ...string) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = filepath.Join(f.Root, d)
	}
	return out
}

// glob ignores bad patterns: the paths come from the environment.
func (f *Finder) glob(pattern string) []string {
	list, _ := filepath.Glob(pattern)
	return list
}

func (f *Finder) pythonSites() []string {
	f.once.Do(func() {
		if f.Python != nil {
			f.sites = f.Python()
		}
	})
	return f.sites
}
