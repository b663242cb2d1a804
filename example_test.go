package trainctl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/trainctltest"
)

// perceptron is the configuration of the examples. It names NCCL, as a run on GPUs does.
const perceptron = `
[run]
name = "example"
dir = "%s"
[launch]
nproc_per_node = 2
ranks = "threads"
[backend]
plugin = "nccl"
[dataset]
plugin = "synthetic"
[dataset.options]
shape = [12]
classes = 3
train_samples = 96
test_samples = 30
[train]
per_rank_batch = 8
[model]
layers = [{ type = "linear", out_features = 3 }]
[optimizer]
name = "sgd"
lr = 0.1
[checkpoint]
every = "never"
`

// temporary is the configuration with its files in a directory that remove removes.
func temporary() (cfg trainctl.Config, remove func()) {
	dir, err := os.MkdirTemp("", "trainctl-example-")
	if err != nil {
		log.Fatal(err)
	}
	return trainctl.TOML(fmt.Sprintf(perceptron, dir)), func() { os.RemoveAll(dir) }
}

// One option swaps the backend of the file for another one.
func ExampleBackend() {
	cfg, remove := temporary()
	defer remove()
	r, err := trainctl.Run(context.Background(), cfg, trainctl.Backend(trainctl.TCP))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Summary.Backend, r.Summary.WorldSize, r.Summary.Steps)
	// Output: tcp 2 6
}

// Every rank reduces one bucket and its totals in each of the six steps, then those of the evaluation
// and of the run's end.
func ExampleBackend_count() {
	cfg, remove := temporary()
	defer remove()
	var calls trainctltest.Counter
	counted := trainctltest.Intercept(trainctltest.Memory(), calls.Count)
	if _, err := trainctl.Run(context.Background(), cfg, trainctl.Backend(counted)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(calls.Of(sdk.OpAllReduce), "all-reduces,", calls.Of(sdk.OpBroadcast), "broadcasts")
	// Output: 26 all-reduces, 2 broadcasts
}

// The third all-reduce fails, and the run with it.
func ExampleBackend_fail() {
	cfg, remove := temporary()
	defer remove()
	cut := errors.New("the cable is cut")
	var n atomic.Int64
	third := trainctltest.Intercept(trainctltest.Memory(), func(c *sdk.Collective) error {
		if c.Op == sdk.OpAllReduce && n.Add(1) == 3 {
			return cut
		}
		return nil
	})
	_, err := trainctl.Run(context.Background(), cfg, trainctl.Backend(third))
	fmt.Println(errors.Is(err, cut))
	// Output: true
}

// A slice of structs is a data set.
func ExampleSlice() {
	cfg, remove := temporary()
	defer remove()
	type flower struct {
		length, width float32
		species       int
	}
	var garden []flower
	for i := range 90 {
		garden = append(garden, flower{float32(i%3) + 0.01*float32(i%7), 1 - float32(i%3), i % 3})
	}
	data := trainctl.Slice[flower]{
		Train: garden[:60], Test: garden[60:], Shape: []int{2}, Classes: 3,
		Input: func(f flower, x []float32) { x[0], x[1] = f.length, f.width },
		Class: func(f flower) int { return f.species },
	}
	r, err := trainctl.Run(context.Background(), cfg.With("train.epochs=30"), trainctl.Backend(trainctltest.Memory()), trainctl.Dataset(data.New))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Summary.Dataset.TrainSamples, float64(*r.Summary.Eval.Accuracy) > 0.9, r.Weights["0.weight"].Shape)
	// Output: 60 true [3, 2]
}

// Events arrive in order on a channel, which is closed at the end.
func ExampleEvents() {
	cfg, remove := temporary()
	defer remove()
	events := make(chan trainctl.Event)
	go trainctl.Run(context.Background(), cfg, trainctl.Backend(trainctl.TCP), trainctl.Events(events))
	for e := range events {
		if step, is := e.Event.(*trainctl.StepDone); is && step.Step%3 == 0 {
			fmt.Println("step", step.Step)
		}
	}
	// Output:
	// step 3
	// step 6
}
