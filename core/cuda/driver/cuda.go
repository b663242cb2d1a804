package driver

import "unsafe"

// CUDA is the driver API of libcuda. Versions are those of CUDA; everything
// without one is in every driver since CUDA 11.4.
type CUDA struct {
	Lib Library

	// Initialisation and devices.

	Init                func(flags uint32) error                                      `dl:"cuInit"`
	DriverGetVersion    func(version *int32) error                                    `dl:"cuDriverGetVersion"` // 12040 is 12.4
	DeviceGetCount      func(count *int32) error                                      `dl:"cuDeviceGetCount"`
	DeviceGet           func(device *Device, ordinal int32) error                     `dl:"cuDeviceGet"`
	DeviceGetName       func(name *byte, size int32, device Device) error             `dl:"cuDeviceGetName"`
	DeviceGetUUID       func(uuid *UUID, device Device) error                         `dl:"cuDeviceGetUuid_v2"` // a MIG slice's own
	DeviceGetPCIBusID   func(id *byte, size int32, device Device) error               `dl:"cuDeviceGetPCIBusId"`
	DeviceTotalMem      func(bytes *uintptr, device Device) error                     `dl:"cuDeviceTotalMem_v2"`
	DeviceGetAttribute  func(value *int32, attribute DeviceAttribute, d Device) error `dl:"cuDeviceGetAttribute"`
	DeviceCanAccessPeer func(can *int32, device, peer Device) error                   `dl:"cuDeviceCanAccessPeer"`
	GetErrorName        func(result CUResult, name **byte) error                      `dl:"cuGetErrorName"`
	GetErrorString      func(result CUResult, text **byte) error                      `dl:"cuGetErrorString"`

	// Contexts. The primary context is the one that NCCL, cuBLAS and cuDNN use.

	PrimaryCtxRetain          func(context *Context, device Device) error             `dl:"cuDevicePrimaryCtxRetain"`
	PrimaryCtxRelease         func(device Device) error                               `dl:"cuDevicePrimaryCtxRelease_v2"`
	PrimaryCtxSetFlags        func(device Device, flags uint32) error                 `dl:"cuDevicePrimaryCtxSetFlags_v2"`
	PrimaryCtxGetState        func(device Device, flags *uint32, active *int32) error `dl:"cuDevicePrimaryCtxGetState"`
	CtxSetCurrent             func(context Context) error                             `dl:"cuCtxSetCurrent"`
	CtxGetCurrent             func(context *Context) error                            `dl:"cuCtxGetCurrent"`
	CtxSynchronize            func() error                                            `dl:"cuCtxSynchronize"`
	CtxEnablePeerAccess       func(peer Context, flags uint32) error                  `dl:"cuCtxEnablePeerAccess"`
	CtxGetStreamPriorityRange func(least, greatest *int32) error                      `dl:"cuCtxGetStreamPriorityRange"` // greatest is the smaller number

	// Streams. StreamQuery returns NotReady while there is work.

	StreamCreate             func(stream *Stream, flags uint32) error                                 `dl:"cuStreamCreate"`
	StreamCreateWithPriority func(stream *Stream, flags uint32, priority int32) error                 `dl:"cuStreamCreateWithPriority"`
	StreamDestroy            func(stream Stream) error                                                `dl:"cuStreamDestroy_v2"`
	StreamQuery              func(stream Stream) error                                                `dl:"cuStreamQuery"`
	StreamSynchronize        func(stream Stream) error                                                `dl:"cuStreamSynchronize"`
	StreamWaitEvent          func(stream Stream, event Event, flags uint32) error                     `dl:"cuStreamWaitEvent"`
	StreamWaitValue32        func(stream Stream, address DevicePtr, value uint32, flags uint32) error `dl:"cuStreamWaitValue32_v2,11.7"`
	StreamWriteValue32       func(stream Stream, address DevicePtr, value uint32, flags uint32) error `dl:"cuStreamWriteValue32_v2,11.7"`
	StreamBeginCapture       func(stream Stream, mode int32) error                                    `dl:"cuStreamBeginCapture_v2"`
	StreamEndCapture         func(stream Stream, graph *Graph) error                                  `dl:"cuStreamEndCapture"` // a null graph where the capture was invalidated
	StreamIsCapturing        func(stream Stream, status *int32) error                                 `dl:"cuStreamIsCapturing"`

	// Events. EventQuery returns NotReady while the recorded work is not done;
	// an event that was never recorded counts as done.

	EventCreate      func(event *Event, flags uint32) error              `dl:"cuEventCreate"`
	EventDestroy     func(event Event) error                             `dl:"cuEventDestroy_v2"`
	EventRecord      func(event Event, stream Stream) error              `dl:"cuEventRecord"`
	EventQuery       func(event Event) error                             `dl:"cuEventQuery"`
	EventSynchronize func(event Event) error                             `dl:"cuEventSynchronize"`
	EventElapsedTime func(milliseconds *float32, start, end Event) error `dl:"cuEventElapsedTime"`

	// Device memory. Addresses of MemAlloc are aligned to 256 bytes.

	MemAlloc           func(address *DevicePtr, bytes uintptr) error                  `dl:"cuMemAlloc_v2"`
	MemFree            func(address DevicePtr) error                                  `dl:"cuMemFree_v2"`
	MemAllocAsync      func(address *DevicePtr, bytes uintptr, stream Stream) error   `dl:"cuMemAllocAsync,11.2"`
	MemFreeAsync       func(address DevicePtr, stream Stream) error                   `dl:"cuMemFreeAsync,11.2"`
	MemGetInfo         func(free, total *uintptr) error                               `dl:"cuMemGetInfo_v2"`
	MemGetAddressRange func(base *DevicePtr, bytes *uintptr, address DevicePtr) error `dl:"cuMemGetAddressRange_v2"`

	// Pinned host memory.

	MemHostAlloc            func(memory *unsafe.Pointer, bytes uintptr, flags uint32) error     `dl:"cuMemHostAlloc"`
	MemFreeHost             func(memory unsafe.Pointer) error                                   `dl:"cuMemFreeHost"`
	MemHostRegister         func(memory unsafe.Pointer, bytes uintptr, flags uint32) error      `dl:"cuMemHostRegister_v2"` // whole pages, until MemHostUnregister
	MemHostUnregister       func(memory unsafe.Pointer) error                                   `dl:"cuMemHostUnregister"`
	MemHostGetDevicePointer func(address *DevicePtr, memory unsafe.Pointer, flags uint32) error `dl:"cuMemHostGetDevicePointer_v2"`

	// Copies and fills. The asynchronous ones want pinned host memory that
	// stays valid until the stream has passed them.

	MemcpyHtoD      func(to DevicePtr, from unsafe.Pointer, bytes uintptr) error                `dl:"cuMemcpyHtoD_v2"`
	MemcpyDtoH      func(to unsafe.Pointer, from DevicePtr, bytes uintptr) error                `dl:"cuMemcpyDtoH_v2"`
	MemcpyDtoD      func(to, from DevicePtr, bytes uintptr) error                               `dl:"cuMemcpyDtoD_v2"`
	MemcpyHtoDAsync func(to DevicePtr, from unsafe.Pointer, bytes uintptr, stream Stream) error `dl:"cuMemcpyHtoDAsync_v2"`
	MemcpyDtoHAsync func(to unsafe.Pointer, from DevicePtr, bytes uintptr, stream Stream) error `dl:"cuMemcpyDtoHAsync_v2"`
	MemcpyDtoDAsync func(to, from DevicePtr, bytes uintptr, stream Stream) error                `dl:"cuMemcpyDtoDAsync_v2"`
	MemsetD8Async   func(to DevicePtr, value uint8, count uintptr, stream Stream) error         `dl:"cuMemsetD8Async"`
	MemsetD16Async  func(to DevicePtr, value uint16, count uintptr, stream Stream) error        `dl:"cuMemsetD16Async"`
	MemsetD32Async  func(to DevicePtr, value uint32, count uintptr, stream Stream) error        `dl:"cuMemsetD32Async"`

	// Modules and kernels. An image is a CUBIN, a fatbin or zero-terminated PTX.

	ModuleLoadData     func(module *Module, image unsafe.Pointer) error                                                   `dl:"cuModuleLoadData"`
	ModuleLoadDataEx   func(module *Module, image unsafe.Pointer, n uint32, options *int32, values *unsafe.Pointer) error `dl:"cuModuleLoadDataEx"`
	ModuleUnload       func(module Module) error                                                                          `dl:"cuModuleUnload"`
	ModuleGetFunction  func(function *Function, module Module, name *byte) error                                          `dl:"cuModuleGetFunction"`
	ModuleGetGlobal    func(address *DevicePtr, bytes *uintptr, module Module, name *byte) error                          `dl:"cuModuleGetGlobal_v2"`
	FuncGetAttribute   func(value *int32, attribute int32, function Function) error                                       `dl:"cuFuncGetAttribute"`
	FuncSetAttribute   func(function Function, attribute, value int32) error                                              `dl:"cuFuncSetAttribute"`
	OccupancyMaxBlocks func(blocks *int32, function Function, blockSize int32, sharedBytes uintptr) error                 `dl:"cuOccupancyMaxActiveBlocksPerMultiprocessor"`

	// LaunchKernel takes one pointer per kernel parameter; the values behind
	// them are copied before it returns. See [Args].
	LaunchKernel func(f Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream Stream, params, extra *unsafe.Pointer) error `dl:"cuLaunchKernel"`

	// Graphs. An executable graph keeps the addresses and parameters of the
	// time of capture.

	GraphDestroy              func(graph Graph) error                                            `dl:"cuGraphDestroy"`
	GraphGetNodes             func(graph Graph, nodes *GraphNode, count *uintptr) error          `dl:"cuGraphGetNodes"`
	GraphInstantiateWithFlags func(exec *GraphExec, graph Graph, flags uint64) error             `dl:"cuGraphInstantiateWithFlags"`
	GraphExecUpdate           func(exec GraphExec, graph Graph, info *GraphExecUpdateInfo) error `dl:"cuGraphExecUpdate_v2,12.0"`
	GraphUpload               func(exec GraphExec, stream Stream) error                          `dl:"cuGraphUpload,11.1"`
	GraphLaunch               func(exec GraphExec, stream Stream) error                          `dl:"cuGraphLaunch"`
	GraphExecDestroy          func(exec GraphExec) error                                         `dl:"cuGraphExecDestroy"`
	GraphDebugDotPrint        func(graph Graph, path *byte, flags uint32) error                  `dl:"cuGraphDebugDotPrint,11.3"`

	// Virtual memory management: physical memory that is exported as a file
	// descriptor and mapped where the caller wants it. It lives while any
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
