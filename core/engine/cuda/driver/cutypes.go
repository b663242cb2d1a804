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
	MemHandle uint64  // CUmemGenericAllocationHandle
	DevicePtr uint64  // CUdeviceptr: an address in device memory
)

// DeviceAttribute is a CUdevice_attribute.
type DeviceAttribute int32

// The device attributes that are asked for.
const (
	AttrMultiprocessors        DeviceAttribute = 16
	AttrComputeMode            DeviceAttribute = 20
	AttrComputeCapabilityMajor DeviceAttribute = 75
	AttrComputeCapabilityMinor DeviceAttribute = 76
	AttrVirtualMemory          DeviceAttribute = 102
	AttrPosixFDHandles         DeviceAttribute = 103
	AttrRDMAWithVirtualMemory  DeviceAttribute = 110
	AttrIPCEvents              DeviceAttribute = 125
)

// Flags of contexts, streams, events, host memory and captures.
const (
	StreamNonBlocking uint32 = 1 // does not wait for the default stream

	EventDisableTiming uint32 = 2
	EventInterprocess  uint32 = 4 // needs EventDisableTiming

	HostPortable  uint32 = 1 // pinned for all contexts
	HostDeviceMap uint32 = 2 // has a device address

	CaptureThreadLocal int32 = 1

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
	HandlePosixFD          int32 = 1
	LocationDevice         int32 = 1
	AccessReadWrite        int32 = 3
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
