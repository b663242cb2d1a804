package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/trainctl/trainctl/"

// layers from the bottom up. A package imports packages of lower layers, and
// of its own where that is listed in beside.
var layers = [][]string{
	{"core/base/system", "core/base/race", "core/base/pattern"},
	{"core/base/usererr", "core/base/crash", "core/tensor", "core/base/rng", "core/base/pages", "core/base/cores", "core/base/shm", "core/base/tempdir", "core/base/keepalive", "core/base/lossy", "core/base/cgroup", "core/base/appendfile", "core/base/bytesize", "core/base/decimal", "core/base/durable", "core/base/jsonvalue", "core/base/testjson", "core/base/golden", "core/base/fulldisk", "core/base/loopback", "core/report/timeline", "core/base/dl", "core/base/openfile", "core/base/pipe", "core/base/localtls", "core/onnx/pb"},
	{"core/base/tokenizer", "core/engine/cuda/driver", "core/contract", "core/engine/graph", "core/engine/kernel", "core/report/event", "core/job/secret", "core/base/hostnet", "core/train/checkpoint/safetensors", "core/onnx/source"},
	{"core/engine/kernel/amx"},
	{"core/engine/kernel/elementwise", "core/engine/kernel/convert", "core/engine/kernel/image", "core/engine/kernel/random", "core/engine/kernel/move", "core/engine/kernel/peak", "core/engine/kernel/kerneltest", "core/engine/kernel/kerneltest/guest"},
	{"core/report/rundir/rundirtest", "core/job/submit"},
	{"core/engine/kernel/gemm", "core/engine/kernel/reduce", "core/engine/kernel/loss", "core/engine/kernel/optimizer", "core/engine/kernel/pool/adaptive"},
	{"core/engine/kernel/conv/cost", "core/engine/kernel/conv/geometry"},
	{"core/engine/kernel/conv/fours", "core/engine/kernel/conv/lines", "core/engine/kernel/conv/thirds"},
	{"core/engine/kernel/conv/direct", "core/engine/kernel/conv/im2col", "core/engine/kernel/conv/interleaved", "core/engine/kernel/conv/planes", "core/engine/kernel/conv/winograd", "core/engine/kernel/pool"},
	{"core/engine/kernel/conv/images", "core/engine/kernel/conv/product", "core/engine/kernel/conv/tiled"},
	{"core/engine/kernel/attention", "core/engine/kernel/conv", "core/engine/kernel/norm"},
	{"core/engine/kernel/layernorm"},
	{"core/job/rank", "core/job/etcd", "core/contract/contracttest", "core/engine/op", "core/engine/cuda/gpu", "core/engine/cuda/kernels", "core/engine/cuda/cudatest"},
	{"core/sdk", "core/sdk/pb", "core/job/etcd/etcdtest", "core/train/checkpoint", "core/engine/op/activation", "core/engine/cuda/fakegpu"},
	{"core/engine/plan", "core/plugin/flight", "core/plugin/output", "core/plugin/registry", "core/plugin/sandbox"},
	{"core/engine/plan/layout", "core/engine/cuda/memory", "core/engine/cuda/library", "core/plugin/reattach"},
	{"core/engine/cuda/ops", "core/engine/cuda/optimizer"},
	{"core/engine/cpu/bind"},
	{"core/engine/cpu/ops/activation"},
	{"core/engine/cpu/ops"},
	{"core/engine/cpu", "core/engine/cuda"},
	{"core/train/ddp", "core/train/fault", "core/train/ddp/ddptest", "core/train/data", "core/train/metric", "core/engine/nn", "core/engine/nn/nntest", "core/engine/optim", "core/plugin/host", "core/job/launch", "core/report/forecast", "core/report/rundir"},
	{"core/report/watch", "core/train/recovery", "core/train/outline", "core/plugin/install", "core/plugin/observer", "core/plugin/trace"},
	{"core/train/replica"},
	{"core/train/passes"},
	{"core/train/agreement", "core/train/update"},
	{"core/train/report"},
	{"core/train", "core/bench", "core/infer", "core/onnx", "core/onnx/importer", "core/onnx/onnxtest", "core/engine/devicetest/activation"},
	{"core/engine/devicetest"},
	{"core/config"},
	{"core/app/sinks", "core/report/page"},
	{"core/app", "core/report/ui", "core/sweep"},
}

