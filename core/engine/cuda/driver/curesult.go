package driver

// CUResult is a CUresult, the status of a driver call. It is an error.
type CUResult int32

// The driver's codes that programs act on.
const (
	InvalidValue             CUResult = 1
	OutOfMemory              CUResult = 2
	NotInitialized           CUResult = 3
	StubLibrary              CUResult = 34
	DeviceUnavailable        CUResult = 46
	NoDevice                 CUResult = 100
	InvalidDevice            CUResult = 101
	InvalidImage             CUResult = 200
	InvalidContext           CUResult = 201
	NoBinaryForGPU           CUResult = 209
	ECCUncorrectable         CUResult = 214
	InvalidPTX               CUResult = 218
	UnsupportedPTX           CUResult = 222
	InvalidHandle            CUResult = 400
	NotFound                 CUResult = 500
	NotReady                 CUResult = 600
	IllegalAddress           CUResult = 700
	PeerAccessAlreadyEnabled CUResult = 704
	HostMemoryRegistered     CUResult = 712
	LaunchFailed             CUResult = 719
	NotPermitted             CUResult = 800
	NotSupported             CUResult = 801
	SystemNotReady           CUResult = 802
	SystemDriverMismatch     CUResult = 803
	MPSConnectionFailed      CUResult = 805
	MPSClientTerminated      CUResult = 810
	StreamCaptureUnsupported CUResult = 900
	StreamCaptureInvalidated CUResult = 901
	GraphExecUpdateFailure   CUResult = 910
	UnknownError             CUResult = 999
)

var cuNames = map[int32]string{
	1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED",
	34: "STUB_LIBRARY (a toolkit's stub was opened, not the driver)", 46: "DEVICE_UNAVAILABLE",
	100: "NO_DEVICE", 101: "INVALID_DEVICE", 200: "INVALID_IMAGE", 201: "INVALID_CONTEXT", 205: "MAP_FAILED", 206: "UNMAP_FAILED",
	208: "ALREADY_MAPPED", 209: "NO_BINARY_FOR_GPU", 211: "NOT_MAPPED", 214: "ECC_UNCORRECTABLE", 216: "CONTEXT_ALREADY_IN_USE",
	217: "PEER_ACCESS_UNSUPPORTED", 218: "INVALID_PTX", 220: "NVLINK_UNCORRECTABLE", 221: "JIT_COMPILER_NOT_FOUND",
	222: "UNSUPPORTED_PTX_VERSION", 226: "CONTAINED", 301: "FILE_NOT_FOUND", 304: "OPERATING_SYSTEM", 400: "INVALID_HANDLE", 401: "ILLEGAL_STATE",
	500: "NOT_FOUND", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS", 701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT",
	704: "PEER_ACCESS_ALREADY_ENABLED", 705: "PEER_ACCESS_NOT_ENABLED", 708: "PRIMARY_CONTEXT_ACTIVE", 709: "CONTEXT_IS_DESTROYED",
	710: "ASSERT", 712: "HOST_MEMORY_ALREADY_REGISTERED", 713: "HOST_MEMORY_NOT_REGISTERED", 714: "HARDWARE_STACK_ERROR",
	715: "ILLEGAL_INSTRUCTION", 716: "MISALIGNED_ADDRESS", 717: "INVALID_ADDRESS_SPACE", 718: "INVALID_PC", 719: "LAUNCH_FAILED",
	720: "COOPERATIVE_LAUNCH_TOO_LARGE", 721: "TENSOR_MEMORY_LEAK",
	800: "NOT_PERMITTED", 801: "NOT_SUPPORTED", 802: "SYSTEM_NOT_READY", 803: "SYSTEM_DRIVER_MISMATCH",
	804: "COMPAT_NOT_SUPPORTED_ON_DEVICE", 805: "MPS_CONNECTION_FAILED", 806: "MPS_RPC_FAILURE", 807: "MPS_SERVER_NOT_READY",
	808: "MPS_MAX_CLIENTS_REACHED", 809: "MPS_MAX_CONNECTIONS_REACHED", 810: "MPS_CLIENT_TERMINATED",
	900: "STREAM_CAPTURE_UNSUPPORTED", 901: "STREAM_CAPTURE_INVALIDATED", 902: "STREAM_CAPTURE_MERGE",
	903: "STREAM_CAPTURE_UNMATCHED", 904: "STREAM_CAPTURE_UNJOINED", 905: "STREAM_CAPTURE_ISOLATION",
	906: "STREAM_CAPTURE_IMPLICIT", 907: "CAPTURED_EVENT", 908: "STREAM_CAPTURE_WRONG_THREAD", 909: "TIMEOUT",
	910: "GRAPH_EXEC_UPDATE_FAILURE", 999: "UNKNOWN",
}

func (r CUResult) Error() string { return named(cuNames, "CUDA_ERROR_", int32(r)) }
