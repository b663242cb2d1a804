package core_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/engine/devicetest"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md and docs/protocol.md")

// TestOperationsAreComplete walks all operations and names the files that they
// lack: an operation is its definition, an implementation on each device, a case
// of the conformance suite, and its lines in the schema and the documentation.
func TestOperationsAreComplete(t *testing.T) {
	layer := config.Schema()["definitions"].(map[string]any)["LayerConfig"].(map[string]any)["properties"].(map[string]any)
	types := layer["type"].(map[string]any)["enum"].([]string)
	onCPU, onGPU, tested := cpu.Operations(), cuda.Operations(), devicetest.Operations()
	for _, d := range op.All() {
		file := strings.ReplaceAll(string(d.Name), "+", "_")
		if d.Pointwise.Saved != op.SavedNothing {
			file = "activation/" + file
		}
		lacks := func(where, format string, args ...any) {
			t.Errorf("%s: %s; see %s", d.Name, fmt.Sprintf(format, args...), fmt.Sprintf(where, file))
		}
		if d.Doc == "" {
			lacks("core/engine/op/%s.go", "there is no Doc")
		}
		for _, s := range d.Steps {
			if s.Cost == nil {
				lacks("core/engine/op/%s.go", "the step %s has no Cost, which buckets and forecasts need", s.Op)
			}
			if !slices.Contains(onCPU, s.Op) {
				lacks("core/engine/cpu/ops/%s.go", "the CPU does not implement %s", s.Op)
			}
			switch {
			case slices.Contains(onGPU, s.Op) || d.CPUOnly:
			case d.Pointwise.Saved != op.SavedNothing:
				t.Errorf("%s: GPUs do not implement %s; see core/engine/cuda/kernels/%s.cu", d.Name, s.Op, d.Name)
			default:
				lacks("core/engine/cuda/ops/%s.go", "GPUs do not implement %s", s.Op)
			}
		}
		if len(d.Steps) > 0 && !slices.Contains(tested, d.Name) && !d.CPUOnly { // package custom compares these
			lacks("core/engine/devicetest/%s.go", "the conformance suite has no case")
		}
		if d.Build != nil && !slices.Contains(types, string(d.Name)) {
			lacks("core/config/schema.go", "it is not a type of a layer in the schema")
		}
		for _, k := range d.Keys {
			if k.Doc == "" {
				lacks("core/engine/op/%s.go", "the key %s has no Doc", k.Name)
			}
			if layer[k.Name] == nil {
				lacks("core/config/schema.go", "the key %s is not in the schema", k.Name)
			}
		}
	}
	for _, list := range [][]graph.Op{onCPU, onGPU, tested} {
		for _, o := range list {
			if op.Of(o) == nil {
				t.Errorf("%s is implemented or tested, and has no definition in core/engine/op", o)
			}
		}
	}
}

const manual = "../docs/configuration.md"

// TestOperationsAreDocumented compares the tables of layers with the
// definitions; with -update it writes them.
func TestOperationsAreDocumented(t *testing.T) {
	checkTable(t, manual, "<!-- tables of core/engine/op: go test ./core -update -->\n", "<!-- end of tables -->\n", tables())
}

// checkTable compares what stands between two marks of a document with what a
// definition says; with -update it writes it.
func checkTable(t *testing.T, document, begin, end, want string) {
	t.Helper()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	a, b := strings.Index(text, begin), strings.Index(text, end)
	if a < 0 || b < a {
		t.Fatalf("%s lacks the marks %q and %q", document, begin, end)
	}
	if want = text[:a+len(begin)] + want + text[b:]; want == text {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the definitions between %q and %q: run go test ./core -update", document, begin, end)
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tables are the types of layers, and the keys of operations with who takes them.
func tables() string {
	s := &strings.Builder{}
	fmt.Fprint(s, "\n| `type` | what it is |\n|---|---|\n")
	types, docs := nn.Types()
	for _, name := range types {
		fmt.Fprintf(s, "| %s | %s |\n", name, docs[name])
	}
	fmt.Fprint(s, "\n| key | used by | meaning |\n|---|---|---|\n")
	type row struct{ key, doc string }
	var rows []row
	users := map[row][]string{}
	for _, d := range op.Layers() {
		for _, k := range d.Keys {
			r := row{k.Name, k.Doc}
			if users[r] == nil {
				rows = append(rows, r)
			}
			users[r] = append(users[r], string(d.Name))
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	for _, r := range rows {
		fmt.Fprintf(s, "| `%s` | %s | %s |\n", r.key, strings.Join(users[r], ", "), r.doc)
	}
	return s.String() + "\n"
}
