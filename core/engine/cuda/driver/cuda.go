package driver

import "unsafe"

// CUDA is the driver API of libcuda. Versions are those of CUDA; everything
// without one is in every driver since CUDA 11.4.
type CUDA struct {
	Lib Library

	// Initialisation and devices.

	Init               func(flags uint32) error                                      `dl:"cuInit"`
	DriverGetVersion   func(version *int32) error                                    `dl:"cuDriverGetVersion"` // 12040 is 12.4
	DeviceGetCount     func(count *int32) error                                      `dl:"cuDeviceGetCount"`
	DeviceGet          func(device *Device, ordinal int32) error                     `dl:"cuDeviceGet"`
	DeviceGetName      func(name *byte, size int32, device Device) error             `dl:"cuDeviceGetName"`
	DeviceGetUUID      func(uuid *UUID, device Device) error                         `dl:"cuDeviceGetUuid_v2"` // a MIG slice's own
	DeviceGetPCIBusID  func(id *byte, size int32, device Device) error               `dl:"cuDeviceGetPCIBusId"`
	DeviceTotalMem     func(bytes *uintptr, device Device) error                     `dl:"cuDeviceTotalMem_v2"`
	DeviceGetAttribute func(value *int32, attribute DeviceAttribute, d Device) error `dl:"cuDeviceGetAttribute"`
	GetErrorString     func(result CUResult, text **byte) error                      `dl:"cuGetErrorString"`

	// Contexts. The primary context is the one that NCCL, cuBLAS and cuDNN use.

	PrimaryCtxRetain  func(context *Context, device Device) error `dl:"cuDevicePrimaryCtxRetain"`
	PrimaryCtxRelease func(device Device) error                   `dl:"cuDevicePrimaryCtxRelease_v2"`
	CtxSetCurrent     func(context Context) error                 `dl:"cuCtxSetCurrent"`

	// Streams. StreamQuery returns NotReady while there is work.

	StreamCreate       func(stream *Stream, flags uint32) error             `dl:"cuStreamCreate"`
	StreamDestroy      func(stream Stream) error                            `dl:"cuStreamDestroy_v2"`
	StreamQuery        func(stream Stream) error                            `dl:"cuStreamQuery"`
	StreamSynchronize  func(stream Stream) error                            `dl:"cuStreamSynchronize"`
	StreamWaitEvent    func(stream Stream, event Event, flags uint32) error `dl:"cuStreamWaitEvent"`
	StreamBeginCapture func(stream Stream, mode int32) error                `dl:"cuStreamBeginCapture_v2"`
	StreamEndCapture   func(stream Stream, graph *Graph) error              `dl:"cuStreamEndCapture"` // a null graph where the capture was invalidated

	// Events. EventQuery returns NotReady while the recorded work is not done;
	// an event that was never recorded counts as done.

	EventCreate      func(event *Event, flags uint32) error              `dl:"cuEventCreate"`
	EventDestroy     func(event Event) error                             `dl:"cuEventDestroy_v2"`
	EventRecord      func(event Event, stream Stream) error              `dl:"cuEventRecord"`
	EventQuery       func(event Event) error                             `dl:"cuEventQuery"`
	EventElapsedTime func(milliseconds *float32, start, end Event) error `dl:"cuEventElapsedTime"`

	// Device memory. Addresses of MemAlloc are aligned to 256 bytes.

	MemAlloc   func(address *DevicePtr, bytes uintptr) error `dl:"cuMemAlloc_v2"`
	MemFree    func(address DevicePtr) error                 `dl:"cuMemFree_v2"`
	MemGetInfo func(free, total *uintptr) error              `dl:"cuMemGetInfo_v2"`

	// Pinned host memory.

	MemHostAlloc            func(memory *unsafe.Pointer, bytes uintptr, flags uint32) error     `dl:"cuMemHostAlloc"`
	MemFreeHost             func(memory unsafe.Pointer) error                                   `dl:"cuMemFreeHost"`
	MemHostGetDevicePointer func(address *DevicePtr, memory unsafe.Pointer, flags uint32) error `dl:"cuMemHostGetDevicePointer_v2"`
	MemHostRegister         func(memory unsafe.Pointer, bytes uintptr, flags uint32) error      `dl:"cuMemHostRegister_v2"` // whole pages, until MemHostUnregister
	MemHostUnregister       func(memory unsafe.Pointer) error                                   `dl:"cuMemHostUnregister"`

	// Copies and fills. The asynchronous ones want pinned host memory that
	// stays valid until the stream has passed them.

	MemcpyDtoH      func(to unsafe.Pointer, from DevicePtr, bytes uintptr) error                `dl:"cuMemcpyDtoH_v2"`
	MemcpyHtoDAsync func(to DevicePtr, from unsafe.Pointer, bytes uintptr, stream Stream) error `dl:"cuMemcpyHtoDAsync_v2"`
	MemcpyDtoHAsync func(to unsafe.Pointer, from DevicePtr, bytes uintptr, stream Stream) error `dl:"cuMemcpyDtoHAsync_v2"`
	MemcpyDtoDAsync func(to, from DevicePtr, bytes uintptr, stream Stream) error                `dl:"cuMemcpyDtoDAsync_v2"`
	MemsetD8Async   func(to DevicePtr, value uint8, count uintptr, stream Stream) error         `dl:"cuMemsetD8Async"`

	// Modules and kernels. An image is a CUBIN, a fatbin or zero-terminated PTX.

	ModuleLoadData    func(module *Module, image unsafe.Pointer) error          `dl:"cuModuleLoadData"`
	ModuleUnload      func(module Module) error                                 `dl:"cuModuleUnload"`
	ModuleGetFunction func(function *Function, module Module, name *byte) error `dl:"cuModuleGetFunction"`

	// LaunchKernel takes one pointer per kernel parameter; the values behind
	// them are copied before it returns. See [Args].
	LaunchKernel func(f Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream Stream, params, extra *unsafe.Pointer) error `dl:"cuLaunchKernel"`

	// Graphs. An executable graph keeps the addresses and parameters of the
	// time of capture.

	GraphDestroy              func(graph Graph) error                                `dl:"cuGraphDestroy"`
	GraphInstantiateWithFlags func(exec *GraphExec, graph Graph, flags uint64) error `dl:"cuGraphInstantiateWithFlags"`
	GraphLaunch               func(exec GraphExec, stream Stream) error              `dl:"cuGraphLaunch"`
	GraphExecDestroy          func(exec GraphExec) error                             `dl:"cuGraphExecDestroy"`

	// Virtual memory management: physical memory that is exported as a file
	// descriptor and mapped at the caller's address. It lives while any
	// handle, descriptor or mapping of it does, in any process.

	MemGetAllocationGranularity  func(bytes *uintptr, prop *AllocationProp, option int32) error                         `dl:"cuMemGetAllocationGranularity"`
	MemAddressReserve            func(address *DevicePtr, bytes, alignment uintptr, hint DevicePtr, flags uint64) error `dl:"cuMemAddressReserve"`
	MemAddressFree               func(address DevicePtr, bytes uintptr) error                                           `dl:"cuMemAddressFree"`
	MemCreate                    func(handle *MemHandle, bytes uintptr, prop *AllocationProp, flags uint64) error       `dl:"cuMemCreate"`
	MemRelease                   func(handle MemHandle) error                                                           `dl:"cuMemRelease"`
	MemMap                       func(address DevicePtr, bytes, offset uintptr, handle MemHandle, flags uint64) error   `dl:"cuMemMap"`
	MemUnmap                     func(address DevicePtr, bytes uintptr) error                                           `dl:"cuMemUnmap"`
	MemSetAccess                 func(address DevicePtr, bytes uintptr, access *AccessDesc, count uintptr) error        `dl:"cuMemSetAccess"`
	MemExportToShareableHandle   func(fd *int32, handle MemHandle, handleType int32, flags uint64) error                `dl:"cuMemExportToShareableHandle"`   // the caller closes the descriptor
	MemImportFromShareableHandle func(handle *MemHandle, fd uintptr, handleType int32) error                            `dl:"cuMemImportFromShareableHandle"` // the caller still owns the descriptor

	// Legacy IPC, between processes of the same user and PID namespace.

	IPCGetMemHandle    func(handle *IPCMemHandle, address DevicePtr) error               `dl:"cuIpcGetMemHandle"`
	IPCOpenMemHandle   func(address *DevicePtr, handle IPCMemHandle, flags uint32) error `dl:"cuIpcOpenMemHandle_v2"`
	IPCCloseMemHandle  func(address DevicePtr) error                                     `dl:"cuIpcCloseMemHandle"`
	IPCGetEventHandle  func(handle *IPCEventHandle, event Event) error                   `dl:"cuIpcGetEventHandle"`
	IPCOpenEventHandle func(event *Event, handle IPCEventHandle) error                   `dl:"cuIpcOpenEventHandle"`
}
