package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// findTorch asks Python for torch's version.
func (b *bench) findTorch(ctx context.Context) {
	out, err := exec.CommandContext(ctx, b.python, "-c", "import torch, numpy; print(torch.__version__)").CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		b.noTorch = fmt.Sprintf("%s has no torch and numpy (%s); -python names another", b.python, strings.TrimSpace(lines[len(lines)-1]+" "+err.Error()))
		return
	}
	b.torch = strings.TrimSpace(string(out))
}

// variants are the ways in which PyTorch runs a case.
func (b *bench) variants(c *testCase) []string {
	if b.torch == "" {
		return nil
	}
	v := []string{"contiguous"}
	if c.convolutional() {
		v = append(v, "channels-last")
	}
	if b.compile {
		v = append(v, "compile")
	}
	return v
}

func (b *bench) runTorch(ctx context.Context, c *testCase, variant string) (result, error) {
	args := []string{b.script, "--ranks", strconv.Itoa(c.Ranks), "--model", c.Model, "--batch", strconv.Itoa(c.Batch),
		"--steps", strconv.Itoa(c.torchSteps(b.seconds)), "--warm-up", strconv.Itoa(c.torchWarmUp()), "--dtype", c.DType, "--variant", variant}
	switch {
	case c.text:
		args = append(args, "--text", "--file", b.path(c))
	case c.File != "":
		args = append(args, "--file", b.path(c))
	case b.mnist != "" && c.Model != "resnet18":
		args = append(args, "--mnist", b.mnist)
	}
	out, pss, err := watch(ctx, b.python, args, b.instructions.torch())
	if err != nil {
		return result{}, err
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		return result{}, fmt.Errorf("torch_train.py printed %q: %w", out, err)
	}
	r.PSS = pss / int64(c.Ranks)
	return r, nil
}
