package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/train/outline"
)

// dropping is the model of testdata/unused.py: half of the passes leave its
// inner layer out.
func dropping(s *outline.Settings) {
	six, three, half := 6, 3, 0.5
	s.Model = nn.Config{Layers: []nn.LayerConfig{
		{Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": six}},
		{Type: "residual", LayerDrop: &half, Layers: []nn.LayerConfig{{Type: "linear", Args: op.Args{"out_features": six}}, {Type: "tanh"}}},
		{Type: "linear", Args: op.Args{"out_features": three}},
	}}
	s.DDP.FindUnusedParameters = true
}

// Parameters that no rank used are left alone, those that one rank used get half
// of its gradient: DistributedDataParallel with find_unused_parameters, whose
// optimizers count the steps of every parameter apart.
func TestUnusedParametersAreTorchs(t *testing.T) {
	b, err := os.ReadFile("testdata/unused.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Taken  [][2]bool                       // by step and rank
		Models map[string]map[string][]float64 // by optimizer
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	sgd, adam := optim.DefaultFor("sgd"), optim.DefaultFor("adam")
	sgd.LR, sgd.Momentum, sgd.Dampening, sgd.WeightDecay = 0.1, 0.9, 0.25, 0.01
	adam.LR, adam.WeightDecay = 0.05, 0.01
	for name, cfg := range map[string]optim.Config{"sgd": sgd, "adam": adam} {
		taken := make([][2]bool, len(want.Taken))
		models, _, errs := run(t, []int{len(taken), len(taken)}, func(s *outline.Settings) {
			dropping(s)
			s.Optimizer = cfg
		}, func(tr *Trainer) {
			ready, rank := tr.passes.OnGrad, tr.World.Rank
			tr.passes.OnGrad = func(p int) {
				if p == 2 {
					taken[tr.pos.Step][rank] = true
				}
				ready(p)
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(taken, want.Taken) {
			t.Fatalf("the inner layer is taken in %v, the golden run has %v", taken, want.Taken)
		}
		for r, m := range models {
			for key, w := range want.Models[name] {
				for i, v := range m[key] {
					if math.Abs(v-w[i]) > 1e-12 {
						t.Errorf("%s, rank %d: %s[%d] is %v, want %v", name, r, key, i, v, w[i])
					}
				}
			}
		}
	}
}

// Micro-steps draw anew; what one of them uses counts as used. Ranks without
// data, synchronised norms elsewhere, and factors of low rank go with it.
func TestUnusedParametersGoWithEverything(t *testing.T) {
	for name, change := range map[string]func(s *outline.Settings){
		"micro-steps":         func(s *outline.Settings) { s.Train.AccumulateSteps = 3 },
		"uneven":              func(s *outline.Settings) { s.DDP.Uneven = "join" },
		"no overlap, clipped": func(s *outline.Settings) { s.DDP.Overlap, s.Train.MaxNorm = false, 0.1 },
		"bucket for each, adamw": func(s *outline.Settings) {
			s.DDP.BucketCapMB, s.DDP.FirstBucketMB, s.Optimizer = 0, 0, optim.DefaultFor("adamw")
		},
		"compressed": func(s *outline.Settings) { s.DDP.Compress = "fp16" },
	} {
		counts := []int{9, 9, 9}
		if name == "uneven" {
			counts = []int{2, 9, 5}
		}
		models, _, errs := run(t, counts, func(s *outline.Settings) {
			dropping(s)
			change(s)
		}, nil)
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for r := range models {
			if fmt.Sprint(models[r]) != fmt.Sprint(models[0]) {
				t.Errorf("%s: ranks 0 and %d\n%v\n%v", name, r, models[0], models[r])
			}
		}
	}
}

// Without the option ranks refuse the model before they wait for each other, and
// name the parameters. A rank alone needs no option.
func TestUnusedParametersWithoutTheOption(t *testing.T) {
	off := func(s *outline.Settings) {
		dropping(s)
		s.DDP.FindUnusedParameters = false
	}
	_, _, errs := run(t, []int{3, 3}, off, nil)
	for r, err := range errs {
		if l := usererr.Problems(err); len(l) != 1 || l[0].Key != "ddp.find_unused_parameters" || !strings.Contains(l[0].Detail, "layerdrop leaves their layers out: 2.0.bias, 2.0.weight") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	alone, _, errs := run(t, []int{6}, off, nil)
	with, _, more := run(t, []int{6}, dropping, nil)
	if err := errors.Join(append(errs, more...)...); err != nil || fmt.Sprint(alone) != fmt.Sprint(with) {
		t.Errorf("%v\n%v\n%v", err, alone, with)
	}
}

// Frozen parameters stay as they are, are not reduced, and have no state.
func TestFrozenParameters(t *testing.T) {
	start, _, errs := run(t, []int{0, 0}, func(s *outline.Settings) {}, nil)
	got, _, more := run(t, []int{4, 4}, func(s *outline.Settings) { s.Model.Freeze = []string{"0", "1.weight"} }, func(tr *Trainer) {
		if n, params := tr.reducer.BytesPerStep(), len(tr.updater.Optimizer.State()); n != 8*(2+8*3+3) || params != 1+3 {
			t.Errorf("%d bytes per step, %d tensors of state", n, params)
		}
	})
	if err := errors.Join(append(errs, more...)...); err != nil {
		t.Fatal(err)
	}
	for key, v := range got[1] {
		frozen := strings.HasPrefix(key, "0.") || key == "1.weight"
		if same := slices.Equal(v, start[1][key]); same != frozen {
			t.Errorf("%s is unchanged: %v", key, same)
		}
	}
	grouped, _, more := run(t, []int{4, 4}, func(s *outline.Settings) {
		s.Optimizer.Groups = []optim.Group{{Match: []string{"0", "1.w*"}, Freeze: true}}
	}, nil)
	if same := fmt.Sprint(got[1]) == fmt.Sprint(grouped[1]); !same || errors.Join(more...) != nil {
		t.Errorf("frozen by a group: %v, the same weights: %v", errors.Join(more...), same)
	}
	for match, want := range map[string]string{"2": "optimizer.groups[0].match: no parameter", "*": "every parameter is frozen"} {
		_, _, errs := run(t, []int{1}, func(s *outline.Settings) {
			s.Optimizer.Groups = []optim.Group{{Match: []string{match}, Freeze: true}}
		}, nil)
		if err := errs[0]; err == nil || !strings.Contains(usererr.Problems(err)[0].String(), want) {
			t.Errorf("group of %q: %v", match, err)
		}
	}
	for freeze, want := range map[string]string{"2": "no parameter or layer is named", "": "no parameter or layer is named"} {
		err := func() error {
			_, _, errs := run(t, []int{1}, func(s *outline.Settings) { s.Model.Freeze = []string{freeze} }, nil)
			return errs[0]
		}()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("freeze %q: %v", freeze, err)
		}
	}
}
