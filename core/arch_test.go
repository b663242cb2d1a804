package core

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/trainctl/trainctl/"

// layers from the bottom up. A package imports packages of lower layers, and
// of its own where that is listed in beside.
var layers = [][]string{
	{"core/diag", "core/crash", "core/tensor", "core/rng", "core/shm", "core/sockets", "core/keepalive", "core/lossy", "core/cgroup", "core/appendfile", "core/timeline", "core/cuda/dl"},
	{"core/cuda/driver", "core/contract", "core/graph", "core/kernel", "core/event", "core/secret", "core/hostnet"},
	{"core/rank"},
	{"core/sdk", "core/sdk/pb", "core/checkpoint", "core/op"},
	{"core/plan", "core/flight"},
	{"core/cpu", "core/cuda"},
	{"core/ddp", "core/data", "core/nn", "core/optim", "core/host", "core/launch", "core/forecast"},
	{"core/train", "core/bench", "core/tensor/devicetest", "core/cuda/cudatest"},
	{"core/config"},
	{"core/app"},
}

// beside are the imports within a layer.
var beside = map[string][]string{
	"core/sdk":  {"core/sdk/pb"},
	"core/host": {"core/sdk/pb"},
}

// only says who may import what, and why nobody else does.
var only = []struct {
	path   string
	users  []string
	reason string
}{
	{"go.uber.org/fx", []string{"core/app"}, "constructors work without fx; wiring is one package's business"},
	{"go.uber.org/dig", []string{"core/app"}, "as fx"},
	{"github.com/BurntSushi/toml", []string{"core/config"}, "packages own their tables as plain structs; one package reads files"},
	{"github.com/hashicorp/go-plugin", []string{"core/sdk", "core/sdk/pb", "core/host"}, "what a plugin is to the rest is an interface of core/sdk or core/host"},
	{"google.golang.org/grpc", []string{"core/sdk", "core/sdk/pb", "core/host"}, "gRPC is control plane of plugins alone"},
	{"github.com/spf13/cobra", []string{"cmd/trainctl"}, "the command line is the program's, not the library's"},
	{"github.com/ebitengine/purego", []string{"core/cuda/dl"}, "one package opens libraries, and a build without it is static"},
	{"golang.org/x/term", []string{"core/event", "cmd/trainctl"}, "only what draws asks about terminals"},
}

// engine are the packages that compute. They share core/contract with plugins,
// and link nothing that talks to one: a compiler or a kernel is built, tested
// and read without gRPC, and another way to reach plugins would not touch it.
var engine = []string{
	"core/contract", "core/tensor", "core/graph", "core/kernel", "core/op", "core/nn", "core/plan", "core/cpu", "core/cuda", "core/optim", "core/tensor/devicetest",
}

// wire is what the engine must not link.
var wire = []string{"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/hashicorp/go-plugin", module + "core/sdk"}

// imports maps each package of the module to what its non-test files import.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "gen" || d.Name() == "examples" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			found[pkg] = append(found[pkg], p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func layerOf(pkg string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, pkg) })
}

func TestImportsGoOneWay(t *testing.T) {
	for pkg, list := range imports(t) {
		mine := layerOf(pkg)
		for _, p := range list {
			p, inside := strings.CutPrefix(p, module)
			if !inside {
				continue
			}
			its := layerOf(p)
			switch {
			case strings.HasPrefix(pkg, "core/") && strings.HasPrefix(p, "plugins/"):
				t.Errorf("%s imports %s: the core knows plugins by name and contract only", pkg, p)
			case mine >= 0 && its >= mine && !slices.Contains(beside[pkg], p):
				t.Errorf("%s imports %s, which is not below it; see core/doc.go for the order", pkg, p)
			case strings.HasPrefix(pkg, "plugins/") && strings.HasPrefix(p, "core/") && its > layerOf("core/sdk"):
				t.Errorf("%s imports %s: a plugin needs core/sdk and what is below it, so that others can write one too", pkg, p)
			}
		}
	}
}

func TestEveryCorePackageHasItsLayer(t *testing.T) {
	for pkg := range imports(t) {
		if strings.HasPrefix(pkg, "core/") && layerOf(pkg) < 0 && !strings.HasPrefix(pkg, "core/sdk/sdktest") && !strings.HasPrefix(pkg, "core/checkpoint/") {
			t.Errorf("%s is in no layer: say in core/arch_test.go where it belongs", pkg)
		}
	}
}

func TestDependenciesStayWhereTheyBelong(t *testing.T) {
	for pkg, list := range imports(t) {
		for _, p := range list {
			for _, rule := range only {
				if (p == rule.path || strings.HasPrefix(p, rule.path+"/")) && !slices.Contains(rule.users, pkg) && !strings.HasPrefix(pkg, "core/sdk/") {
					t.Errorf("%s imports %s: %s", pkg, p, rule.reason)
				}
			}
		}
	}
}

// What is linked is asked of the go command, so that what libraries import counts.
func TestEngineLinksNoWire(t *testing.T) {
	for _, pkg := range engine {
		out, err := exec.Command("go", "list", "-deps", module+pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps %s: %v\n%s", pkg, err, out)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if slices.ContainsFunc(wire, func(w string) bool { return dep == w || strings.HasPrefix(dep, w+"/") }) {
				t.Errorf("%s links %s: what the engine shares with plugins belongs in core/contract", pkg, dep)
				break
			}
		}
	}
}

func TestContractIsALeaf(t *testing.T) {
	for _, p := range imports(t)["core/contract"] {
		if strings.Contains(strings.Split(p, "/")[0], ".") && p != module+"core/tensor" {
			t.Errorf("core/contract imports %s: plugins and engine agree on tensors and plain Go types alone", p)
		}
	}
}
