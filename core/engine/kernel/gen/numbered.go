package main

import (
	"bytes"
	"cmp"
	"fmt"
	source "go/format"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// numberedBody is the choice on an architecture.
func numberedBody(n isa.Numbered, arch string) string {
	var b strings.Builder
	choose := func(v isa.ISA) {
		most := n.Most
		if v.Lanes < isa.AVX512.Lanes {
			most = cmp.Or(n.NarrowMost, most)
		}
		fmt.Fprintf(&b, "switch n {\n")
		for i := 1; i <= most; i++ {
			fmt.Fprintf(&b, "case %d:\n%s%d%s(t)\n", i, n.Base, i, v.Name)
		}
		b.WriteString("}\n")
	}
	switch {
	case n.Wide && arch == "amd64":
		choose(isa.AVX512)
	case n.Wide:
		b.WriteString("kernel.NoVectors()\n")
	case arch == "amd64":
		fmt.Fprintf(&b, "if lanes == %d {\n", isa.AVX512.Lanes)
		choose(isa.AVX512)
		b.WriteString("return\n}\n")
		choose(isa.AVX2)
	case arch == "arm64":
		choose(isa.NEON)
	default:
		b.WriteString("kernel.NoVectors()\n")
	}
	return b.String()
}

// writeNumbered writes three files for each folder: for amd64, for arm64 and for all others.
func writeNumbered(dir string, kernels []isa.Numbered) error {
	for _, arch := range []string{"amd64", "arm64", "other"} {
		bodies := map[string]*bytes.Buffer{}
		for _, n := range kernels {
			b := bodies[n.Folder]
			if b == nil {
				b = new(bytes.Buffer)
				bodies[n.Folder] = b
			}
			name := "run" + strings.ToUpper(n.Base[:1]) + n.Base[1:]
			params := "lanes, n"
			if n.Wide {
				params = "n"
			}
			fmt.Fprintf(b, "\n// %s %s\nfunc %s(%s int, t *%s) {\n%s}\n", name, n.Doc, name, params, cmp.Or(n.Struct, n.Base), numberedBody(n, arch))
		}
		for folder, b := range bodies {
			text, err := source.Source(append(choiceHeader(folder, arch, b.Bytes()), b.Bytes()...))
			if err != nil {
				return fmt.Errorf("%s: %w", folder, err)
			}
			if err := os.WriteFile(filepath.Join(dir, folder, "zz_numbered_"+arch+".go"), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
