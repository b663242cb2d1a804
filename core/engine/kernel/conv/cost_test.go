package conv

import (
	"bufio"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

var fit = flag.Bool("fit", false, "print the rates of the cost model that fit the recorded times best")

// cyclesPerMicrosecond of the CPUs that the tables were recorded on, of the one that computes vectors in halves, and of the Intel Xeon of those
// of what Winograd takes since, which took so many of the cycles that the others take. Only ratios of costs count.
const cyclesPerMicrosecond, cyclesOfHalved, cyclesOfXeon = 3700, 2560, 1850

// sample is a direction of a convolution by one algorithm: what it does, and the cycles that it took.
type sample struct {
	terms  cost.Terms
	cycles float64
	weight float64 // the less, the slower than the best algorithm
}

// samples reads the tables of the active level, of CPUs that compute its vectors in halves or of others, by algorithm. Threads share
// the images.
func samples(t *testing.T, halves bool) (all [Algorithms][]sample) {
	t.Helper()
	paths, err := filepath.Glob("../../../bench/testdata/algorithms/" + kernel.Current().String() + "-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	directionOf := map[string]Direction{"conv2d": ToOutput, "conv2d grad weight": ToWeight, "conv2d grad input": ToInput}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		threads, head, cycles := 1, true, float64(cyclesPerMicrosecond)
		switch {
		case halves:
			cycles = cyclesOfHalved
		case strings.Contains(path, "-winograd-"):
			cycles = cyclesOfXeon
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var row struct {
				Threads  int  // of the table's head
				Halves   bool // as well
				Kernel   string
				Geometry Shape
				Times    map[string]float64 `json:"min_us"`
			}
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if head && row.Halves != halves {
				break
			}
			head, threads = false, max(threads, row.Threads)
			row.Geometry.N = kernel.CeilDiv(row.Geometry.N, threads)
			p, best := &row.Geometry, math.Inf(1)
			for _, us := range row.Times {
				best = min(best, us)
			}
			for a := range Algorithms {
				us, d := row.Times[a.String()], directionOf[row.Kernel]
				if us == 0 || !Takes(p, a, d) || a == Winograd && winograd.Saves(p, d) {
					continue
				}
				terms, _ := termsOf(p, a, d)
				all[a] = append(all[a], sample{terms, us * cycles, math.Sqrt(best / us)})
			}
		}
	}
	return all
}

// TestCostsAgainstRecordedTimes holds the cycles that the model predicts against those that were recorded.
func TestCostsAgainstRecordedTimes(t *testing.T) {
	kerneltest.AtRecordedLevels(t, func(t *testing.T) {
		testCosts(t, false)
		if kernel.Current() == kernel.AVX2 {
			testCosts(t, true)
		}
	})
}

// testCosts does so for CPUs that compute vectors in halves, or for others.
func testCosts(t *testing.T, halves bool) {
	t.Helper()
	defer kernel.ForceHalves(halves)()
	for a, list := range samples(t, halves) {
		name := Algorithm(a)
		if len(list) == 0 {
			if name != Lanes {
				t.Errorf("no times of %v, vectors in halves: %v", name, halves)
			}
			continue
		}
		_, rates := termsOf(&Shape{N: 1, C: 16, H: 8, W: 8, K: 16, R: 3, S: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}, name, ToWeight)
		var quotients []float64
		for _, s := range list {
			quotients = append(quotients, rates.Cycles(&s.terms)/s.cycles)
		}
		slices.Sort(quotients)
		n := len(quotients)
		low, middle, high := quotients[n/10], quotients[n/2], quotients[9*n/10]
		t.Logf("%v: %d times, predicted / recorded %.2f (a tenth is below), %.2f, %.2f (a tenth is above)", name, n, low, middle, high)
		if low < 0.5 || middle < 0.8 || middle > 1.25 || high > 1.6 {
			t.Errorf("%v, vectors in halves: %v: the costs that the model predicts are off: fit its rates again", name, halves)
		}
		if *fit {
			t.Logf("%v: rates %.3g", name, fitted(list))
		}
	}
}

// fitted minimises the relative errors, with weights that make outliers count little, by
// coordinate descent over rates that are not negative.
func fitted(list []sample) (rates cost.Terms) {
	weights := make([]float64, len(list))
	for i := range weights {
		weights[i] = list[i].weight
	}
	for range 12 {
		var square [len(rates)]cost.Terms
		var right cost.Terms
		for i, s := range list {
			w := weights[i] / s.cycles
			for j, x := range s.terms {
				right[j] += w * x * weights[i]
				for k, y := range s.terms {
					square[j][k] += w * x * w * y
				}
			}
		}
		for range 2000 {
			for j := range rates {
				if square[j][j] <= 0 {
					continue
				}
				rest := right[j]
				for k, y := range square[j] {
					rest -= y * rates[k]
				}
				rates[j] = max(0, rates[j]+rest/square[j][j])
			}
		}
		for i, s := range list {
			predicted := 1.0
			for j, x := range s.terms {
				predicted += x * rates[j]
			}
			off := math.Abs(math.Log(predicted / s.cycles))
			weights[i] = s.weight / math.Sqrt(max(off, 0.05))
		}
	}
	return rates
}
