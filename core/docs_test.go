package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// named are the files, folders and packages of this module that a text speaks of.
// Words in capitals and stars stand for what the reader writes there.
var named = regexp.MustCompile(`(?:^|[^\w/.$-])((?:core|plugins|cmd|e2e|examples|bench|gputest|configs|docs|\.ci)/[\w./*-]+)`)

// beside are files that a package comment names without their folder.
var besideFiles = regexp.MustCompile(`(?:^|[\s(])(\w+\.go)\b`)

// identifier is what follows a package's path: core/sdk.Serve.
var identifier = regexp.MustCompile(`\.[A-Z]\w*(\.\w+)?$`)

func exists(path string) bool {
	_, err := os.Stat(filepath.Join("..", path))
	return err == nil
}

// placeholder reports whether a path has a part that the reader fills in.
func placeholder(path string) bool {
	return strings.Contains(path, "*") || regexp.MustCompile(`\b[A-Z]{2,}\b`).MatchString(path)
}

func checkPaths(t *testing.T, where, text string) {
	t.Helper()
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		path := strings.TrimRight(m[1], ".-")
		if !placeholder(path) && !exists(path) && !exists(identifier.ReplaceAllString(path, "")) {
			t.Errorf("%s speaks of %s, which does not exist", where, path)
		}
	}
}

// former are paths that docs/plugins.md names because they have moved.
var former = regexp.MustCompile("`core/(diag|shm|host)`")

// What documents and package comments name is there.
func TestPathsInDocumentsExist(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no documents: ", err)
	}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		checkPaths(t, page, former.ReplaceAllString(string(text), ""))
	}
}

func TestPathsInPackageCommentsExist(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "templates" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || f.Doc == nil {
			return err
		}
		text := f.Doc.Text()
		checkPaths(t, path, text)
		for _, m := range besideFiles.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s speaks of %s, which is not beside it", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// imported is the sentence of a package comment that says what the package may import.
var imported = regexp.MustCompile(`It imports [^.]*(\.[a-z][^.]*)*\.`)

// modulePath is a folder of this module in such a sentence.
var modulePath = regexp.MustCompile(`\b(?:core|plugins|docs|e2e|bench|cmd|sdk|internal|custom)\b(?:/[\w-]+)*`)

// TestEveryPackageHasADoc holds that each package has a doc.go that says what the
// package is, what it may import, and where to start reading.
func TestEveryPackageHasADoc(t *testing.T) {
	for pkg, files := range packages(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", pkg, "doc.go"), nil, parser.ParseComments)
		if err != nil || f.Doc == nil {
			t.Errorf("%s has no doc.go with a package comment", pkg)
			continue
		}
		text := strings.ReplaceAll(f.Doc.Text(), "\n", " ")
		if name := "Package " + f.Name.Name + " "; pkg != "core" && f.Name.Name != "main" && !strings.HasPrefix(text, name) {
			t.Errorf("%s/doc.go does not begin with %q", pkg, name)
		}
		if files.count > 4 && !besideFiles.MatchString(text) {
			t.Errorf("%s/doc.go names no file to start with", pkg)
		}
		sentence := imported.FindString(text)
		if sentence == "" && len(files.imports) > 0 {
			t.Errorf("%s/doc.go does not say what the package may import (\"It imports …\")", pkg)
			continue
		}
		may := modulePath.FindAllString(sentence, -1)
		for _, p := range files.imports {
			if !slices.ContainsFunc(may, func(m string) bool { return p == m || strings.HasPrefix(p, m+"/") }) {
				t.Errorf("%s imports %s, and its doc.go says: %s", pkg, p, sentence)
			}
		}
	}
}

// sources are the files of a package other than tests, and what they import of
// this module.
type sources struct {
	count   int
	imports []string
}

// packages are all packages of this module but examples and test programs.
func packages(t *testing.T) map[string]*sources {
	t.Helper()
	found := map[string]*sources{}
	sourceFiles(t, func(pkg string, f *ast.File) {
		if found[pkg] == nil {
			found[pkg] = &sources{}
		}
		found[pkg].count++
		for _, i := range f.Imports {
			if p, inside := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); inside {
				found[pkg].imports = append(found[pkg].imports, p)
			}
		}
	})
	return found
}
