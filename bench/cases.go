package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// testCase is a model on some ranks with a batch.
type testCase struct {
	Model string `json:"model"` // convnet, mlp, resnet18 (3×32×32), or a file of models/ without its ending
	Ranks int    `json:"ranks"`
	Batch int    `json:"batch"` // per rank
	DType string `json:"dtype"` // fp32 or bf16

	// Speed is roughly what PyTorch reaches in samples per second on two
	// cores of 2022: it fixes the number of steps.
	Speed float64 `json:"-"`

	// File is the configuration with the [model] and the images' shape;
	// empty for the models that trainctl knows by name.
	File string `json:"file,omitempty"`
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
func (c *testCase) convolutional() bool { return !strings.HasPrefix(c.Model, "mlp") }

var cases = []testCase{
	{Model: "convnet", Ranks: 1, Batch: 32, DType: "fp32", Speed: 3500},
	{Model: "convnet", Ranks: 1, Batch: 100, DType: "fp32", Speed: 4500},
	{Model: "convnet", Ranks: 1, Batch: 256, DType: "fp32", Speed: 4500},
	{Model: "convnet", Ranks: 2, Batch: 32, DType: "fp32", Speed: 5000},
	{Model: "convnet", Ranks: 2, Batch: 100, DType: "fp32", Speed: 7000},
	{Model: "convnet", Ranks: 2, Batch: 256, DType: "fp32", Speed: 7000},
	{Model: "convnet", Ranks: 1, Batch: 100, DType: "bf16", Speed: 4000},
	{Model: "convnet", Ranks: 2, Batch: 100, DType: "bf16", Speed: 6500},
	{Model: "mlp", Ranks: 1, Batch: 64, DType: "fp32", Speed: 20000},
	{Model: "mlp", Ranks: 1, Batch: 256, DType: "fp32", Speed: 35000},
	{Model: "mlp", Ranks: 2, Batch: 64, DType: "fp32", Speed: 20000},
	{Model: "mlp", Ranks: 2, Batch: 256, DType: "fp32", Speed: 45000},
	{Model: "mlp", Ranks: 2, Batch: 256, DType: "bf16", Speed: 40000},
	{Model: "resnet18", Ranks: 1, Batch: 32, DType: "fp32", Speed: 40},
	{Model: "resnet18", Ranks: 2, Batch: 32, DType: "fp32", Speed: 75},
	{Model: "resnet18", Ranks: 1, Batch: 32, DType: "bf16", Speed: 30},
	fromFile("lenet5", 6000),
	fromFile("odd", 1500),
	fromFile("mobilenet", 300),
	fromFile("mobilenetv2", 150),
	fromFile("convnext-narrow", 1500),
	fromFile("convnext-wide", 300),
	fromFile("mixer", 250),
	fromFile("mlp-smooth", 12000),
}

// fromFile is a network of models/, on one rank.
func fromFile(model string, speed float64) testCase {
	return testCase{Model: model, Ranks: 1, Batch: 64, DType: "fp32", Speed: speed, File: "models/" + model + ".toml"}
}

// given are the networks that -model names.
func given(files []string) (out []*testCase) {
	for _, f := range files {
		c := fromFile(strings.TrimSuffix(filepath.Base(f), ".toml"), 300)
		c.File = f
		out = append(out, &c)
	}
	return out
}

func choose(match string) (out []*testCase) {
	for i := range cases {
		if strings.Contains(cases[i].String(), match) {
			out = append(out, &cases[i])
		}
	}
	return out
}
