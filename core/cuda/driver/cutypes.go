package driver

// Handles of the driver. They are opaque; 0 is none, and for a stream the
// default one.
type (
	Device    int32   // CUdevice
	Context   uintptr // CUcontext
	Stream    uintptr // CUstream, which is also NCCL's and cuDNN's cudaStream_t
	Event     uintptr // CUevent
	Module    uintptr // CUmodule
	Function  uintptr // CUfunction
	Graph     uintptr // CUgraph
	GraphExec uintptr // CUgraphExec
	GraphNode uintptr // CUgraphNode
	MemHandle uint64  // CUmemGenericAllocationHandle
	DevicePtr uint64  // CUdeviceptr: an address in device memory
)

// DeviceAttribute is a CUdevice_attribute.
type DeviceAttribute int32

// The device attributes that are asked for.
const (
	AttrMaxSharedMemoryPerBlock      DeviceAttribute = 8
	AttrWarpSize                     DeviceAttribute = 10
	AttrClockRate                    DeviceAttribute = 13 // kHz
	AttrMultiprocessors              DeviceAttribute = 16
	AttrComputeMode                  DeviceAttribute = 20
	AttrMemoryClockRate              DeviceAttribute = 36 // kHz
	AttrMemoryBusWidth               DeviceAttribute = 37 // bits
	AttrL2CacheSize                  DeviceAttribute = 38 // bytes
	AttrMaxThreadsPerMultiprocessor  DeviceAttribute = 39
	AttrComputeCapabilityMajor       DeviceAttribute = 75
	AttrComputeCapabilityMinor       DeviceAttribute = 76
	AttrStreamPriorities             DeviceAttribute = 78
	AttrMaxSharedMemoryPerBlockOptin DeviceAttribute = 97
	AttrHostRegister                 DeviceAttribute = 99
	AttrVirtualMemory                DeviceAttribute = 102
	AttrPosixFDHandles               DeviceAttribute = 103
	AttrRDMAWithVirtualMemory        DeviceAttribute = 110
	AttrMemoryPools                  DeviceAttribute = 115
	AttrIPCEvents                    DeviceAttribute = 125
	AttrMPSEnabled                   DeviceAttribute = 133 // since CUDA 12.2
)

// Flags of contexts, streams, events, host memory and captures.
const (
	CtxSchedAuto         uint32 = 0
	CtxSchedSpin         uint32 = 1
	CtxSchedYield        uint32 = 2
	CtxSchedBlockingSync uint32 = 4

	StreamNonBlocking uint32 = 1 // does not wait for the default stream

	EventBlockingSync  uint32 = 1
	EventDisableTiming uint32 = 2
	EventInterprocess  uint32 = 4 // needs EventDisableTiming

	HostPortable      uint32 = 1 // pinned for all contexts
	HostDeviceMap     uint32 = 2 // has a device address
	HostWriteCombined uint32 = 4 // MemHostAlloc only: slow for the CPU to read

	WaitValueGEQ   uint32 = 0 // (int32)(*address - value) >= 0
	WaitValueEQ    uint32 = 1
	WaitValueFlush uint32 = 1 << 30

	CaptureGlobal      int32 = 0
	CaptureThreadLocal int32 = 1
	CaptureRelaxed     int32 = 2

	CaptureNone        int32 = 0
	CaptureActive      int32 = 1
	CaptureInvalidated int32 = 2

	FuncAttrMaxThreadsPerBlock      int32 = 0
	FuncAttrSharedSize              int32 = 1
	FuncAttrNumRegs                 int32 = 4
	FuncAttrMaxDynamicSharedSize    int32 = 8
	FuncAttrPreferredSharedCarveout int32 = 9

	IPCLazyEnablePeerAccess uint32 = 1
)

// IPCMemHandle is a CUipcMemHandle: a name for a whole cuMemAlloc allocation
// that another process can open.
type IPCMemHandle struct{ Bytes [64]byte }

// IPCEventHandle is a CUipcEventHandle.
type IPCEventHandle struct{ Bytes [64]byte }

// UUID is a CUuuid, the device's identity in every process and on every host.
type UUID struct{ Bytes [16]byte }

// Values of AllocationProp and AccessDesc.
const (
	AllocationPinned       int32 = 1
	HandleNone             int32 = 0
	HandlePosixFD          int32 = 1
	LocationDevice         int32 = 1
	AccessReadWrite        int32 = 3
	GranularityMinimum     int32 = 0
	GranularityRecommended int32 = 1
)

// MemLocation is a CUmemLocation.
type MemLocation struct{ Type, ID int32 }

// AllocationProp is a CUmemAllocationProp.
type AllocationProp struct {
	Type            int32
	HandleTypes     int32
	Location        MemLocation
	_               uintptr // win32HandleMetaData
	CompressionType uint8
	GPUDirectRDMA   uint8
	Usage           uint16
	_               [4]byte
}

// AccessDesc is a CUmemAccessDesc.
type AccessDesc struct {
	Location MemLocation
	Flags    int32
}

// GraphExecUpdateInfo is a CUgraphExecUpdateResultInfo: why an update was refused.
type GraphExecUpdateInfo struct {
	Result        int32 // 0: the update was made
	_             int32
	ErrorNode     GraphNode
	ErrorFromNode GraphNode
}
