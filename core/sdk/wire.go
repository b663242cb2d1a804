package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trainctl/trainctl/core/base/jsonvalue"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// This file is the plugin's half of the conversion between the contract and the
// wire; the host has the other half.

func (i *Info) toProto() (*pb.InfoReply, error) {
	out := &pb.InfoReply{
		Kind: string(i.Kind), Name: i.Name, Version: i.Version, Summary: i.Summary,
		Devices: i.Devices, MaxWorld: int64(i.MaxWorld), Determinism: i.Determinism, DeviceArena: i.DeviceArena,
	}
	for _, d := range i.DTypes {
		out.Dtypes = append(out.Dtypes, uint32(d))
	}
	for _, o := range i.Ops {
		out.Ops = append(out.Ops, uint32(o))
	}
	for _, o := range i.Options {
		p := &pb.Option{Name: o.Name, Type: string(o.Type), Unit: o.Unit, Min: o.Min, Max: o.Max, Enum: o.Enum, Required: o.Required, Doc: o.Doc}
		if o.Default != nil {
			b, err := json.Marshal(o.Default)
			if err != nil {
				return nil, fmt.Errorf("default of option %s: %w", o.Name, err)
			}
			p.DefaultJson = b
		}
		out.Options = append(out.Options, p)
	}
	return out, nil
}

// decodeOptions converts JSON values to the types that the options declare.
func decodeOptions(table []Option, data []byte) (Options, error) {
	given := map[string]any{}
	if len(data) > 0 {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&given); err != nil {
			return nil, &Error{Code: CodeProtocol, Text: "options: " + err.Error()}
		}
	}
	jsonvalue.Object(given)
	out, problems := CheckOptions("", table, given)
	return out, problems.Err()
}

func groupFromProto(r *pb.OpenBackendRequest) (Group, error) {
	g := Group{
		JobID: r.JobId, Secret: r.Secret, Generation: int(r.Generation), Epoch: int(r.Epoch), Rank: int(r.Rank), WorldSize: int(r.WorldSize),
		LocalRank: int(r.LocalRank), LocalSize: int(r.LocalSize), Timeout: time.Duration(r.TimeoutNs), MasterAddr: r.MasterAddr,
		Device: r.Device, Channels: int(r.Channels),
	}
	if g.WorldSize < 1 || g.Rank < 0 || g.Rank >= g.WorldSize {
		return g, &Error{Code: CodeProtocol, Text: fmt.Sprintf("rank %d in a group of %d", g.Rank, g.WorldSize)}
	}
	if g.Channels < 0 || g.Channels > MaxChannels {
		return g, &Error{Code: CodeProtocol, Text: fmt.Sprintf("a group with %d channels", g.Channels)}
	}
	return g, nil
}

func specToProto(s tensor.Spec) *pb.TensorSpec {
	out := &pb.TensorSpec{Dtype: uint32(s.DType)}
	for _, d := range s.Shape {
		out.Shape = append(out.Shape, int64(d))
	}
	return out
}

func (s *DatasetSpec) toProto() *pb.OpenDatasetReply {
	return &pb.OpenDatasetReply{
		Source: s.Source, Input: specToProto(s.Input), Target: specToProto(s.Target),
		Classes: int64(s.Classes), ClassNames: s.ClassNames,
		TrainSamples: int64(s.TrainSamples), TestSamples: int64(s.TestSamples),
		Fingerprint: s.Fingerprint, Notice: s.Notice, Vocabulary: int64(s.Vocabulary), TestBytes: s.TestBytes, Tokenizer: s.Tokenizer,
	}
}

func policyToProto(p *Policy) *pb.PolicyReply {
	out := &pb.PolicyReply{
		Name: p.Name, Params: uint32(p.Params), BatchNormF32: p.BatchNormF32, MasterWeights: p.MasterWeights,
		Lower: uint32(p.Lower), Casts: map[string]uint32{}, Scale: p.Scale, Dynamic: p.Dynamic,
	}
	for op, c := range p.Casts {
		out.Casts[op] = uint32(c)
	}
	for _, kv := range p.Properties {
		out.Properties = append(out.Properties, &pb.Property{Name: kv[0], Value: kv[1]})
	}
	return out
}

// errorToProto keeps the type of an error that the contract names.
func errorToProto(err error) *pb.Error {
	out := &pb.Error{Text: err.Error()}
	var (
		stall    *StallError
		mismatch *MismatchError
		peer     *PeerError
		generic  *Error
	)
	switch {
	case errors.As(err, &stall):
		out.Typed = &pb.Error_Stall{Stall: &pb.Stall{Seq: stall.Seq, Op: uint32(stall.Op), Bucket: int64(stall.Bucket), Missing: pb.Integers[int64](stall.Missing), WaitedNs: int64(stall.Waited)}}
	case errors.As(err, &mismatch):
		out.Typed = &pb.Error_Mismatch{Mismatch: &pb.Mismatch{Rank: int64(mismatch.Rank), Peer: int64(mismatch.Peer), Mine: mismatch.Mine, Its: mismatch.Its}}
	case errors.As(err, &peer):
		out.Typed = &pb.Error_Peer{Peer: &pb.Peer{Peer: int64(peer.Peer), Seq: peer.Seq, Cause: peer.Cause}}
	case len(usererr.Problems(err)) > 0:
		out.Typed = &pb.Error_Problems{Problems: problemsToProto(usererr.Problems(err))}
	case errors.As(err, &generic):
		out.Code = generic.Code
	case errors.Is(err, context.DeadlineExceeded):
		out.Code = CodeDeadline
	case errors.Is(err, context.Canceled):
		out.Code = CodeCanceled
	}
	return out
}

func problemsToProto(l usererr.List) *pb.Problems {
	out := &pb.Problems{}
	for _, p := range l {
		out.Problems = append(out.Problems, &pb.Problem{Key: p.Key, Detail: p.Detail, Help: p.Help})
	}
	return out
}

func toStatus(err error) error {
	p := errorToProto(err)
	code := codes.Unknown
	switch p.Code {
	case CodeCanceled:
		code = codes.Canceled
	case CodeDeadline:
		code = codes.DeadlineExceeded
	case CodePanic:
		code = codes.Internal
	case CodeProtocol:
		code = codes.InvalidArgument
	}
	st, detailErr := status.New(code, p.Text).WithDetails(p)
	if detailErr != nil {
		return status.Error(code, p.Text)
	}
	return st.Err()
}

// DecodeValue converts the JSON value of an option to the type that the option
// declares. Hosts use it to read a published default.
func DecodeValue(o *Option, data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return o.check(jsonvalue.Native(v))
}
