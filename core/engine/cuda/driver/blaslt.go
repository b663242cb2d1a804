package driver

import "unsafe"

// BlasStatus is a cublasStatus_t. It is an error.
type BlasStatus int32

// Statuses with which heuristics refuse.
const (
	BlasInvalidValue BlasStatus = 7  // a value that this version does not know, or not together with the others
	BlasArchMismatch BlasStatus = 8  // something that this GPU lacks
	BlasNotSupported BlasStatus = 15 // no algorithm does what a descriptor asks for
)

var blasNames = map[int32]string{
	1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
	13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}

func (s BlasStatus) Error() string { return named(blasNames, "CUBLAS_STATUS_", int32(s)) }

// Handles of cuBLASLt.
type (
	LtHandle     uintptr
	LtMatmulDesc uintptr
	LtLayout     uintptr
	LtPreference uintptr
)

// DataType is a cudaDataType, the element type of a matrix.
type DataType int32

// Element types.
const (
	R32F  DataType = 0
	R16F  DataType = 2
	R16BF DataType = 14
)

// ComputeType is a cublasComputeType_t: what products are summed in.
type ComputeType int32

// Compute types.
const (
	Compute32F         ComputeType = 68
	Compute32FFastTF32 ComputeType = 77
)

// Attributes of LtMatmulDesc; the comment is the value's C type.
const (
	LtDescTransA             int32 = 3  // int32: OpN, OpT
	LtDescTransB             int32 = 4  // int32
	LtDescEpilogue           int32 = 7  // uint32
	LtDescBiasPointer        int32 = 8  // DevicePtr; as long as the rows of D
	LtDescEpilogueAuxPointer int32 = 11 // DevicePtr; a bit per element for ReLU
	LtDescEpilogueAuxLD      int32 = 12 // int64; in elements (bits for ReLU), a multiple of 128 for ReLU
)

// Values of LtDescTransA and LtDescTransB.
const (
	OpN int32 = 0
	OpT int32 = 1
)

// Epilogues. "Aux" stores or reads what backward needs: for ReLU a bit mask.
const (
	EpilogueDefault uint32 = 1
	EpilogueReLU    uint32 = 2
	EpilogueBias    uint32 = 4
	EpilogueReLUAux uint32 = 130
	EpilogueDReLU   uint32 = 136
	EpilogueBGradB  uint32 = 512 // sums of B's columns into the bias pointer
)

// Attributes of LtPreference.
const (
	LtPrefMaxWorkspace int32 = 1 // uint64, bytes
	LtPrefMinAlignA    int32 = 5 // uint32, bytes
	LtPrefMinAlignB    int32 = 6
	LtPrefMinAlignC    int32 = 7
	LtPrefMinAlignD    int32 = 8
)

// LtAlgo is a cublasLtMatmulAlgo_t: opaque, and plain bytes, so it may be
// copied and stored for the same library version.
type LtAlgo struct{ Data [8]uint64 }

// LtHeuristicResult is a cublasLtMatmulHeuristicResult_t.
type LtHeuristicResult struct {
	Algo          LtAlgo
	WorkspaceSize uintptr
	State         BlasStatus // 0: usable
	WavesCount    float32
	_             [4]int32
}

// BlasLt is cuBLASLt: matrix products with fused epilogues. Matrices are
// column-major.
type BlasLt struct {
	Lib Library

	GetVersion func() uintptr               `dl:"cublasLtGetVersion"` // 120903 is 12.9.3
	Create     func(handle *LtHandle) error `dl:"cublasLtCreate"`
	Destroy    func(handle LtHandle) error  `dl:"cublasLtDestroy"`

	MatmulDescCreate       func(desc *LtMatmulDesc, compute ComputeType, scale DataType) error                 `dl:"cublasLtMatmulDescCreate"`
	MatmulDescDestroy      func(desc LtMatmulDesc) error                                                       `dl:"cublasLtMatmulDescDestroy"`
	MatmulDescSetAttribute func(desc LtMatmulDesc, attribute int32, value unsafe.Pointer, bytes uintptr) error `dl:"cublasLtMatmulDescSetAttribute"`

	MatrixLayoutCreate  func(layout *LtLayout, t DataType, rows, cols uint64, ld int64) error `dl:"cublasLtMatrixLayoutCreate"`
	MatrixLayoutDestroy func(layout LtLayout) error                                           `dl:"cublasLtMatrixLayoutDestroy"`

	MatmulPreferenceCreate       func(pref *LtPreference) error                                                      `dl:"cublasLtMatmulPreferenceCreate"`
	MatmulPreferenceDestroy      func(pref LtPreference) error                                                       `dl:"cublasLtMatmulPreferenceDestroy"`
	MatmulPreferenceSetAttribute func(pref LtPreference, attribute int32, value unsafe.Pointer, bytes uintptr) error `dl:"cublasLtMatmulPreferenceSetAttribute"`

	// AlgoGetHeuristic writes up to requested results, best first.
	AlgoGetHeuristic func(handle LtHandle, desc LtMatmulDesc, a, b, c, d LtLayout, pref LtPreference, requested int32, results *LtHeuristicResult, returned *int32) error `dl:"cublasLtMatmulAlgoGetHeuristic"`

	// Matmul is D = epilogue(alpha·op(A)·op(B) + beta·C). The scalars are of
	// the descriptor's scale type, read before it returns.
	Matmul func(handle LtHandle, desc LtMatmulDesc, alpha unsafe.Pointer, a DevicePtr, aLayout LtLayout, b DevicePtr, bLayout LtLayout,
		beta unsafe.Pointer, c DevicePtr, cLayout LtLayout, d DevicePtr, dLayout LtLayout,
		algo *LtAlgo, workspace DevicePtr, workspaceBytes uintptr, stream Stream) error `dl:"cublasLtMatmul"`
}
