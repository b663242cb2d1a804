package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/config"
)

func TestOnlyTrainctlWithoutTorch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	o := options{python: filepath.Join(t.TempDir(), "python"), match: "mlp-w1-b64-fp32", pairs: 1, seconds: 0, json: file}
	var out bytes.Buffer
	if err := measure(t.Context(), &o, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PyTorch was left out", "-python names another", "mlp-w1-b64-fp32"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	r := testjson.Read[report](t, file)
	if m := r.Cases[0].Trainctl[0]; m.SamplesPerSec <= 0 || m.FirstStepS <= 0 || m.PeakRSS <= 0 {
		t.Errorf("%+v", m)
	}
}

func TestTheBestOfPyTorchCounts(t *testing.T) {
	m := measured{Case: cases[0], Trainctl: []result{{SamplesPerSec: 90}, {SamplesPerSec: 100}, {SamplesPerSec: 500}}}
	m.add("contiguous", result{SamplesPerSec: 20})
	m.add("channels-last", result{SamplesPerSec: 30})
	m.add("channels-last", result{SamplesPerSec: 50})
	row := m.row()
	if want := "100 / 40 = 2.5x"; !strings.Contains(row, want) || !strings.HasSuffix(row, "channels-last") {
		t.Errorf("no %q in %q", want, row)
	}
}

// TestNetworksOfFiles holds every file of models/ to what trainctl accepts:
// a case needs [model] layers and the images' shape.
func TestNetworksOfFiles(t *testing.T) {
	b := &bench{options: &options{}, script: "torch_train.py"}
	files, err := filepath.Glob("models/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	named := map[string]bool{}
	for _, c := range choose("") {
		named[c.File] = true
		text, err := b.config(c)
		if err != nil {
			t.Error(err)
			continue
		}
		fs := afero.NewMemMapFs()
		if err := afero.WriteFile(fs, "bench.toml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(fs, "bench.toml", config.LoadOptions{}); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, f := range files {
		if !named[f] {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

func TestInstructionsOfBothSides(t *testing.T) {
	var i instructions
	if err := i.UnmarshalText([]byte("avx2")); err != nil || len(i.trainctl()) != 1 || len(i.torch()) != 3 {
		t.Error(i, err)
	}
	if err := i.UnmarshalText([]byte("neon")); err == nil {
		t.Error("neon was accepted")
	}
	if i = ""; i.trainctl() != nil || i.torch() != nil || i.note() != "" {
		t.Error("no level changes the environment")
	}
}

func TestNothingChosen(t *testing.T) {
	if err := measure(t.Context(), &options{match: "no such case"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-list") {
		t.Fatal(err)
	}
}

// A network that -model names trains on texts if its data set has a tokenizer.
func TestGivenNetworks(t *testing.T) {
	for _, c := range given([]string{"models/gpt-tiny.toml", "models/lenet5.toml", "models/absent.toml"}, "bf16") {
		if c.text != (c.Model == "gpt-tiny") {
			t.Errorf("%v: text is %v", c, c.text)
		}
		if !strings.HasSuffix(c.String(), "-bf16") {
			t.Errorf("%v is not measured in bf16", c)
		}
	}
}
