package main

import (
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/trainctltest"
)

func TestLearns(t *testing.T) {
	memory := trainctltest.Run(t, trainctl.File("iris.toml"), 2, trainctltest.Memory(), trainctl.Dataset(flowers().New))
	if acc := float64(*memory.Summary.Eval.Accuracy); acc < 0.9 {
		t.Errorf("accuracy %v", acc)
	}
	tcp := trainctltest.Run(t, trainctl.File("iris.toml"), 2, trainctl.TCP, trainctl.Dataset(flowers().New))
	if memory.Summary.ParamsSHA256[0] != tcp.Summary.ParamsSHA256[0] {
		t.Error("TCP gives other bits than the backend in memory")
	}
}
