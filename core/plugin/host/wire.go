package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// This file is the host's half of the conversion between the contract and the wire.
// It checks everything that comes from a plugin.

func infoFromProto(r *pb.InfoReply) (sdk.Info, error) {
	out := sdk.Info{
		Kind: sdk.Kind(r.Kind), Name: r.Name, Version: r.Version, Summary: r.Summary,
		Devices: r.Devices, MaxWorld: int(r.MaxWorld), Determinism: r.Determinism, DeviceArena: r.DeviceArena,
	}
	for _, d := range r.Dtypes {
		out.DTypes = append(out.DTypes, tensor.DType(d))
	}
	for _, o := range r.Ops {
		out.Ops = append(out.Ops, sdk.Op(o))
	}
	for _, o := range r.Options {
		opt := sdk.Option{Name: o.Name, Type: sdk.OptionType(o.Type), Unit: o.Unit, Min: o.Min, Max: o.Max, Enum: o.Enum, Required: o.Required, Doc: o.Doc}
		if len(o.DefaultJson) > 0 {
			v, err := sdk.DecodeValue(&opt, o.DefaultJson)
			if err != nil {
				return out, fmt.Errorf("default of its option %s: %w", o.Name, err)
			}
			opt.Default = v
		}
		out.Options = append(out.Options, opt)
	}
	return out, nil
}

func encodeOptions(o sdk.Options) ([]byte, error) {
	if o == nil {
		o = sdk.Options{}
	}
	return json.Marshal(o)
}

func specFromProto(r *pb.OpenDatasetReply) (sdk.DatasetSpec, error) {
	out := sdk.DatasetSpec{
		Source: r.Source, Classes: int(r.Classes), ClassNames: r.ClassNames,
		TrainSamples: int(r.TrainSamples), TestSamples: int(r.TestSamples),
		Fingerprint: r.Fingerprint, Notice: r.Notice, Vocabulary: int(r.Vocabulary), TestBytes: r.TestBytes, Tokenizer: r.Tokenizer,
	}
	var errIn, errTarget error
	out.Input, errIn = tensorSpec("input", r.Input)
	out.Target, errTarget = tensorSpec("target", r.Target)
	if min(r.TrainSamples, r.TestSamples) < 0 || max(r.TrainSamples, r.TestSamples) > math.MaxInt32 { // beyond any order of samples in memory
		errIn = fmt.Errorf("%d training and %d test samples; a split may have 0 to %d", r.TrainSamples, r.TestSamples, math.MaxInt32)
	}
	if n := r.Classes; n < 0 || n > math.MaxInt32 || n == 0 && out.Target.DType == tensor.I32 {
		errTarget = errors.Join(errTarget, fmt.Errorf("%d classes; int32 targets are indices of at least one class, other targets have 0", n))
	}
	return out, errors.Join(errIn, errTarget, checkIndices(&out))
}

// checkIndices checks what concerns i32 inputs, such as tokens. A plugin that does not know
// the field publishes a vocabulary of 0: its indices are checked by the layer that reads them.
func checkIndices(s *sdk.DatasetSpec) error {
	switch {
	case s.Vocabulary < 0 || s.Vocabulary > math.MaxInt32:
		return fmt.Errorf("a vocabulary of %d; it may have up to %d entries", s.Vocabulary, math.MaxInt32)
	case s.Vocabulary > 0 && s.Input.DType != tensor.I32:
		return fmt.Errorf("a vocabulary of %d for the input %v; only i32 inputs have one", s.Vocabulary, s.Input)
	case s.TestBytes < 0:
		return fmt.Errorf("%d bytes of text in the test split", s.TestBytes)
	}
	return nil
}

// maxSample bounds one sample, so that sizes cannot overflow.
const maxSample = 1 << 32

func tensorSpec(what string, r *pb.TensorSpec) (tensor.Spec, error) {
	out := tensor.Spec{DType: tensor.DType(r.GetDtype())}
	size := int64(out.DType.Size())
	for _, d := range r.GetShape() {
		if d <= 0 || d > maxSample || size*d > maxSample {
			return out, fmt.Errorf("the %s shape %v is not valid", what, r.GetShape())
		}
		size *= d
		out.Shape = append(out.Shape, int(d))
	}
	if !out.DType.Valid() || r.GetDtype() > 255 {
		return out, fmt.Errorf("the %s has the unknown element type %d", what, r.GetDtype())
	}
	return out, nil
}

