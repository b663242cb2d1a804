package main

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
	"github.com/trainctl/trainctl/internal/builtins"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"trainctl": main, minePlugin: mine})
}

// minePlugin is a binary that serves a plugin of each kind.
const minePlugin = "trainctl-plugin-mine"

func mine() {
	var p sdk.Plugin
	for _, b := range builtins.List() {
		switch b.Name {
		case "tcp":
			p.Backend = b.Plugin.Backend
		case "amp":
			p.Precision = b.Plugin.Precision
		case "synthetic":
			p.Dataset = b.Plugin.Dataset
		}
	}
	if _, bad := os.Stat("broken"); bad == nil {
		p.Dataset = func() sdk.Dataset { return forgetful{builtinDataset("synthetic")} }
	}
	if _, bad := os.Stat("deaf"); bad == nil {
		tcp := p.Backend
		p.Backend = func() sdk.Backend { return deaf{tcp()} }
	}
	sdk.Serve(p)
}

// deaf is a backend that does not end Do when its context ends.
type deaf struct{ sdk.Backend }

func (d deaf) Do(ctx context.Context, c *sdk.Collective) error {
	deadline, _ := ctx.Deadline()
	own, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if c.Bucket == 5 {
		slog.Info("deaf from now on")
	}
	return d.Backend.Do(own, c)
}

func builtinDataset(name string) sdk.Dataset {
	for _, b := range builtins.List() {
		if b.Kind == sdk.KindDataset && b.Name == name {
			return b.Plugin.Dataset()
		}
	}
	panic("no such data set")
}

// forgetful has no fingerprint.
type forgetful struct{ sdk.Dataset }

func (f forgetful) Open(ctx context.Context, r sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	spec, err := f.Dataset.Open(ctx, r)
	spec.Fingerprint = ""
	return spec, err
}

// TestScripts runs command lines against the real program: exit codes, and
// what goes to which stream.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			repo, err := filepath.Abs("../..")
			e.Setenv("CONFIGS", filepath.Join(repo, "configs"))
			e.Setenv("REPO", repo)
			return errors.Join(err, goEnvironment(e))
		},
		Condition: func(name string) (bool, error) {
			if name == "sandbox" { // this kernel can enforce one
				return sandbox.Supported() == nil, nil
			}
			return false, errors.New("unknown condition " + name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"checkpoint": writeCheckpoints,
			"plugin":     putPlugin,
			"weights":    writeWeights,
			"onnx":       writeONNX,
		},
	})
}

// goEnvironment lets scripts build with the caches of this process, and
// without the network.
func goEnvironment(e *testscript.Env) error {
	names := []string{"GOCACHE", "GOMODCACHE", "GOFLAGS"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return err
	}
	for i, value := range strings.SplitN(string(out), "\n", len(names)) {
		e.Setenv(names[i], strings.TrimSpace(value))
	}
	e.Setenv("GOPROXY", "off")
	e.Setenv("GOWORK", "off")
	e.Setenv("CGO_ENABLED", "0")
	return nil
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

// plugin DIR [changed]: puts the plugin into a directory, or another one of the same name.
func putPlugin(ts *testscript.TestScript, _ bool, args []string) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		b, err := os.ReadFile(filepath.Join(dir, minePlugin))
		if err != nil {
			continue
		}
		if len(args) > 1 {
			b = append(b, 0)
		}
		ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(args[0], minePlugin+".new")), b, 0o755))
		ts.Check(os.Rename(ts.MkAbs(filepath.Join(args[0], minePlugin+".new")), ts.MkAbs(filepath.Join(args[0], minePlugin))))
		return
	}
	ts.Fatalf("%s is not in PATH", minePlugin)
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

// onnx FILE NAME: writes a network as PyTorch exported it.
func writeONNX(ts *testscript.TestScript, _ bool, args []string) {
	in, err := os.Open(filepath.Join("../../core/onnx/importer/testdata", args[1]+".gz"))
	ts.Check(err)
	defer in.Close()
	z, err := gzip.NewReader(in)
	ts.Check(err)
	b, err := io.ReadAll(z)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// weights FILE NAME=V,V…: writes a safetensors file.
func writeWeights(ts *testscript.TestScript, _ bool, args []string) {
	var model []tensor.Named
	for _, arg := range args[1:] {
		name, list, _ := strings.Cut(arg, "=")
		values := strings.Split(list, ",")
		t := tensor.New(tensor.F32, len(values))
		for i, v := range values {
			f, err := strconv.ParseFloat(v, 32)
			ts.Check(err)
			t.F32()[i] = float32(f)
		}
		model = append(model, tensor.Named{Name: name, Tensor: t})
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(safetensors.Write(f, model, map[string]string{"format": "pt"}))
	ts.Check(f.Close())
}
