package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/commands"
)

// module is the import path of this repository.
const module = "github.com/trainctl/trainctl/"

// snippetImports are the packages that snippets of Go name without importing them.
// mine is the reader's own, which mineText stands for.
var snippetImports = map[string]string{
	"sdk": module + "core/sdk", "sdktest": module + "core/sdk/sdktest", "tensor": module + "core/tensor", "usererr": module + "core/base/usererr",
	"trainctl": strings.TrimSuffix(module, "/"), "trainctltest": module + "trainctltest", "custom": module + "custom", "command": module + "cmd/trainctl/command",
	"atomic": "sync/atomic", "errors": "errors", "log": "log", "os": "os", "testing": "testing", "context": "context", "fmt": "fmt", "slog": "log/slog", "mine": module + "docs/snippets/mine",
}

const mineText = `package mine

import "` + module + `core/sdk"

func New() sdk.Backend { return nil }
`

// Every snippet of the documents is Go that compiles, TOML that decodes, JSON,
// proto, Python, or a command line of commands and flags that exist.
func TestSnippets(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no documents: ", err)
	}
	var program []string // Go
	for _, file := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := 1
		for i, part := range strings.Split(string(text), "```") {
			language, body, _ := strings.Cut(part, "\n")
			switch {
			case i%2 == 0:
			case language == "go":
				program = append(program, goFile(t, fmt.Sprintf("%s:%d", filepath.Base(file), line+1), body))
			default:
				checkSnippet(t, file, language, body)
			}
			line += strings.Count(part, "\n")
		}
	}
	if len(program) == 0 {
		t.Error("no snippet of Go was found")
	}
	compile(t, program)
}

func checkSnippet(t *testing.T, file, language, body string) {
	t.Helper()
	switch language {
	case "toml":
		if _, err := toml.Decode(body, &map[string]any{}); err != nil {
			t.Errorf("%s: %v in\n%s", file, err, body)
		}
	case "json":
		if !json.Valid([]byte(body)) {
			t.Errorf("%s: not JSON:\n%s", file, body)
		}
	case "python":
		checkPython(t, file, body)
	case "proto":
		if !strings.HasPrefix(body, "syntax = \"proto3\";") || strings.Count(body, "{") != strings.Count(body, "}") {
			t.Errorf("%s: proto\n%s", file, body)
		}
	case "":
		for line := range strings.Lines(body) {
			if words, ok := strings.CutPrefix(line, "$ trainctl "); ok {
				checkCommandLine(t, file, strings.Fields(words))
			}
		}
	default:
		t.Errorf("%s: a snippet in %q, which nothing checks", file, language)
	}
}

func checkPython(t *testing.T, file, body string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Logf("%s: a snippet of Python is not looked at, since there is no python3", file)
		return
	}
	cmd := exec.Command(python, "-c", `import sys; compile(sys.stdin.read(), "snippet", "exec")`)
	cmd.Stdin = strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", file, err, out)
	}
}

func checkCommandLine(t *testing.T, file string, words []string) {
	t.Helper()
	cmd, rest, err := commands.Root(new(cli.Program)).Find(words)
	if err != nil || !cmd.Runnable() {
		t.Errorf("%s: trainctl %v: %v", file, words, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: trainctl %v: %v", file, words, err)
	}
}

// goFile makes a file of a snippet, with the imports that it leaves out. Errors of
// the compiler have its place in the document.
func goFile(t *testing.T, place, body string) string {
	t.Helper()
	const clause = "package snippet\n" // func main may stand there, and nothing has to be linked
	f, err := parser.ParseFile(token.NewFileSet(), "", clause+body, parser.AllErrors)
	if err != nil {
		t.Fatalf("%s: %v in\n%s", place, err, body)
	}
	imports := map[string]bool{}
	for _, id := range f.Unresolved {
		if path, ok := snippetImports[id.Name]; ok {
			imports[path] = true
		}
	}
	text := clause
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		text += fmt.Sprintf("import %q\n", path)
	}
	return text + "//line " + place + "\n" + body
}

// compile builds the files, each as a package of this module that
// exists for the compiler alone.
func compile(t *testing.T, files []string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	add := func(pkg, text string) {
		real := filepath.Join(dir, pkg+".go")
		if err := os.WriteFile(real, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, "docs", "snippets", pkg, pkg+".go")] = real
		args = append(args, "./docs/snippets/"+pkg)
	}
	add("mine", mineText)
	for i, text := range files {
		add(fmt.Sprint("snippet", i), text)
	}
	list, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// sdkName is how documents write a name of a package that plugins import.
var sdkName = regexp.MustCompile(`\b(sdk|sdktest)\.([A-Z]\w*)`)

// What documents name of the packages for plugins is there.
func TestDocumentsNameWhatTheSDKHas(t *testing.T) {
	exported := map[string]map[string]bool{"sdk": exportedNames(t, "../../core/sdk"), "sdktest": exportedNames(t, "../../core/sdk/sdktest")}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no documents: ", err)
	}
	for _, file := range append(pages, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sdkName.FindAllStringSubmatch(string(text), -1) {
			if !exported[m[1]][m[2]] {
				t.Errorf("%s: %s does not exist", file, m[0])
			}
		}
	}
}

func exportedNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no package in ", dir, err)
	}
	names := map[string]bool{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(f)
		for _, d := range f.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					names[n.Name.Name] = true
				case *ast.TypeSpec:
					names[n.Name.Name] = true
				case *ast.ValueSpec:
					for _, id := range n.Names {
						names[id.Name] = true
					}
				}
				return true
			})
		}
	}
	return names
}
