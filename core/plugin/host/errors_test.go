package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// A file that is not a plugin may print anything, and all of it reaches a terminal.
func TestLastLinesDoNotSteerTheTerminal(t *testing.T) {
	e := &StartError{Kind: "dataset", Name: "./x", Problem: "it ended", Err: errors.New("x"),
		LastLines: []string{"\x1b[2Jhello\tworld", "\xff\xfe", strings.Repeat("ü", 1000)}}
	got := e.Error()
	if strings.Contains(got, "\x1b") || strings.Contains(got, "\xff") || !strings.Contains(got, "�[2Jhello\tworld\n  �") || strings.Count(got, "ü") != 500 {
		t.Errorf("%q", got)
	}
}

// A file that was tried for every kind of plugin is not called one of the first kind.
func TestErrorOfAnyKind(t *testing.T) {
	of := &StartError{Kind: "backend", Name: "./x", Problem: "it ended"}
	if got := OfAnyKind(fmt.Errorf("in a folder: %w", of)).Error(); got != `plugin "./x" cannot be used: it ended` {
		t.Error(got)
	}
	if other := errors.New("other"); OfAnyKind(other) != other || of.Kind == "" {
		t.Error("changed")
	}
}

// What a data set plugin says of itself is looked at before anything is built on it.
func TestSpecOfAPluginIsChecked(t *testing.T) {
	good := func() *pb.OpenDatasetReply {
		return &pb.OpenDatasetReply{Classes: 2, TrainSamples: 10, TestSamples: 5,
			Input: &pb.TensorSpec{Dtype: uint32(tensor.F32), Shape: []int64{2}}, Target: &pb.TensorSpec{Dtype: uint32(tensor.I32)}}
	}
	if _, err := specFromProto(good()); err != nil {
		t.Fatal(err)
	}
	tokens := good()
	tokens.Input.Dtype, tokens.Target.Shape = uint32(tensor.I32), tokens.Input.Shape
	for _, tokens.Vocabulary = range []int64{300, 0} { // 0: a plugin older than the field
		if s, err := specFromProto(tokens); err != nil || s.Vocabulary != int(tokens.Vocabulary) || s.Tokens() != s.Input.Shape.Elems() {
			t.Errorf("tokens are %+v, %v", s, err)
		}
	}
	for says, change := range map[string]func(*pb.OpenDatasetReply){
		"-1 classes":             func(r *pb.OpenDatasetReply) { r.Classes = -1 },
		"0 classes":              func(r *pb.OpenDatasetReply) { r.Classes = 0 },
		"vocabulary of -1":       func(r *pb.OpenDatasetReply) { r.Vocabulary = -1 },
		"vocabulary of 7 for":    func(r *pb.OpenDatasetReply) { r.Vocabulary = 7 },
		"-3 bytes of text":       func(r *pb.OpenDatasetReply) { r.TestBytes = -3 },
		"-1 training":            func(r *pb.OpenDatasetReply) { r.TrainSamples = -1 },
		"1099511627776 training": func(r *pb.OpenDatasetReply) { r.TrainSamples = 1 << 40 },
		"input shape":            func(r *pb.OpenDatasetReply) { r.Input.Shape = []int64{1, -2} },
		"unknown element type":   func(r *pb.OpenDatasetReply) { r.Target.Dtype = 99 },
	} {
		r := good()
		change(r)
		if _, err := specFromProto(r); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// scaler answers every update with the same scale.
type scaler struct {
	sdk.Precision
	scale float64
}

func (s scaler) Info() sdk.Info { return sdk.Info{Kind: sdk.KindPrecision, Name: "scaler"} }

func (s scaler) Close() error { return nil }

func (s scaler) Update(context.Context, bool) (sdk.ScaleState, error) {
	return sdk.ScaleState{Scale: s.scale}, nil
}

// A loss scale that ruins the gradients is a wrong answer of the plugin, not a
// loss that is not a number some steps later.
func TestLossScaleIsChecked(t *testing.T) {
	for scale, good := range map[float64]bool{1: true, 65536: true, 0.5: true, 0: false, -4: false, math.NaN(): false, math.Inf(1): false, 1e300: false, 1e-300: false} {
		_, err := policyFromProto(&pb.PolicyReply{Params: uint32(tensor.F32), Scale: scale})
		if (err == nil) != good {
			t.Errorf("policy with scale %v: %v", scale, err)
		}
		p := InProcessPrecision(scaler{scale: scale})
		_, err = p.Update(t.Context(), false)
		if (err == nil) != good || err != nil && !errors.As(err, new(*PluginError)) {
			t.Errorf("update to scale %v: %v", scale, err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
