package driver

import "unsafe"

// BlasStatus is a cublasStatus_t. It is an error.
type BlasStatus int32

// BlasNotSupported says that no algorithm does what a descriptor asks for.
const BlasNotSupported BlasStatus = 15

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
	R64F  DataType = 1
	R16F  DataType = 2
	R8I   DataType = 3
	R32I  DataType = 10
	R16BF DataType = 14
)

// ComputeType is a cublasComputeType_t: what products are summed in.
type ComputeType int32

// Compute types.
const (
	Compute16F         ComputeType = 64
	Compute32F         ComputeType = 68
	Compute32FPedantic ComputeType = 69
	Compute64F         ComputeType = 70
	Compute32FFastTF32 ComputeType = 77
)

// Attributes of LtMatmulDesc; the comment is the value's C type.
const (
	LtDescPointerMode        int32 = 2  // int32: 0 host, 1 device
	LtDescTransA             int32 = 3  // int32: OpN, OpT
	LtDescTransB             int32 = 4  // int32
	LtDescEpilogue           int32 = 7  // uint32
	LtDescBiasPointer        int32 = 8  // DevicePtr; as long as the rows of D
	LtDescEpilogueAuxPointer int32 = 11 // DevicePtr; a bit per element for ReLU
	LtDescEpilogueAuxLD      int32 = 12 // int64; in elements (bits for ReLU), a multiple of 128 for ReLU
	LtDescEpilogueAuxType    int32 = 22 // int32: DataType
	LtDescBiasType           int32 = 26 // int32: DataType
)

// Values of LtDescTransA and LtDescTransB.
const (
	OpN int32 = 0
	OpT int32 = 1
)

// Epilogues. "Aux" stores or reads what backward needs: for ReLU a bit mask.
const (
	EpilogueDefault     uint32 = 1
	EpilogueReLU        uint32 = 2
	EpilogueBias        uint32 = 4
	EpilogueReLUBias    uint32 = 6
	EpilogueReLUAux     uint32 = 130
	EpilogueReLUAuxBias uint32 = 134
	EpilogueDReLU       uint32 = 136
	EpilogueDReLUBGrad  uint32 = 152
	EpilogueGELU        uint32 = 32 // by tanh
	EpilogueGELUBias    uint32 = 36
	EpilogueGELUAux     uint32 = 160
	EpilogueGELUAuxBias uint32 = 164
	EpilogueDGELU       uint32 = 192
	EpilogueDGELUBGrad  uint32 = 208
	EpilogueBGradA      uint32 = 256 // sums of A's rows into the bias pointer
	EpilogueBGradB      uint32 = 512 // sums of B's columns into the bias pointer
)

// Attributes of LtLayout.
const (
	LtLayoutType          int32 = 0 // uint32: DataType
	LtLayoutOrder         int32 = 1 // int32: LtOrderColumn, LtOrderRow
	LtLayoutRows          int32 = 2 // uint64
	LtLayoutCols          int32 = 3 // uint64
	LtLayoutLD            int32 = 4 // int64
	LtLayoutBatchCount    int32 = 5 // int32
	LtLayoutStridedOffset int32 = 6 // int64, in elements
)

// Values of LtLayoutOrder.
const (
	LtOrderColumn int32 = 0
	LtOrderRow    int32 = 1
)

// Attributes of LtPreference.
const (
	LtPrefMaxWorkspace int32 = 1 // uint64, bytes
	LtPrefReduction    int32 = 3 // uint32 mask of allowed split-k schemes
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
// column-major unless LtLayoutOrder says otherwise.
type BlasLt struct {
	Lib Library

	GetVersion func() uintptr               `dl:"cublasLtGetVersion"` // 120903 is 12.9.3
	Create     func(handle *LtHandle) error `dl:"cublasLtCreate"`
	Destroy    func(handle LtHandle) error  `dl:"cublasLtDestroy"`

	MatmulDescCreate       func(desc *LtMatmulDesc, compute ComputeType, scale DataType) error                                   `dl:"cublasLtMatmulDescCreate"`
	MatmulDescDestroy      func(desc LtMatmulDesc) error                                                                         `dl:"cublasLtMatmulDescDestroy"`
	MatmulDescSetAttribute func(desc LtMatmulDesc, attribute int32, value unsafe.Pointer, bytes uintptr) error                   `dl:"cublasLtMatmulDescSetAttribute"`
	MatmulDescGetAttribute func(desc LtMatmulDesc, attribute int32, value unsafe.Pointer, bytes uintptr, written *uintptr) error `dl:"cublasLtMatmulDescGetAttribute"`

	MatrixLayoutCreate       func(layout *LtLayout, t DataType, rows, cols uint64, ld int64) error             `dl:"cublasLtMatrixLayoutCreate"`
	MatrixLayoutDestroy      func(layout LtLayout) error                                                       `dl:"cublasLtMatrixLayoutDestroy"`
	MatrixLayoutSetAttribute func(layout LtLayout, attribute int32, value unsafe.Pointer, bytes uintptr) error `dl:"cublasLtMatrixLayoutSetAttribute"`

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
