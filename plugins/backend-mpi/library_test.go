package mpi

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// finderOf finds libraries below a root in which the named files are.
func finderOf(t *testing.T, files ...string) *dl.Finder {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o644))
	}
	return &dl.Finder{Root: root, Getenv: func(string) string { return "" }}
}

func environment(kv ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, s := range kv {
			if value, ok := strings.CutPrefix(s, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

const inUsrLib = "usr/lib64/"

func TestTheLibraryIsTheLaunchers(t *testing.T) {
	both := []string{inUsrLib + "libmpi.so.40", inUsrLib + "libmpich.so.12"}
	for name, c := range map[string]struct {
		env   []string
		files []string
		want  string // the end of the path, or part of the error
	}{
		"mpirun of Open MPI":           {[]string{"OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0"}, both, "libmpi.so.40"},
		"srun --mpi=pmix":              {[]string{"PMIX_RANK=0", "SLURM_PROCID=0"}, both, "libmpi.so.40"},
		"mpirun of MPICH":              {[]string{"PMI_RANK=0", "PMI_FD=5"}, both, "libmpich.so.12"},
		"Intel MPI before MPICH":       {[]string{"PMI_RANK=0"}, append(both, inUsrLib+"libmpi.so.12"), "libmpi.so.12"},
		"PMIx with MPICH alone":        {[]string{"PMIX_RANK=0"}, both[1:], "libmpich.so.12"},
		"no launcher":                  {nil, both, "libmpi.so.40"},
		"another one than the mpirun":  {[]string{"OMPI_COMM_WORLD_SIZE=2"}, both[1:], "install Open MPI"},
		"none":                         {[]string{"PMI_RANK=0"}, nil, "install MPICH (Debian: libmpich12)"},
		"none, and nobody starts ours": {nil, nil, "backend.options.library"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(finderOf(t, c.files...), "", launcherOf(environment(c.env...)))
			if err != nil {
				got = err.Error()
				if e := (*sdk.Error)(nil); !errors.As(err, &e) || e.Code != sdk.CodeUnavailable {
					t.Errorf("%v has no code", err)
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if _, err := find(finderOf(t, both...), "/nowhere/libmpi.so", nil); err == nil || !strings.Contains(err.Error(), "backend.options.library") {
		t.Errorf("a path without a file: %v", err)
	}
}

func TestVersionsAreRecognised(t *testing.T) {
	for text, want := range map[string]*implementation{
		"Open MPI v4.1.4, package: Debian OpenMPI":        &openMPI,
		"MPICH Version:      4.0.2\nMPICH Release date: ": &mpich,
		"Intel(R) MPI Library 2021.11 for Linux* OS":      &mpich,
		"MVAPICH2 Version      :	2.3.7":                   &mpich,
		"MPI VERSION    : CRAY MPICH version 8.1.28.3":    &mpich,
		"Some MPI 1.0": nil,
	} {
		if got := implementationOf(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// A library that is not MPI's is refused by name.
func TestAnotherLibraryIsRefused(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build a library with")
	}
	dir := t.TempDir()
	for name, c := range map[string]struct{ source, want string }{
		"no MPI":       {"int other(void) { return 0; }", "is not a library of MPI 3.0 or newer"},
		"MPI too old":  {"int MPI_Get_library_version(char *t, int *n) { *n = 0; return 0; }", "has no function MPI_"},
		"unknown":      {unknownMPI(), `is "Some MPI 1.0", which is neither`},
		"not a object": {"", "open libnotaobject.so"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "lib"+strings.ReplaceAll(name, " ", "")+".so")
			if c.source == "" {
				must(t, os.WriteFile(path, []byte("text"), 0o644))
			} else {
				must(t, os.WriteFile(path+".c", []byte(c.source), 0o644))
				if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", path, path+".c").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if _, err := load(finderOf(t), path, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// unknownMPI is a library that has every function, of an implementation that nobody knows.
func unknownMPI() string {
	var s strings.Builder
	s.WriteString("#include <string.h>\nint MPI_Get_library_version(char *t, int *n) { strcpy(t, \"Some MPI 1.0\"); *n = 12; return 0; }\n")
	names := []string{"MPI_Error_string", "MPI_Test"}
	for _, e := range dl.Table(&functions{}) {
		names = append(names, e.Symbol)
	}
	for _, name := range names {
		s.WriteString("int " + name + "(void) { return 0; }\n")
	}
	return s.String()
}

// The constants of MPICH's interface are those of its header.
func TestMPICHsConstants(t *testing.T) {
	found, _ := filepath.Glob("/usr/include/*/mpich/mpi.h")
	if len(found) == 0 {
		t.Skip("MPICH's header is not installed (Debian: libmpich-dev)")
	}
	text, err := os.ReadFile(found[0])
	must(t, err)
	for name, want := range map[string]uintptr{
		"MPI_COMM_WORLD": mpichABI.world, "MPI_ERRORS_RETURN": mpichABI.errorsReturn, "MPI_THREAD_FUNNELED": threadFunneled, "MPI_SUCCESS": success,
		"MPI_IN_PLACE": mpichABI.inPlace, "MPI_STATUS_IGNORE": mpichABI.ignore,
		"MPI_FLOAT": mpichABI.types[tensor.F32], "MPI_DOUBLE": mpichABI.types[tensor.F64], "MPI_INT8_T": mpichABI.types[tensor.I8], "MPI_INT16_T": mpichABI.types[tensor.I16],
		"MPI_INT32_T": mpichABI.types[tensor.I32], "MPI_INT64_T": mpichABI.types[tensor.I64], "MPI_UINT8_T": mpichABI.types[tensor.U8],
		"MPI_SUM": mpichABI.ops[sdk.Sum], "MPI_PROD": mpichABI.ops[sdk.Prod], "MPI_MIN": mpichABI.ops[sdk.Min], "MPI_MAX": mpichABI.ops[sdk.Max],
	} {
		m := regexp.MustCompile(`(?m)^#define ` + name + `\s+(?:\(*[A-Za-z_]+ ?\**\))?\s*\(?(-?(?:0x)?[0-9a-f]+)`).FindSubmatch(text)
		if m == nil {
			t.Errorf("%s is not in %s", name, found[0])
			continue
		}
		got, err := strconv.ParseInt(string(m[1]), 0, 64)
		if err != nil || uintptr(got) != want {
			t.Errorf("%s is %s, not %#x", name, m[1], want)
		}
	}
}

func TestSeveralRanksNeedALauncher(t *testing.T) {
	if launcherOf(os.LookupEnv) != nil {
		t.Skip("this test was started by mpirun or srun")
	}
	b := New()
	err := b.Open(t.Context(), sdk.Group{WorldSize: 2}, nil)
	if err == nil || !strings.Contains(err.Error(), "mpirun -n N trainctl worker") {
		t.Errorf("got %v", err)
	}
	must(t, b.Close())
}

func TestRestartsAreRefused(t *testing.T) {
	if _, err := New().Place(sdk.PlaceRequest{Restarts: 1}); usererr.Problems(err) == nil || !strings.Contains(err.Error(), "backend.restarts") {
		t.Errorf("got %v", err)
	}
	if p, err := New().Place(sdk.PlaceRequest{}); err != nil || p.InProcess {
		t.Errorf("got %+v, %v", p, err)
	}
}
