package driver

import (
	"math"
	"unsafe"
)

// NCCLResult is an ncclResult_t. It is an error. A communicator that does not
// block answers most calls with NCCLInProgress; [NCCL.CommGetAsyncError] then
// says when the call is done.
type NCCLResult int32

// NCCL's codes.
const (
	NCCLSuccess         NCCLResult = 0
	NCCLInvalidArgument NCCLResult = 4
	NCCLInvalidUsage    NCCLResult = 5
	NCCLRemoteError     NCCLResult = 6
	NCCLInProgress      NCCLResult = 7
)

var ncclNames = map[int32]string{
	1: "unhandled CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument", 5: "invalid usage",
	6: "remote error (a peer is gone)", 7: "in progress", 8: "timeout",
}

func (r NCCLResult) Error() string { return named(ncclNames, "NCCL: ", int32(r)) }

// Comm is an ncclComm_t.
type Comm uintptr

// NCCLUniqueID is an ncclUniqueId: how the ranks of a communicator find each other.
type NCCLUniqueID struct{ Bytes [128]byte }

// NCCLDataType is an ncclDataType_t.
type NCCLDataType int32

// Element types.
const (
	NCCLInt8     NCCLDataType = 0
	NCCLUint8    NCCLDataType = 1
	NCCLInt32    NCCLDataType = 2
	NCCLInt64    NCCLDataType = 4
	NCCLFloat16  NCCLDataType = 6
	NCCLFloat32  NCCLDataType = 7
	NCCLFloat64  NCCLDataType = 8
	NCCLBFloat16 NCCLDataType = 9
)

// NCCLRedOp is an ncclRedOp_t.
type NCCLRedOp int32

// Reductions.
const (
	NCCLSum  NCCLRedOp = 0
	NCCLProd NCCLRedOp = 1
	NCCLMax  NCCLRedOp = 2
	NCCLMin  NCCLRedOp = 3
	NCCLAvg  NCCLRedOp = 4
)

// NCCLConfig is an ncclConfig_t as of version 2.18, the first 48 bytes of
// every later one. A library that knows more takes its defaults for the rest.
type NCCLConfig struct {
	Size           uintptr
	Magic          uint32
	Version        uint32
	Blocking       int32
	CGAClusterSize int32
	MinCTAs        int32
	MaxCTAs        int32
	NetName        *byte
	SplitShare     int32
	_              int32
}

// NCCLUndefined leaves a number of a configuration to the library.
const NCCLUndefined int32 = math.MinInt32

// NewNCCLConfig returns a configuration of defaults.
func NewNCCLConfig() *NCCLConfig {
	return &NCCLConfig{
		Size: unsafe.Sizeof(NCCLConfig{}), Magic: 0xcafebeef, Version: 21800,
		Blocking: NCCLUndefined, CGAClusterSize: NCCLUndefined, MinCTAs: NCCLUndefined, MaxCTAs: NCCLUndefined, SplitShare: NCCLUndefined,
	}
}

// NCCL is the library of collectives, 2.18 or later. A communicator is not
// safe for use by several goroutines, and neither are two of one device:
// launch collectives of a device from one goroutine.
type NCCL struct {
	Lib Library

	GetVersion     func(version *int32) error     `dl:"ncclGetVersion"` // 22706 is 2.27.6
	GetUniqueID    func(id *NCCLUniqueID) error   `dl:"ncclGetUniqueId"`
	GetErrorString func(result NCCLResult) string `dl:"ncclGetErrorString"`
	GetLastError   func(comm Comm) string         `dl:"ncclGetLastError"` // of this process; comm may be 0

	CommInitRankConfig func(comm *Comm, size int32, id NCCLUniqueID, rank int32, config *NCCLConfig) error `dl:"ncclCommInitRankConfig"`
	CommFinalize       func(comm Comm) error                                                               `dl:"ncclCommFinalize"`
	CommDestroy        func(comm Comm) error                                                               `dl:"ncclCommDestroy"`
	CommAbort          func(comm Comm) error                                                               `dl:"ncclCommAbort"`
	CommGetAsyncError  func(comm Comm, result *NCCLResult) error                                           `dl:"ncclCommGetAsyncError"`

	// The collectives. Equal send and receive addresses are in place.

	AllReduce     func(send, receive DevicePtr, count uintptr, t NCCLDataType, op NCCLRedOp, comm Comm, stream Stream) error             `dl:"ncclAllReduce"`
	Broadcast     func(send, receive DevicePtr, count uintptr, t NCCLDataType, root int32, comm Comm, stream Stream) error               `dl:"ncclBroadcast"`
	Reduce        func(send, receive DevicePtr, count uintptr, t NCCLDataType, op NCCLRedOp, root int32, comm Comm, stream Stream) error `dl:"ncclReduce"`
	AllGather     func(send, receive DevicePtr, count uintptr, t NCCLDataType, comm Comm, stream Stream) error                           `dl:"ncclAllGather"`     // count of one rank's part
	ReduceScatter func(send, receive DevicePtr, count uintptr, t NCCLDataType, op NCCLRedOp, comm Comm, stream Stream) error             `dl:"ncclReduceScatter"` // count of one rank's part
	Send          func(buffer DevicePtr, count uintptr, t NCCLDataType, peer int32, comm Comm, stream Stream) error                      `dl:"ncclSend"`
	Recv          func(buffer DevicePtr, count uintptr, t NCCLDataType, peer int32, comm Comm, stream Stream) error                      `dl:"ncclRecv"`
}
