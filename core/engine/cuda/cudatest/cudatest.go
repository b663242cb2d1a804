package cudatest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

//go:embed testdata/fakecuda
var sources embed.FS

// Environment makes programs find the fakes, with that many devices. It skips the
// test where they cannot be compiled. The machine is the test's own.
func Environment(t testing.TB, devices int) map[string]string {
	t.Helper()
	dir := Dir(t)
	return map[string]string{
		"TRAINCTL_LIBCUDA": filepath.Join(dir, "fakecuda.so"), "TRAINCTL_LIBNVRTC": filepath.Join(dir, "fakenvrtc.so"), "TRAINCTL_LIBNCCL": filepath.Join(dir, "fakenccl.so"),
		"TRAINCTL_LIBCUDNN": missing, "TRAINCTL_LIBCUBLASLT": missing,
		"CUDA_FAKE_DIR": dir, "CUDA_FAKE_DEVICES": fmt.Sprint(devices), "CUDA_FAKE_MACHINE": t.TempDir(),
	}
}

// Libraries makes this process, and those that it starts, find the fakes.
func Libraries(t testing.TB, devices int) {
	t.Helper()
	for name, value := range Environment(t, devices) {
		t.Setenv(name, value)
	}
}

// missing is the path of a library that is not there: real ones do not work with fake ones.
const missing = "/nonexistent/by-cudatest"

// Finder finds the fakes for a test that opens libraries itself, without
// changing the environment except for CUDA_FAKE_DIR.
func Finder(t testing.TB) *dl.Finder {
	dir := Dir(t)
	if err := os.Setenv("CUDA_FAKE_DIR", dir); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"TRAINCTL_LIBCUDA": "fakecuda.so", "TRAINCTL_LIBNVRTC": "fakenvrtc.so"}
	return &dl.Finder{Root: "/", Getenv: func(name string) string {
		if f, ok := files[name]; ok {
			return filepath.Join(dir, f)
		}
		return missing
	}}
}

// Dir is the folder of the compiled fakes. It stays from run to run, and what
// the fake NVRTC compiles there too.
func Dir(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the fake CUDA needs Linux, whose memfd and futex processes share")
	}
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no C++ compiler to build the fake CUDA with: ", err)
	}
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// cache is where programs keep what they can make again. Tests may change the
// environment that says so, for the programs that they start.
var cache = func() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir
	}
	return os.TempDir()
}()

var built = sync.OnceValues(func() (string, error) {
	list, err := sources.ReadDir("testdata/fakecuda")
	if err != nil {
		return "", err
	}
	files, sum := map[string][]byte{}, sha256.New()
	var all []byte
	for _, f := range list {
		files[f.Name()] = read(f.Name())
		all = append(all, files[f.Name()]...)
	}
	sum.Write(all)
	for name, binding := range libraries {
		files[name+".h"] = stubs(all, binding)
	}
	for _, name := range slices.Sorted(maps.Keys(libraries)) {
		sum.Write(files[name+".h"])
	}
	dir := filepath.Join(cache, "trainctl", "fakecuda-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, build(dir, files)
})

// build compiles in a folder beside dir, which then takes its name at once:
// tests of several packages may build at the same time.
func build(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), ".fakecuda-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(draft, name), b, 0o600); err != nil {
			return err
		}
	}
	for lib := range libraries {
		out := filepath.Join(draft, lib)
		id, _ := strconv.ParseUint(dir[len(dir)-8:], 16, 32)
		cmd := exec.Command("g++", fmt.Sprint("-DBUILD=", id%100_000), "-std=c++17", "-O1", "-Wall", "-fPIC", "-shared", "-o", out+".so", out+".cpp", "-ldl")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
		}
	}
	if err := os.Rename(draft, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return err
		}
	}
	return nil
}

func read(name string) []byte {
	b, err := sources.ReadFile("testdata/fakecuda/" + name)
	if err != nil {
		panic("cudatest: " + err.Error())
	}
	return b
}

// libraries are the fakes, each with the binding that says what has to be there.
var libraries = map[string]any{"fakecuda": &driver.CUDA{}, "fakenvrtc": &driver.NVRTC{}, "fakenccl": &driver.NCCL{}}

var faked = regexp.MustCompile(`(?m)^(?:FAKE\(|int |extern "C" const char\* )((?:cu|nvrtc|nccl)\w+)`)

// stubs are a library's functions that have to be there and that the sources do
// not have. They say that they are not supported.
func stubs(sources []byte, binding any) []byte {
	have := map[string]bool{}
	for _, m := range faked.FindAllSubmatch(sources, -1) {
		have[string(m[1])] = true
	}
	var b strings.Builder
	for _, e := range dl.Table(binding) {
		if !have[e.Symbol] && e.Since == "" {
			fmt.Fprintf(&b, "extern \"C\" int %s() { return NotSupported; }\n", e.Symbol)
		}
	}
	return []byte(b.String())
}
