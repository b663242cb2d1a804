package driver

// DNNStatus is a cudnnStatus_t. It is an error. Codes of version 9 come in
// groups of a thousand; [DNNStatus.Group] gives the group's first.
type DNNStatus int32

// The groups of cuDNN's codes.
const (
	DNNNotInitialized  DNNStatus = 1001
	DNNBadParam        DNNStatus = 2000
	DNNNotSupported    DNNStatus = 3000
	DNNInternalError   DNNStatus = 4000
	DNNExecutionFailed DNNStatus = 5000
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

// Group is the status without its detail: DNNNotSupported for all reasons why
// something is not supported.
func (s DNNStatus) Group() DNNStatus {
	if s < 2000 {
		return s
	}
	return s / 1000 * 1000
}

// Is makes errors.Is(err, DNNNotSupported) true for every code of the group.
func (s DNNStatus) Is(target error) bool {
	t, ok := target.(DNNStatus)
	return ok && (s == t || s.Group() == t)
}

// Handles of cuDNN.
type (
	DNNHandle         uintptr
	DNNTensor         uintptr // cudnnTensorDescriptor_t
	DNNFilter         uintptr // cudnnFilterDescriptor_t
	DNNConvolution    uintptr // cudnnConvolutionDescriptor_t
	DNNPooling        uintptr // cudnnPoolingDescriptor_t
	DNNActivation     uintptr // cudnnActivationDescriptor_t
	BackendDescriptor uintptr // cudnnBackendDescriptor_t, of the graph API
)

// DNNType is a cudnnDataType_t.
type DNNType int32

// Element types.
const (
	DNNFloat    DNNType = 0
	DNNDouble   DNNType = 1
	DNNHalf     DNNType = 2
	DNNInt8     DNNType = 3
	DNNInt32    DNNType = 4
	DNNUint8    DNNType = 6
	DNNBFloat16 DNNType = 9
	DNNInt64    DNNType = 10
	DNNBoolean  DNNType = 11
)

// Values of cuDNN's enumerations.
const (
	DNNFormatNCHW int32 = 0
	DNNFormatNHWC int32 = 1

	DNNCrossCorrelation int32 = 1 // what PyTorch calls a convolution

	DNNDefaultMath            int32 = 0 // TF32 where the device has it
	DNNTensorOpMath           int32 = 1
	DNNTensorOpMathConversion int32 = 2 // may round float32 to half
	DNNFMAMath                int32 = 3 // true float32

	DNNNotPropagateNaN int32 = 0
	DNNPropagateNaN    int32 = 1

	DNNPoolMax              int32 = 0
	DNNPoolAverageInclude   int32 = 1 // count_include_pad, PyTorch's default
	DNNPoolAverageExclude   int32 = 2
	DNNPoolMaxDeterministic int32 = 3

	DNNActivationSigmoid  int32 = 0
	DNNActivationReLU     int32 = 1
	DNNActivationTanh     int32 = 2
	DNNActivationIdentity int32 = 5

	DNNBatchNormSpatial           int32 = 1
	DNNBatchNormSpatialPersistent int32 = 2 // NHWC half types run much faster with it

	DNNBatchNormOnly          int32 = 0
	DNNBatchNormActivation    int32 = 1
	DNNBatchNormAddActivation int32 = 2

	DNNFwdImplicitGEMM        int32 = 0
	DNNFwdImplicitPrecompGEMM int32 = 1
	DNNFwdAlgoCount           int32 = 8
	DNNBwdDataAlgo1           int32 = 1
	DNNBwdDataAlgoCount       int32 = 6
	DNNBwdFilterAlgo1         int32 = 1
	DNNBwdFilterAlgoCount     int32 = 7
)

// DNNAlgoPerf is a cudnnConvolution*AlgoPerf_t; the three have one layout.
type DNNAlgoPerf struct {
	Algo         int32
	Status       DNNStatus // 0: it ran, or would
	Milliseconds float32   // -1 where nothing was measured
	Memory       uintptr   // workspace, bytes
	Determinism  int32     // 1: deterministic
	MathType     int32
	_            [3]int32
}
