package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// A file that is no plugin may print anything, and all of it reaches a terminal.
func TestLastLinesDoNotSteerTheTerminal(t *testing.T) {
	e := &StartError{Kind: "dataset", Name: "./x", Problem: "it ended", Err: errors.New("x"),
		LastLines: []string{"\x1b[2Jhello\tworld", "\xff\xfe", strings.Repeat("ü", 1000)}}
	got := e.Error()
	if strings.Contains(got, "\x1b") || strings.Contains(got, "\xff") || !strings.Contains(got, "�[2Jhello\tworld\n  �") || strings.Count(got, "ü") != 500 {
		t.Errorf("%q", got)
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
	for says, change := range map[string]func(*pb.OpenDatasetReply){
		"-1 classes":             func(r *pb.OpenDatasetReply) { r.Classes = -1 },
		"0 classes":              func(r *pb.OpenDatasetReply) { r.Classes = 0 },
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
