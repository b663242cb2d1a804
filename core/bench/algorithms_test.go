package bench

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// recorded reads the head and the rows of what a command has written with --json.
func recorded[H, R any](t *testing.T, path string) (head H, rows []R) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	if err := dec.Decode(&head); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for {
		var r R
		switch err := dec.Decode(&r); {
		case errors.Is(err, io.EOF):
			return head, rows
		case err != nil:
			t.Fatalf("%s, row %d: %v", path, len(rows), err)
		}
		rows = append(rows, r)
	}
}

// TestChoicesAgainstRecordedTimes holds the cost model that chooses a convolution's
// algorithm against the times of all of them, as testdata/algorithms has them for each
// level. Nothing is timed here. See testdata/algorithms/README.md for how to record.
func TestChoicesAgainstRecordedTimes(t *testing.T) {
	kerneltest.AtRecordedLevels(t, func(t *testing.T) {
		level := kernel.Current()
		tables, _ := filepath.Glob("testdata/algorithms/" + level.String() + "-*.jsonl") // those of CPUs that compute vectors in halves are among them
		if len(tables) < 2 {
			t.Fatalf("testdata/algorithms has %d tables of %v, want one for each number of threads", len(tables), level)
		}
		for _, path := range tables {
			head, rows := recorded[AlgorithmTable, AlgorithmResult](t, path)
			least := 200
			if strings.Contains(path, "-winograd-") || strings.Contains(path, "-patches-") {
				least = 40
			}
			if head.CPU == "" || head.Level != level.String() || head.Threads < 1 || len(rows) < least {
				t.Fatalf("%s: %+v and %d rows", path, head, len(rows))
			}
			restore := kernel.ForceHalves(head.Halves)
			checkChoices(t, path, rows)
			restore()
		}
	})
}

func checkChoices(t *testing.T, path string, rows []AlgorithmResult) {
	t.Helper()
	worst := AlgorithmResult{}
	for _, r := range rows {
		i := slices.IndexFunc(directions, func(d direction) bool { return r.Name == "conv2d"+d.suffix })
		if i < 0 || r.Geometry.Validate() != nil {
			t.Fatalf("%s: %s of %+v is not a convolution", path, r.Name, r.Geometry)
		}
		chosen := conv.Choose(&r.Geometry, directions[i].Direction).String()
		if r.Times[chosen] == 0 {
			t.Errorf("%s: %s of %s is computed by %s now, which has no recorded time: record the table again", path, r.Name, r.Shape, chosen)
			continue
		}
		if r.compare(chosen); r.Loss > WorstLoss {
			t.Errorf("%s: %v: %v", path, &r, r.Times)
		}
		if r.Loss > worst.Loss {
			worst = r
		}
	}
	t.Logf("%s, %d rows, worst choice: %v", path, len(rows), &worst)
}

func TestRandomShapesAreOfEveryKind(t *testing.T) {
	_, rows := recorded[AlgorithmTable, AlgorithmResult](t, "testdata/algorithms/avx2-1.jsonl")
	_, more := recorded[AlgorithmTable, AlgorithmResult](t, "testdata/algorithms/avx2-winograd-1.jsonl")
	rows = append(rows, more...)
	kinds := map[string]func(*conv.Shape) bool{
		"depthwise":           func(p *conv.Shape) bool { return p.Groups == p.C && p.C > 1 },
		"depthwise, strided":  func(p *conv.Shape) bool { return p.Groups == p.C && p.C > 1 && p.StrideH > 1 },
		"grouped":             func(p *conv.Shape) bool { return p.Groups > 1 && p.Groups < p.C },
		"dilated":             func(p *conv.Shape) bool { return p.DilH > 1 },
		"one channel":         func(p *conv.Shape) bool { return p.C == 1 },
		"three channels":      func(p *conv.Shape) bool { return p.C == 3 },
		"odd channels":        func(p *conv.Shape) bool { return p.C%2 == 1 && p.C > 3 && p.Groups <= 1 },
		"1x1":                 func(p *conv.Shape) bool { return p.R*p.S == 1 },
		"1x7":                 func(p *conv.Shape) bool { return p.R == 1 && p.S == 7 },
		"7x1":                 func(p *conv.Shape) bool { return p.R == 7 && p.S == 1 },
		"5x5":                 func(p *conv.Shape) bool { return p.R == 5 && p.S == 5 },
		"stride 2":            func(p *conv.Shape) bool { return p.StrideH == 2 },
		"stride 3":            func(p *conv.Shape) bool { return p.StrideH == 3 },
		"one pixel of output": func(p *conv.Shape) bool { return p.OutH()*p.OutW() == 1 },
		"patches":             func(p *conv.Shape) bool { return p.R > 1 && p.StrideH == p.R && p.PadH == 0 },
		"channels of ResNet":  func(p *conv.Shape) bool { return p.C == 512 && p.R == 3 },
	}
	for kind, is := range kinds {
		if !slices.ContainsFunc(rows, func(r AlgorithmResult) bool { return is(&r.Geometry) }) {
			t.Errorf("no row is %s", kind)
		}
	}
}

func TestCheckNamesSlowChoices(t *testing.T) {
	r := AlgorithmResult{Name: "conv2d", Shape: "64x3x8x8, 3 of 1x1/1", Times: map[string]float64{"columns": 10, "direct": 14, "product": 12}}
	for chosen, loss := range map[string]float64{"columns": 1, "direct": 1.4, "product": 1.2} {
		if r.compare(chosen); r.Best != "columns" || r.Loss != loss {
			t.Errorf("%s: %+v", chosen, r)
		}
	}
	r.compare("direct")
	e := ChoiceError{Measured: 7, Slow: []AlgorithmResult{r}}
	for _, part := range []string{"1 of 7 convolutions", "conv2d of 64x3x8x8, 3 of 1x1/1 by direct takes 1.40 times as long as by columns", "--match"} {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("%q is not in %q", part, e.Error())
		}
	}
}

func TestAlgorithmsAreAllMeasured(t *testing.T) {
	for _, threads := range []int{1, 2} {
		rows := 0
		o := AlgorithmOptions{Match: "64x24x8x8, 48 of 2x2", Threads: threads}
		if err := CheckAlgorithms(t.Context(), o, func(r AlgorithmResult) error {
			rows++
			for a := range conv.Algorithms {
				if takes := conv.Takes(&r.Geometry, a, directions[rows-1].Direction); takes != (r.Times[a.String()] > 0) {
					t.Errorf("%s by %v: taken %v, times %v", r.Name, a, takes, r.Times)
				}
			}
			return nil
		}); err != nil && !errors.As(err, new(*ChoiceError)) {
			t.Fatal(err)
		}
		if rows != len(directions) {
			t.Errorf("%d directions with %d threads", rows, threads)
		}
	}
}
