package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of kernels in docs/performance.md")

// The table lies between these lines of the page.
const (
	performancePage = "../../docs/performance.md"
	tableBegin      = "<!-- kernels: written by go test ./core/bench -run TestKernelTable -update -->\n"
	tableEnd        = "<!-- end of kernels -->\n"
)

// reasons reads testdata/kernels/reasons.txt: parts of names, and why they take longer than the floor.
func reasons(t *testing.T) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/kernels/reasons.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if part, reason, ok := strings.Cut(strings.TrimSpace(line), "|"); ok && !strings.HasPrefix(line, "#") {
			all = append(all, [2]string{strings.TrimSpace(part), strings.TrimSpace(reason)})
		}
	}
	return all
}

// kernelRow is a kernel and its gradients on one shape.
type kernelRow struct {
	name, shape     string
	floors, reached map[string][]float64 // by level: instructions have peaks of their own
}

// cells are a row's floors, and of a level the times and their shares of the floors.
func (r *kernelRow) cells(level string) (floors, reached, shares string) {
	var list [3][]string
	for i, floor := range r.floors[level] {
		list[0] = append(list[0], number(floor))
		list[1] = append(list[1], number(r.reached[level][i]))
		list[2] = append(list[2], fmt.Sprintf("%.0f", 100*floor/r.reached[level][i]))
	}
	join := func(list []string) string { return strings.Join(list, " / ") }
	return join(slices.Compact(list[0])), join(list[1]), join(list[2])
}

// kernelRows reads both levels' tables, and their heads.
func kernelRows(t *testing.T, levels []string) (rows []*kernelRow, heads []string) {
	t.Helper()
	for _, level := range levels {
		m, list := recorded[Machine, KernelResult](t, "testdata/kernels/"+level+".jsonl")
		heads = append(heads, fmt.Sprintf("%s on %s, %.0f GFLOP/s", m.Level, m.CPU, m.GFLOPS))
		for _, r := range list {
			name := forwardOf(r.Name)
			i := slices.IndexFunc(rows, func(x *kernelRow) bool { return x.name == name && x.shape == r.Shape })
			if i < 0 {
				i = len(rows)
				rows = append(rows, &kernelRow{name: name, shape: r.Shape, floors: map[string][]float64{}, reached: map[string][]float64{}})
			}
			row := rows[i]
			row.floors[level] = append(row.floors[level], r.Floor)
			row.reached[level] = append(row.reached[level], r.Min)
		}
	}
	return rows, heads
}

// kernelTable is the page's table of both levels.
func kernelTable(t *testing.T) string {
	t.Helper()
	levels := []string{"avx2", "avx512"}
	rows, heads := kernelRows(t, levels)
	var b strings.Builder
	for i, level := range levels {
		half, all := 0, 0
		for _, r := range rows {
			for j, us := range r.reached[level] {
				if all++; 2*r.floors[level][j] >= us {
					half++
				}
			}
		}
		fmt.Fprintf(&b, "%s: %d of %d kernels reach half of the floor.\n", heads[i], half, all)
	}
	b.WriteString("\n| kernel, and its gradients | shape | AVX2, floor µs | µs | of floor % | AVX-512, floor µs | µs | of floor % | where the rest goes |\n|---|---|---|---|---|---|---|---|---|\n")
	why, used := reasons(t), map[string]bool{}
	for _, r := range rows {
		i := slices.IndexFunc(why, func(w [2]string) bool { return strings.Contains(r.name+" "+r.shape, w[0]) })
		reason := ""
		if i >= 0 {
			reason, used[why[i][0]] = why[i][1], true
		}
		floor2, avx2, of2 := r.cells(levels[0])
		floor512, avx512, of512 := r.cells(levels[1])
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.name, r.shape, floor2, avx2, of2, floor512, avx512, of512, reason)
	}
	for _, w := range why {
		if !used[w[0]] {
			t.Errorf("testdata/kernels/reasons.txt: no kernel is %q, or a line above takes them all", w[0])
		}
	}
	return b.String()
}

// forwardOf is the kernel whose gradient a kernel is.
func forwardOf(name string) string {
	for _, suffix := range []string{" grad weight", " grad input", " grad"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// number has no more digits than a measurement.
func number(us float64) string {
	if us < 10 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// TestKernelTable holds the table of docs/performance.md against the recorded output of bench kernels.
func TestKernelTable(t *testing.T) {
	page, err := os.ReadFile(performancePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s lacks the lines %q and %q", performancePage, tableBegin, tableEnd)
	}
	want := before + tableBegin + kernelTable(t) + tableEnd + after
	switch {
	case want == string(page):
	case *update:
		if err := os.WriteFile(performancePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table of kernels is not that of testdata/kernels: run go test ./core/bench -run TestKernelTable -update", performancePage)
	}
}
