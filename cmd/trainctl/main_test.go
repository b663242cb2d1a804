package main

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trainctl/trainctl/core/checkpoint"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"trainctl": main})
}

// TestScripts runs command lines against the real program: exit codes, and
// what goes to which stream.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			dir, err := filepath.Abs("../../configs")
			e.Setenv("CONFIGS", dir)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"checkpoint": writeCheckpoints,
		},
	})
}

// exits CODE COMMAND…: the program ends with that very code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if e, ok := err.(interface{ ExitCode() int }); ok {
		got = strconv.Itoa(e.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if got != args[0] {
		ts.Fatalf("%v: exit code %s, want %s", args[1:], got, args[0])
	}
}

// checkpoint DIR STEP…: saves small checkpoints as a run does.
func writeCheckpoints(ts *testscript.TestScript, _ bool, args []string) {
	store, err := checkpoint.Open(checkpoint.OsFS(), ts.MkAbs(args[0]), checkpoint.Config{Every: "10 steps", KeepBest: "eval.accuracy"})
	ts.Check(err)
	for _, arg := range args[1:] {
		step, err := strconv.Atoi(arg)
		ts.Check(err)
		weight := tensor.Named{Name: "fc.weight", Tensor: tensor.New(tensor.F32, 2, 3)}
		momentum := tensor.Named{Name: "momentum_buffer.fc.weight", Tensor: tensor.New(tensor.F32, 2, 3)}
		_, err = store.Save(context.Background(), &checkpoint.Snapshot{
			Step: step, Epoch: step / 10, Model: []tensor.Named{weight}, Optimizer: []tensor.Named{momentum},
			Metrics: map[string]float64{"eval.accuracy": 1 / float64(step), "train.loss": math.NaN()},
			Dataset: checkpoint.Dataset{Plugin: "mnist", Source: "idx"}, WorldSize: 2, Precision: "none", CreatedBy: "trainctl test",
		})
		ts.Check(err)
	}
	ts.Check(store.Close())
}