// wings are the folders of core from the bottom up. What stands in one imports
// from wings further down alone, so that each can be read after those below it.
var wings = [][]string{
	{"core/base", "core/tensor"},
	{"core/contract"},
	{"core/engine", "core/job", "core/report"},
	{"core/sdk"},
	{"core/plugin"},
	{"core/sdk/sdktest"}, // the conformance suite stands on the host's side, too
	{"core/train"},
	{"core/bench", "core/config", "core/infer", "core/onnx"},
	{"core/report/page"}, // shows configurations, too
	{"core/report/ui", "core/sweep"},
	{"core/app"},
}

// wingOf is the number of the wing that a package stands in, and its name.
func wingOf(pkg string) (at int, name string) {
	at = -1
	for i, level := range wings {
		for _, w := range level {
			if (pkg == w || strings.HasPrefix(pkg, w+"/")) && len(w) > len(name) {
				at, name = i, w
			}
		}
	}
	return at, name
}

func TestWingsImportDownwards(t *testing.T) {
	for pkg, list := range imports(t) {
		mine, wing := wingOf(pkg)
		if strings.HasPrefix(pkg, "core/") && mine < 0 {
			t.Errorf("%s stands in no wing: see core/doc.go for where it belongs", pkg)
		}
		for _, p := range list {
			p, inside := strings.CutPrefix(p, module)
			its, other := wingOf(p)
			if inside && mine >= 0 && its >= 0 && wing != other && its >= mine {
				t.Errorf("%s imports %s: %s is not below %s", pkg, p, other, wing)
			}
		}
	}
}

// beside are the imports within a layer.
var beside = map[string][]string{
	"core/sdk":         {"core/sdk/pb"},
	"core/plugin/host": {"core/sdk/pb"},
}

// only says which packages may import what, and why.
var only = []struct {
	path   string
	users  []string
	reason string
}{
	{"go.uber.org/fx", []string{"core/app"}, "constructors work without fx; wiring is one package's business"},
	{"go.uber.org/dig", []string{"core/app"}, "as fx"},
	{"github.com/BurntSushi/toml", []string{"core/config"}, "packages own their tables as plain structs; one package reads files"},
	{"github.com/hashicorp/go-plugin", []string{"core/sdk", "core/sdk/pb", "core/plugin/host"}, "what a plugin is to the rest is an interface of core/sdk or core/plugin/host"},
	{"google.golang.org/grpc", []string{"core/sdk", "core/sdk/pb", "core/plugin/host"}, "gRPC is control plane of plugins alone"},
	{"github.com/spf13/cobra", []string{"cmd/trainctl/internal/..."}, "the command line is the program's, not the library's"},
	{"github.com/ebitengine/purego", []string{"core/base/dl"}, "one package opens libraries, and a build without it is static"},
	{"golang.org/x/term", []string{"core/report/event", "cmd/trainctl/internal/cli"}, "only what draws asks about terminals"},
	{"github.com/dlclark/regexp2", []string{"core/base/tokenizer"}, "expressions of tokenizers look ahead; all others are Go's"},
}

// engine are the packages that compute. They share core/contract with plugins,
// and link nothing that talks to one: a compiler or a kernel is built, tested
// and read without gRPC, and another way to reach plugins would not touch it.
var engine = []string{
	"core/contract", "core/tensor", "core/engine/graph", "core/engine/kernel/...", "core/engine/op", "core/engine/nn", "core/engine/plan", "core/engine/cpu", "core/engine/cuda", "core/engine/optim", "core/engine/devicetest",
}

// wire is what the engine must not link.
var wire = []string{"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/hashicorp/go-plugin", module + "core/sdk"}

// sourceFiles calls visit for each Go file of the module that is neither a test, a
// generator nor an example, with the imports parsed.
func sourceFiles(t *testing.T, visit func(pkg string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"testdata", "templates", "examples", "gen"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err == nil {
			pkg, err := filepath.Rel("..", filepath.Dir(path))
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(pkg), f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// imports maps each package of the module to what its non-test files import.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	sourceFiles(t, func(pkg string, f *ast.File) {
		for _, i := range f.Imports {
			found[pkg] = append(found[pkg], strings.Trim(i.Path.Value, `"`))
		}
	})
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
		if strings.HasPrefix(pkg, "core/") && layerOf(pkg) < 0 && !strings.HasPrefix(pkg, "core/sdk/sdktest") && !strings.HasPrefix(pkg, "core/train/checkpoint/") {
			t.Errorf("%s is in no layer: say in core/arch_test.go where it belongs", pkg)
		}
	}
}

// contains reports whether a list of packages, in which /... stands for all below, has pkg.
func contains(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		above, all := strings.CutSuffix(p, "...")
		return p == pkg || all && strings.HasPrefix(pkg, above)
	})
}

