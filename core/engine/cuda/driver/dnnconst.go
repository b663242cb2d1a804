package driver

// DNNStatus is a cudnnStatus_t. It is an error. Codes of version 9 come in
// groups of a thousand; [DNNStatus.group] gives the group's first.
type DNNStatus int32

// The groups of cuDNN's codes.
const (
	DNNBadParam     DNNStatus = 2000
	DNNNotSupported DNNStatus = 3000
)

var dnnNames = map[int32]string{
	1001: "NOT_INITIALIZED", 1002: "SUBLIBRARY_VERSION_MISMATCH", 1008: "SUBLIBRARY_LOADING_FAILED",
	2000: "BAD_PARAM", 2002: "BAD_PARAM_NULL_POINTER", 2003: "BAD_PARAM_MISALIGNED_POINTER", 2004: "BAD_PARAM_NOT_FINALIZED",
	2005: "BAD_PARAM_OUT_OF_BOUND", 2006: "BAD_PARAM_SIZE_INSUFFICIENT", 2008: "BAD_PARAM_SHAPE_MISMATCH", 2010: "BAD_PARAM_ATTRIBUTE_TYPE",
	3000: "NOT_SUPPORTED", 3001: "NOT_SUPPORTED_GRAPH_PATTERN", 3002: "NOT_SUPPORTED_SHAPE", 3003: "NOT_SUPPORTED_DATA_TYPE",
	3004: "NOT_SUPPORTED_LAYOUT", 3005: "NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER", 3007: "NOT_SUPPORTED_ARCH_MISMATCH",
	3008: "NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING", 3009: "NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE",
	4000: "INTERNAL_ERROR", 4001: "INTERNAL_ERROR_COMPILATION_FAILED", 4003: "INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
	4004: "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", 5000: "EXECUTION_FAILED", 5001: "EXECUTION_FAILED_CUDA_DRIVER",
	5002: "EXECUTION_FAILED_CUBLAS", 5003: "EXECUTION_FAILED_CUDART",
}

func (s DNNStatus) Error() string { return named(dnnNames, "CUDNN_STATUS_", int32(s)) }

// group is the status without its detail: DNNNotSupported for all reasons why
// something is not supported.
func (s DNNStatus) group() DNNStatus {
	if s < 2000 {
		return s
	}
	return s / 1000 * 1000
}

// Is makes errors.Is(err, DNNNotSupported) true for every code of the group.
func (s DNNStatus) Is(target error) bool {
	t, ok := target.(DNNStatus)
	return ok && (s == t || s.group() == t)
}

// Handles of cuDNN.
type (
	DNNHandle         uintptr
	BackendDescriptor uintptr // cudnnBackendDescriptor_t
)

// DNNType is a cudnnDataType_t.
type DNNType int32

// Element types.
const (
	DNNFloat    DNNType = 0
	DNNHalf     DNNType = 2
	DNNBFloat16 DNNType = 9
)

// DNNCrossCorrelation is the mode of what PyTorch calls a convolution.
const DNNCrossCorrelation int32 = 1
