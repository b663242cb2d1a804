package core_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/plugins/backend-nccl"
	"github.com/trainctl/trainctl/plugins/backend-tcp"
)

const (
	protocol      = "../docs/protocol.md"
	tableBegin    = "<!-- collectives of core/contract: go test ./core -update -->\n"
	tableEnd      = "<!-- end of collectives -->\n"
	aliases       = "sdk/backend.go"
	writtenCases  = "sdk/sdktest/backend_results.go"
	writtenResult = "contract/contracttest/results_test.go"
)

// TestCollectivesAreComplete walks all collectives and names what they lack: a
// collective is its definition, its name for authors of plugins, a function of
// each backend, a case of the conformance suite, and its line of documentation.
func TestCollectivesAreComplete(t *testing.T) {
	backends := map[string][]sdk.Op{
		"plugins/backend-tcp":           tcp.New().Info().Ops,
		"plugins/backend-nccl (launch)": nccl.New().Info().Ops,
		"core/sdk/sdktest/membackend":   membackend.NewWorld().New().Info().Ops,
	}
	names, cases, results := read(t, aliases), read(t, writtenCases), read(t, writtenResult)
	for _, op := range sdk.Ops() {
		d := op.Definition()
		constant := constantOf(d.Name)
		lacks := func(where, what string) { t.Errorf("%v: %s; see core/%s", op, what, where) }
		if d.Name == "" || d.Doc == "" {
			lacks("contract/collective.go", "the definition has no Name or no Doc")
		}
		if !strings.Contains(names, fmt.Sprintf("= contract.%s ", constant)) && !strings.Contains(names, fmt.Sprintf("= contract.%s\n", constant)) {
			lacks(aliases, "core/sdk has no name for contract."+constant)
		}
		for name, ops := range backends {
			if !slices.Contains(ops, op) {
				t.Errorf("%v: %s does not publish it in Info.Ops", op, name)
			}
		}
		switch {
		case d.Kind == contract.OfGroup && !strings.Contains(results, "contract."+constant+":"):
			lacks(writtenResult, "there is no result written out")
		case d.Kind != contract.OfGroup && !strings.Contains(cases, "sdk."+constant): // those of groups are made of the definition
			lacks(writtenCases, "the conformance suite has no case")
		}
	}
}

// constantOf is the name of an operation's constant: OpAllReduce of all_reduce.
func constantOf(name string) string {
	constant := "Op"
	for word := range strings.SplitSeq(name, "_") {
		constant += strings.ToUpper(word[:1]) + word[1:]
	}
	return constant
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCollectivesAreDocumented compares the table of docs/protocol.md with the
// definitions; with -update it writes it.
func TestCollectivesAreDocumented(t *testing.T) {
	s := &strings.Builder{}
	fmt.Fprint(s, "\n| number | operation | buffer of `n` = count elements; `W` = world size |\n|---|---|---|\n")
	for _, op := range sdk.Ops() {
		fmt.Fprintf(s, "| %d | %v | %s |\n", op, op, op.Definition().Doc)
	}
	checkTable(t, protocol, tableBegin, tableEnd, s.String()+"\n")
}