func TestDependenciesStayWhereTheyBelong(t *testing.T) {
	for pkg, list := range imports(t) {
		for _, p := range list {
			for _, rule := range only {
				if (p == rule.path || strings.HasPrefix(p, rule.path+"/")) && !contains(rule.users, pkg) && !strings.HasPrefix(pkg, "core/sdk/") {
					t.Errorf("%s imports %s: %s", pkg, p, rule.reason)
				}
			}
		}
	}
}

// The go command lists what is linked, so that imports of libraries count.
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

// A program that trains through package trainctl links neither the command line nor what only tests
// use.
func TestLibraryLinksNoProgram(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", strings.TrimSuffix(module, "/")).CombinedOutput()
	if err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, out)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		for _, path := range []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/google/go-cmp", "go.uber.org/goleak", module + "core/sdk/sdktest", module + "trainctltest", module + "cmd"} {
			if dep == path || strings.HasPrefix(dep, path+"/") {
				t.Errorf("package trainctl links %s", dep)
			}
		}
	}
}

// Operations are known once their package is linked. A package that looks them up links all
// of them, so that no list lacks some.
func TestAllOperationsAreLinked(t *testing.T) {
	const op, defined = module + "core/engine/op", module + "core/engine/op/activation"
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}} ; {{join .Deps \" \"}}", module+"...").Output()
	if err != nil {
		t.Fatal("go list: ", err)
	}
	for line := range strings.Lines(string(out)) {
		imports, deps, _ := strings.Cut(line, " ; ")
		pkg := strings.Fields(imports)[0]
		if pkg == defined || pkg == module+"core/engine/cuda/library" { // which knows convolutions alone
			continue
		}
		if slices.Contains(strings.Fields(imports)[1:], op) && !slices.Contains(strings.Fields(deps), defined) {
			t.Errorf("%s looks up operations and does not link %s: import it for its definitions", pkg, defined)
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

// mostFields is how many fields a struct of the training loop may have: what has
// more does several things, and is made of parts instead.
const mostFields = 20

func TestPartsOfTheTrainingLoopAreSmall(t *testing.T) {
	goFiles(t, "train", func(path string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && s.Fields.NumFields() > mostFields {
				t.Errorf("%s: %s has %d fields, at most %d may be in a struct of the training loop: group what belongs together", path, spec.Name, s.Fields.NumFields(), mostFields)
			}
			return true
		})
	})
}

// goFiles calls visit for each Go file below a folder, tests and generated ones included.
func goFiles(t *testing.T, root string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go"):
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mostFiles is how many Go files a folder may have, tests and generated ones counted: a
// package with more holds several ideas, each of which has a folder of its own.
const mostFiles = 40

func TestFoldersAreSmall(t *testing.T) {
	files := map[string]int{}
	goFiles(t, "..", func(path string) { files[filepath.Dir(path)]++ })
	for dir, n := range files {
		if n > mostFiles {
			t.Errorf("%s has %d Go files, at most %d may lie in a folder: move an idea to a package of its own", dir, n, mostFiles)
		}
	}
}

// mostLines is how long a function may be: what is longer has parts with names.
const mostLines = 70

// medianLines is how long half of the functions may be, tests left out.
const medianLines = 9

func TestFunctionsAreShort(t *testing.T) {
	var lengths []int
	goFiles(t, "..", func(path string) {
		if strings.HasPrefix(filepath.Base(path), "zz_") {
			return
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1
			if n > mostLines {
				t.Errorf("%s: %s has %d lines, at most %d may be in a function: give its parts names", path, fn.Name.Name, n, mostLines)
			}
			if !strings.HasSuffix(path, "_test.go") {
				lengths = append(lengths, n)
			}
		}
	})
	slices.Sort(lengths)
	if median := lengths[len(lengths)/2]; median > medianLines {
		t.Errorf("the median function has %d lines, want at most %d", median, medianLines)
	}
}

// mostNaming is how many files may name one operation: its definition, an implementation
// for each device with its kernel, the generator of the kernel's assembly, and the models
// that consist of it.
const mostNaming = 6

// An operation is known by its registered definition: no code switches over names.
// Tests and generated files may name it.
func TestAnOperationIsNamedInFewFiles(t *testing.T) {
	var naming []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || slices.Contains([]string{"testdata", "devicetest", "docs", "bench", "configs"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		case strings.HasPrefix(d.Name(), "zz_"), strings.HasSuffix(path, "_test.go"), !slices.Contains([]string{".go", ".cu", ".s", ".proto"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "gelu") {
			naming = append(naming, path)
		}
		return err
	})
	if err != nil || len(naming) == 0 || len(naming) > mostNaming {
		t.Errorf("%d files name gelu, want 1 to %d: %v %v", len(naming), mostNaming, naming, err)
	}
}
