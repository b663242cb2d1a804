package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/conv"
)

var update = flag.Bool("update", false, "write the tables of docs/performance.md")

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
		shares, products := sharesOfFloor(rows, level)
		fmt.Fprintf(&b, "%s: %d of %d kernels reach half of the floor; of the convolutions and matrix products %d of %d, the least %.0f %%.\n",
			heads[i], reachHalf(shares), len(shares), reachHalf(products), len(products), 100*slices.Min(products))
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

// sharesOfFloor are the floors of all kernels at a level by their times, and those of convolutions and matrix products.
func sharesOfFloor(rows []*kernelRow, level string) (all, products []float64) {
	for _, r := range rows {
		for j, us := range r.reached[level] {
			share := r.floors[level][j] / us
			all = append(all, share)
			if strings.HasSuffix(r.name, "conv2d") || strings.HasSuffix(r.name, "gemm") {
				products = append(products, share)
			}
		}
	}
	return all, products
}

func reachHalf(shares []float64) (n int) {
	for _, share := range shares {
		if share >= 0.5 {
			n++
		}
	}
	return n
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

// holdPage holds the part of docs/performance.md between the lines begin and end against what it should be.
func holdPage(t *testing.T, begin, end, want string) {
	t.Helper()
	page, err := os.ReadFile(performancePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s lacks the lines %q and %q", performancePage, begin, end)
	}
	whole := before + begin + want + end + after
	switch {
	case whole == string(page):
	case *update:
		if err := os.WriteFile(performancePage, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: a table is not that of testdata: run go test ./core/bench -run %s -update", performancePage, t.Name())
	}
}

// TestKernelTable holds the table of docs/performance.md against the recorded output of bench kernels.
func TestKernelTable(t *testing.T) {
	holdPage(t, tableBegin, tableEnd, kernelTable(t))
}

// Convolutions drawn at random are recorded with this number and seed.
const (
	randomRecorded = 300
	randomSeed     = 2026
	randomBegin    = "<!-- random convolutions: written by go test ./core/bench -run TestRandomTable -update -->\n"
	randomEnd      = "<!-- end of random convolutions -->\n"
)

var randomKinds = []string{
	"1 to 3 channels", "1×1 and patches", "dense, stride 1", "dense, stride 2 and more", "grouped",
	"depthwise, stride 1", "depthwise, stride 2 and more", "depthwise, several outputs of a channel",
}

// randomKind is the row of the table that a convolution belongs to.
func randomKind(p *conv.Shape) string {
	one := p.R == 1 && p.S == 1
	switch strided := p.StrideH > 1 || p.StrideW > 1; {
	case p.Groups > 1 && p.Groups == p.C && p.K > p.C:
		return randomKinds[7]
	case p.Groups > 1 && p.Groups == p.C && strided:
		return randomKinds[6]
	case p.Groups > 1 && p.Groups == p.C:
		return randomKinds[5]
	case p.Groups > 1:
		return randomKinds[4]
	case p.C <= 3:
		return randomKinds[0]
	case one || p.R <= p.StrideH && p.S <= p.StrideW:
		return randomKinds[1]
	case strided:
		return randomKinds[3]
	}
	return randomKinds[2]
}

// randomTable sums up the recorded random convolutions by kind, at both levels.
func randomTable(t *testing.T) string {
	t.Helper()
	kinds := map[string]string{}
	for _, p := range randomShapes(randomRecorded, randomSeed) {
		kinds[p.String()] = randomKind(&p)
	}
	levels := []string{"avx2", "avx512"}
	shares := map[string][]float64{} // by kind and level
	var b strings.Builder
	for _, level := range levels {
		m, list := recorded[Machine, KernelResult](t, "testdata/random/"+level+".jsonl")
		var all []float64
		for _, r := range list {
			kind, ok := kinds[r.Shape]
			if !ok {
				continue // of the list
			}
			share := r.Floor / r.Min
			shares[kind+level] = append(shares[kind+level], share)
			all = append(all, share)
		}
		fmt.Fprintf(&b, "%s on %s, %.0f GFLOP/s: %d of %d directions reach half of the floor.\n", m.Level, m.CPU, m.GFLOPS, reachHalf(all), len(all))
	}
	b.WriteString("\n| kind | AVX2: directions | reach half | tenth percentile % | median % | AVX-512: directions | reach half | tenth percentile % | median % |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, kind := range randomKinds {
		fmt.Fprintf(&b, "| %s |", kind)
		for _, level := range levels {
			list := slices.Sorted(slices.Values(shares[kind+level]))
			fmt.Fprintf(&b, " %d | %d | %.0f | %.0f |", len(list), reachHalf(list), 100*list[len(list)/10], 100*list[len(list)/2])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestRandomTable holds the table of random convolutions in docs/performance.md against the recorded output of bench kernels --random.
func TestRandomTable(t *testing.T) {
	holdPage(t, randomBegin, randomEnd, randomTable(t))
}
