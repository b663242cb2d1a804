package api

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite api.txt")

// What programs use of the promised packages is still there, and what is new is in the list.
func TestAPIOnlyGrows(t *testing.T) {
	var now []string
	for _, dir := range Packages {
		lines, err := List(filepath.Join("../..", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			now = append(now, filepath.ToSlash(filepath.Join("trainctl", dir))+": "+l)
		}
	}
	if *update {
		if err := os.WriteFile("api.txt", []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, l := range before {
		if !slices.Contains(now, l) {
			t.Errorf("gone or changed, which breaks programs that use it:\n\t%s", l)
		}
	}
	for _, l := range now {
		if !slices.Contains(before, l) {
			t.Errorf("new; fix: go test ./internal/api -update, and review the difference:\n\t%s", l)
		}
	}
}

func TestListOfAPackage(t *testing.T) {
	dir := t.TempDir()
	const source = `package p

type Rank struct { Name string; secret int; Box[int] }
type Box[T any] struct { In T }
type Doer interface { Do() error; Undo() }
type hidden struct { Field int }
const A, b = 1, 2
var V map[string]int
func (r *Rank) Run(n int) (err error) { return nil }
func (b Box[T]) Get() T { return b.In }
type Pair[A, B any] struct { One A }
func (p Pair[A, B]) Swap() { }
func (h hidden) Method() {}
func New() *Rank { return nil }
`
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := List(dir)
	want := []string{
		"const A", "field Box.In T", "field Pair.One A", "field Rank embeds Box[int]", "field Rank.Name string", "func (b Box[T]) Get() T", "func (p Pair[A, B]) Swap()",
		"func (r *Rank) Run(n int) (err error)", "func New() *Rank", "type Box[T any] struct", "type Doer interface { Do() error Undo() }", "type Pair[A, B any] struct", "type Rank struct", "var V map[string]int",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
}
