package api

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Packages are the folders that the promise covers, relative to the module.
var Packages = []string{".", "trainctltest", "custom", "cmd/trainctl/command", "core/sdk", "core/tensor"}

// List returns what the package in a folder exports, sorted. Fields of a struct are lines of their
// own, because adding one breaks no program; an interface is one line, because another method breaks
// programs that implement it.
func List(dir string) ([]string, error) {
	p, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	l := &lister{files: token.NewFileSet()}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			l.decl(d)
		}
	}
	slices.Sort(l.lines)
	return l.lines, nil
}

type lister struct {
	files *token.FileSet
	lines []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// text is a node as it is written, without comments.
func (l *lister) text(node any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, l.files, node); err != nil {
		panic("api: " + err.Error())
	}
	return b.String()
}

func (l *lister) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || exported(d.Recv.List[0].Type)) {
			l.add("%s", l.text(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type}))
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			l.spec(d.Tok, s)
		}
	}
}

// exported reports whether the type of a receiver is.
func exported(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.StarExpr:
		return exported(t.X)
	case *ast.IndexExpr: // of one type parameter
		return exported(t.X)
	case *ast.IndexListExpr: // of several
		return exported(t.X)
	case *ast.Ident:
		return t.IsExported()
	}
	return false
}

func (l *lister) spec(tok token.Token, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() && s.Type != nil {
				l.add("%s %s %s", tok, n.Name, l.text(s.Type))
			} else if n.IsExported() {
				l.add("%s %s", tok, n.Name)
			}
		}
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			l.typeSpec(s)
		}
	}
}

func (l *lister) typeSpec(s *ast.TypeSpec) {
	structure, is := s.Type.(*ast.StructType)
	if !is {
		l.add("type %s", l.text(s))
		return
	}
	name := s.Name.Name
	if s.TypeParams != nil {
		name = l.text(&ast.TypeSpec{Name: s.Name, TypeParams: s.TypeParams, Type: ast.NewIdent("struct")})
	}
	l.add("type %s struct", strings.TrimSuffix(name, " struct"))
	for _, f := range structure.Fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				l.add("field %s.%s %s", s.Name.Name, n.Name, l.text(f.Type))
			}
		}
		if len(f.Names) == 0 {
			l.add("field %s embeds %s", s.Name.Name, l.text(f.Type))
		}
	}
}
