package main

import (
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/custom"
	"github.com/trainctl/trainctl/trainctltest"
)

func init() {
	if err := custom.Register(swish, focal, lion); err != nil {
		panic(err)
	}
}

func TestSwish(t *testing.T) {
	trainctltest.CheckLayer(t, swish, []int{2, 5}, map[string]any{"beta": 0.7})
}

func TestFocal(t *testing.T) {
	trainctltest.CheckLoss(t, focal, 4, nil)
	trainctltest.CheckLoss(t, focal, 4, map[string]any{"focal_gamma": 0.0})
}

func TestLion(t *testing.T) { trainctltest.CheckOptimizer(t, lion, nil) }

func TestOwnOperationsLearn(t *testing.T) {
	r := trainctltest.Run(t, trainctl.File("own.toml"), 2, trainctltest.Memory(), trainctl.Dataset(flowers().New))
	if acc := float64(*r.Summary.Eval.Accuracy); acc < 0.9 || r.Weights["act.beta"].Shape[0] != 8 {
		t.Errorf("accuracy %v, betas %v", acc, r.Weights["act.beta"].Shape)
	}
}
