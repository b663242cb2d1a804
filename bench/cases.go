package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// testCase is a model on some ranks with a batch.
type testCase struct {
	Model string `json:"model"` // convnet, mlp, resnet18 (3×32×32), or a file of models/ without its ending
	Ranks int    `json:"ranks"`
	Batch int    `json:"batch"` // per rank
	DType string `json:"dtype"` // fp32 or bf16

	// Speed is roughly what PyTorch reaches in samples per second on two
	// cores of 2022: it fixes the number of steps. 0: a first run of trainctl says.
	Speed float64 `json:"-"`

	// File is the configuration with the [model] and the images' shape;
	// empty for the models that trainctl knows by name.
	File string `json:"file,omitempty"`

	text bool // File has windows of tokens instead of images
}

func (c *testCase) String() string {
	return fmt.Sprintf("%s-w%d-b%d-%s", c.Model, c.Ranks, c.Batch, c.DType)
}

// steps are as many as PyTorch makes in so many seconds, and trainctl's warm-up.
func (c *testCase) steps(seconds float64) int { return warmUp + c.counted(seconds) }

// torchSteps are the same for PyTorch.
func (c *testCase) torchSteps(seconds float64) int { return c.torchWarmUp() + c.counted(seconds) }

func (c *testCase) counted(seconds float64) int {
	return max(8, int(seconds*c.Speed/float64(c.Batch*c.Ranks)))
}

// warmUp steps of trainctl do not count.
const warmUp = 10

// torchWarmUp is as long, except where a step takes longer than a second.
func (c *testCase) torchWarmUp() int {
	if c.Speed < float64(c.Batch*c.Ranks) {
		return 3
	}
	return warmUp
}

// convolutional models have a second layout in PyTorch.
func (c *testCase) convolutional() bool { return !strings.HasPrefix(c.Model, "mlp") && !c.text }

var cases = []testCase{
	{Model: "convnet", Ranks: 1, Batch: 32, DType: "fp32", Speed: 3500},
	{Model: "convnet", Ranks: 1, Batch: 100, DType: "fp32", Speed: 4500},
	{Model: "convnet", Ranks: 1, Batch: 256, DType: "fp32", Speed: 4500},
	{Model: "convnet", Ranks: 2, Batch: 32, DType: "fp32", Speed: 5000},
	{Model: "convnet", Ranks: 2, Batch: 100, DType: "fp32", Speed: 7000},
	{Model: "convnet", Ranks: 2, Batch: 256, DType: "fp32", Speed: 7000},
	{Model: "convnet", Ranks: 1, Batch: 32, DType: "bf16", Speed: 3500},
	{Model: "convnet", Ranks: 1, Batch: 100, DType: "bf16", Speed: 4000},
	{Model: "convnet", Ranks: 1, Batch: 256, DType: "bf16", Speed: 4500},
	{Model: "convnet", Ranks: 2, Batch: 32, DType: "bf16", Speed: 5000},
	{Model: "convnet", Ranks: 2, Batch: 100, DType: "bf16", Speed: 6500},
	{Model: "convnet", Ranks: 2, Batch: 256, DType: "bf16", Speed: 7000},
	{Model: "mlp", Ranks: 1, Batch: 64, DType: "fp32", Speed: 20000},
	{Model: "mlp", Ranks: 1, Batch: 256, DType: "fp32", Speed: 35000},
	{Model: "mlp", Ranks: 2, Batch: 64, DType: "fp32", Speed: 20000},
	{Model: "mlp", Ranks: 2, Batch: 256, DType: "fp32", Speed: 45000},
	{Model: "mlp", Ranks: 2, Batch: 64, DType: "bf16", Speed: 20000},
	{Model: "mlp", Ranks: 2, Batch: 256, DType: "bf16", Speed: 40000},
	{Model: "resnet18", Ranks: 1, Batch: 32, DType: "fp32", Speed: 40},
	{Model: "resnet18", Ranks: 2, Batch: 32, DType: "fp32", Speed: 75},
	{Model: "resnet18", Ranks: 1, Batch: 32, DType: "bf16", Speed: 30},
	{Model: "resnet18", Ranks: 2, Batch: 32, DType: "bf16", Speed: 50},
	fromFile("lenet5", 6000),
	fromFile("odd", 1500),
	fromFile("mobilenet", 300),
	fromFile("mobilenetv2", 150),
	fromFile("convnext-narrow", 1500),
	fromFile("convnext-wide", 300),
	fromFile("mixer", 250),
	fromFile("mlp-smooth", 12000),
	transformer("gpt-tiny", 12, "fp32", 170),
	transformer("gpt-baby", 16, "fp32", 4.5),
	transformer("gpt-baby", 16, "bf16", 4.5),
	transformer("gpt2", 4, "fp32", 1.4),
}

// fromFile is a network of models/, on one rank.
func fromFile(model string, speed float64) testCase {
	return testCase{Model: model, Ranks: 1, Batch: 64, DType: "fp32", Speed: speed, File: "models/" + model + ".toml"}
}

// transformer is a GPT-2 of models/, on one rank. Speed is in windows per second.
func transformer(model string, batch int, dtype string, speed float64) testCase {
	c := fromFile(model, speed)
	c.Batch, c.DType, c.text = batch, dtype, true
	return c
}

// given are the networks that -model names, of that type.
func given(files []string, dtype string) (out []*testCase) {
	for _, f := range files {
		c := fromFile(strings.TrimSuffix(filepath.Base(f), ".toml"), 0)
		c.File, c.DType, c.text = f, dtype, hasText(f)
		out = append(out, &c)
	}
	return out
}

var tokenizer = regexp.MustCompile(`(?m)^\s*tokenizer\s*=`)

// hasText reports whether a configuration's data set has a tokenizer.
func hasText(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && tokenizer.Match(text)
}

func choose(match string) (out []*testCase) {
	for i := range cases {
		if strings.Contains(cases[i].String(), match) {
			out = append(out, &cases[i])
		}
	}
	return out
}
