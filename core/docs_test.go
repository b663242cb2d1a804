package core

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
