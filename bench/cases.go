package main

import (
	"fmt"
	"strings"
)

// testCase is a model on some ranks with a batch.
type testCase struct {
	Model string `json:"model"` // convnet, mlp or resnet18 (3×32×32)
	Ranks int    `json:"ranks"`
	Batch int    `json:"batch"` // per rank
	DType string `json:"dtype"` // fp32 or bf16

	// Speed is roughly what PyTorch reaches in samples per second on two
	// cores of 2022: it fixes the number of steps.
	Speed float64 `json:"-"`
}

func (c *testCase) String() string {
	return fmt.Sprintf("%s-w%d-b%d-%s", c.Model, c.Ranks, c.Batch, c.DType)
}

// steps are as many as PyTorch makes in so many seconds, and the warm-up.
func (c *testCase) steps(seconds float64) int {
	return warmUp + max(8, int(seconds*c.Speed/float64(c.Batch*c.Ranks)))
}

// warmUp steps do not count, on either side.
const warmUp = 10

// convolutional models have a second layout in PyTorch.
func (c *testCase) convolutional() bool { return c.Model != "mlp" }

var cases = []testCase{
	{"convnet", 1, 32, "fp32", 3500}, {"convnet", 1, 100, "fp32", 4500}, {"convnet", 1, 256, "fp32", 4500},
	{"convnet", 2, 32, "fp32", 5000}, {"convnet", 2, 100, "fp32", 7000}, {"convnet", 2, 256, "fp32", 7000},
	{"convnet", 1, 100, "bf16", 4000}, {"convnet", 2, 100, "bf16", 6500},
	{"mlp", 1, 64, "fp32", 20000}, {"mlp", 1, 256, "fp32", 35000},
	{"mlp", 2, 64, "fp32", 20000}, {"mlp", 2, 256, "fp32", 45000}, {"mlp", 2, 256, "bf16", 40000},
	{"resnet18", 1, 32, "fp32", 40}, {"resnet18", 2, 32, "fp32", 75}, {"resnet18", 1, 32, "bf16", 30},
}

func choose(match string) (out []*testCase) {
	for i := range cases {
		if strings.Contains(cases[i].String(), match) {
			out = append(out, &cases[i])
		}
	}
	return out
}