func layerFromProto(r *pb.DescribeLayerReply, in []int) (sdk.LayerSpec, error) {
	spec := sdk.LayerSpec{Shape: pb.Integers[int](r.Shape), SaveOutput: r.SaveOutput, FLOPs: r.Flops}
	for _, p := range r.Params {
		spec.Params = append(spec.Params, sdk.LayerParam{Name: p.GetName(), Shape: pb.Integers[int](p.GetShape()), Init: sdk.LayerInit{Rule: p.GetInit(), A: p.GetA(), B: p.GetB()}})
	}
	return spec, spec.Check(in)
}

func policyFromProto(r *pb.PolicyReply) (sdk.Policy, error) {
	out := sdk.Policy{
		Name: r.Name, Params: tensor.DType(r.Params), BatchNormF32: r.BatchNormF32, MasterWeights: r.MasterWeights,
		Lower: tensor.DType(r.Lower), Casts: map[string]sdk.Cast{}, Scale: r.Scale, Dynamic: r.Dynamic,
	}
	if r.Params > 255 || r.Lower > 255 || !out.Params.Float() || out.Lower != tensor.Invalid && !out.Lower.Float() {
		return out, fmt.Errorf("the policy has Params %v and Lower %v; both are floating-point types, and Lower may be left out", out.Params, out.Lower)
	}
	if err := checkScale(r.Scale); err != nil {
		return out, err
	}
	for op, c := range r.Casts {
		if c > uint32(sdk.CastBanned) {
			return out, fmt.Errorf("the policy's cast of %s is %d", op, c)
		}
		out.Casts[op] = sdk.Cast(c)
	}
	for _, p := range r.Properties {
		out.Properties = append(out.Properties, [2]string{p.Name, p.Value})
	}
	return out, nil
}

// checkScale rejects a loss scale that would make every gradient zero, infinite, or
// of the wrong sign; losses are multiplied by it in float32.
func checkScale(scale float64) error {
	if s := float32(scale); !(s > 0) || math.IsInf(float64(s), 0) {
		return fmt.Errorf("the loss scale %v is not a positive float32; use 1 for no scaling", scale)
	}
	return nil
}

// fromStatus returns the error that the plugin returned, with its type.
func fromStatus(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		if p, ok := d.(*pb.Error); ok {
			return errorFromProto(p)
		}
	}
	e := &sdk.Error{Text: st.Message()}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return &contextual{e, context.DeadlineExceeded}
	case codes.Canceled:
		return &contextual{e, context.Canceled}
	}
	return e
}

func errorFromProto(p *pb.Error) error {
	switch t := p.Typed.(type) {
	case *pb.Error_Stall:
		return &sdk.StallError{Seq: t.Stall.Seq, Op: sdk.Op(t.Stall.Op), Bucket: int(t.Stall.Bucket), Missing: pb.Integers[int](t.Stall.Missing), Waited: time.Duration(t.Stall.WaitedNs)}
	case *pb.Error_Mismatch:
		return &sdk.MismatchError{Rank: int(t.Mismatch.Rank), Peer: int(t.Mismatch.Peer), Mine: t.Mismatch.Mine, Its: t.Mismatch.Its}
	case *pb.Error_Peer:
		return &sdk.PeerError{Peer: int(t.Peer.Peer), Seq: t.Peer.Seq, Cause: t.Peer.Cause}
	case *pb.Error_Problems:
		var l usererr.List
		for _, q := range t.Problems.Problems {
			l = append(l, usererr.Problem{Key: q.Key, Detail: q.Detail, Help: q.Help})
		}
		return l.Err()
	}
	generic := &sdk.Error{Code: p.Code, Text: p.Text}
	switch p.Code {
	case sdk.CodeDeadline:
		return &contextual{generic, context.DeadlineExceeded}
	case sdk.CodeCanceled:
		return &contextual{generic, context.Canceled}
	}
	return generic
}

// contextual is a plugin's error that also counts as one of package context.
type contextual struct{ reported, cause error }

func (e *contextual) Error() string { return e.reported.Error() }

func (e *contextual) Unwrap() []error { return []error{e.reported, e.cause} }
