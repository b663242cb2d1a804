// This program trains on samples that it makes itself, and serves the commands of trainctl with them.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/cmd/trainctl/command"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/custom"
)

// flower is a sample: what was measured, and which of three species it is.
type flower struct {
	petal, sepal float32
	species      int
}

// garden draws flowers whose species differ in their petals and sepals.
func garden(n int, seed uint64) []flower {
	r := rand.New(rand.NewPCG(seed, seed))
	all := make([]flower, n)
	for i := range all {
		s := i % 3
		all[i] = flower{petal: float32(s) + 0.2*float32(r.NormFloat64()), sepal: float32((s+1)%3) + 0.2*float32(r.NormFloat64()), species: s}
	}
	return all
}

func flowers() trainctl.Slice[flower] {
	return trainctl.Slice[flower]{
		Name: "flowers", Train: garden(300, 1), Test: garden(60, 2), Shape: []int{2}, Classes: 3,
		Input: func(f flower, x []float32) { x[0], x[1] = f.petal, f.sepal },
		Class: func(f flower) int { return f.species },
	}
}

// usage: go run . [COMMAND...], a command of trainctl; without one, it trains iris.toml
func main() {
	if err := custom.Register(swish, focal, lion); err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 {
		command.Main(sdk.Plugin{Dataset: flowers().New})
	}
	r, err := trainctl.Run(context.Background(), trainctl.File("iris.toml"), trainctl.Dataset(flowers().New), trainctl.Ranks(2), trainctl.Log(os.Stderr))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d steps, accuracy %.2f\n", r.Summary.Steps, float64(*r.Summary.Eval.Accuracy))
}
