package pb_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Bytes as version 1 of the protocol writes them. They never change: a failure
// here means that plugins built before would be misread.
var version1 = []struct {
	hex string
	msg proto.Message
}{
	{"0a036a6f6212017318012002280438024080d0acf30e4a0868302e6c6f63616c52027b7d", &pb.OpenBackendRequest{
		JobId: "job", Secret: []byte("s"), Generation: 1, Rank: 2, WorldSize: 4, LocalSize: 2, TimeoutNs: 4e9, MasterAddr: "h0.local", OptionsJson: []byte("{}"),
	}},
	{"580c", &pb.OpenBackendRequest{Epoch: 12}},
	{"62054750552d316802", &pb.OpenBackendRequest{Device: "GPU-1", Channels: 2}},
	{"080212096772616469656e7473188080800222160a054750552d3112036970631a020102220103220104", &pb.AttachArenaRequest{Id: 2, Name: "gradients", Size: 4 << 20, Device: &pb.DeviceMemory{Uuid: "GPU-1", Kind: "ipc", Handle: []byte{1, 2}, Ready: [][]byte{{3}, {4}}}}},
	{"0a01050a0106", &pb.AttachArenaReply{Done: [][]byte{{5}, {6}}}},
	{"6001", &pb.InfoReply{DeviceArena: true}},
	{"4801", &pb.CollectiveRequest{Channel: 1}},
	{"0a0373686d10808001", &pb.StartRequest{DataPlane: "shm", ControlSize: 0x4000}},
	{"0a076261636b656e6412037463701a01312a1a0a05636f6e6e731203696e741a013129000000000000f03f40013202010442010148085207626974776973655a0373686d5a06696e6c696e65", &pb.InfoReply{
		Kind: "backend", Name: "tcp", Version: "1", Dtypes: []uint32{1, 4}, Ops: []uint32{1}, MaxWorld: 8, Determinism: "bitwise", DataPlanes: []string{"shm", "inline"},
		Options: []*pb.Option{{Name: "conns", Type: "int", DefaultJson: []byte("1"), Min: proto.Float64(1), Required: true}},
	}},
	{"0a03696478120708011203011c1c1a020808200a30e0d40338904e420166", &pb.OpenDatasetReply{
		Source: "idx", Input: &pb.TensorSpec{Dtype: 1, Shape: []int64{1, 28, 28}}, Target: &pb.TensorSpec{Dtype: 8}, Classes: 10, TrainSamples: 60000, TestSamples: 10000, Fingerprint: "f",
	}},
	{"0a024f3110012804320a0a06636f6e763264100139000000000000f0404001", &pb.PolicyReply{Name: "O1", Params: 1, Lower: 4, Casts: map[string]uint32{"conv2d": 1}, Scale: 65536, Dynamic: true}},
	{"0a01741a14080c100118ffffffffffffffffff012201032805", &pb.Error{Text: "t", Typed: &pb.Error_Stall{Stall: &pb.Stall{Seq: 12, Op: 1, Bucket: -1, Missing: []int64{3}, WaitedNs: 5}}}},
	{"08011002180322020405", &pb.FillRequest{Split: 1, Epoch: 2, Seed: 3, Indices: []int64{4, 5}}},
}

func TestGoldenBytes(t *testing.T) {
	for _, c := range version1 {
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.msg)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(wire); got != c.hex {
			t.Errorf("%T: got %s, want %s", c.msg, got, c.hex)
		}
		old, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		got := c.msg.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(old, got); err != nil || !proto.Equal(got, c.msg) {
			t.Errorf("%T: %s decodes to %v, %v", c.msg, c.hex, got, err)
		}
	}
}

func TestCollectiveArguments(t *testing.T) {
	var payload [72]byte
	want := pb.CollectiveArgs{Timed: true, Channel: 2, Ready: 0x103, Done: 4}
	want.Put(payload[:])
	var got pb.CollectiveArgs
	if got.Get(payload[:]); got != want {
		t.Errorf("got %+v", got)
	}
	if !bytes.Equal(payload[:8], []byte{1, 2, 3, 1, 4, 0, 0, 0}) {
		t.Errorf("the layout of docs/protocol.md: %x", payload)
	}
}

func TestSlotArguments(t *testing.T) {
	var payload [72]byte
	want := pb.FillArgs{Split: 1, Epoch: -2, Seed: 3, Input: 4, InputSize: 5, Target: 6, TargetSize: 7}
	want.Put(payload[:])
	var got pb.FillArgs
	if got.Get(payload[:]); got != want {
		t.Errorf("fill: %+v", got)
	}
	if payload[0] != 1 || payload[16] != 3 || payload[48] != 7 {
		t.Errorf("the layout of docs/protocol.md: %x", payload)
	}
	var result [48]byte
	wantScale := pb.ScaleResult{Scale: 0.5, Skipped: 2, Skip: true}
	wantScale.Put(result[:])
	var scale pb.ScaleResult
	if scale.Get(result[:]); scale != wantScale || result[16] != 1 {
		t.Errorf("update: %+v", scale)
	}
}
