package driver

import "unsafe"

// DNN is cuDNN 9: the descriptors and functions of its classic interface,
// which NVIDIA marks as deprecated and still ships (9.28), and the generic
// calls of the graph interface. Scalars (alpha, beta) are float32 in host
// memory, float64 for float64 tensors.
type DNN struct {
	Lib Library

	GetVersion         func() uintptr                              `dl:"cudnnGetVersion"` // 92800 is 9.28.0
	GetCudartVersion   func() uintptr                              `dl:"cudnnGetCudartVersion"`
	GetLastErrorString func(message *byte, size uintptr)           `dl:"cudnnGetLastErrorString,9.0"`
	Create             func(handle *DNNHandle) error               `dl:"cudnnCreate"`
	Destroy            func(handle DNNHandle) error                `dl:"cudnnDestroy"`
	SetStream          func(handle DNNHandle, stream Stream) error `dl:"cudnnSetStream"`

	CreateTensor       func(desc *DNNTensor) error                                                                                                         `dl:"cudnnCreateTensorDescriptor"`
	DestroyTensor      func(desc DNNTensor) error                                                                                                          `dl:"cudnnDestroyTensorDescriptor"`
	SetTensor4d        func(desc DNNTensor, format int32, t DNNType, n, c, h, w int32) error                                                               `dl:"cudnnSetTensor4dDescriptor"`
	SetTensor4dStrides func(desc DNNTensor, t DNNType, n, c, h, w, nStride, cStride, hStride, wStride int32) error                                         `dl:"cudnnSetTensor4dDescriptorEx"`
	AddTensor          func(handle DNNHandle, alpha unsafe.Pointer, aDesc DNNTensor, a DevicePtr, beta unsafe.Pointer, cDesc DNNTensor, c DevicePtr) error `dl:"cudnnAddTensor"`
	TransformTensor    func(handle DNNHandle, alpha unsafe.Pointer, xDesc DNNTensor, x DevicePtr, beta unsafe.Pointer, yDesc DNNTensor, y DevicePtr) error `dl:"cudnnTransformTensor"`

	CreateFilter  func(desc *DNNFilter) error                                           `dl:"cudnnCreateFilterDescriptor"`
	DestroyFilter func(desc DNNFilter) error                                            `dl:"cudnnDestroyFilterDescriptor"`
	SetFilter4d   func(desc DNNFilter, t DNNType, format int32, k, c, h, w int32) error `dl:"cudnnSetFilter4dDescriptor"`

	CreateConvolution         func(desc *DNNConvolution) error                                                                                 `dl:"cudnnCreateConvolutionDescriptor"`
	DestroyConvolution        func(desc DNNConvolution) error                                                                                  `dl:"cudnnDestroyConvolutionDescriptor"`
	SetConvolution2d          func(desc DNNConvolution, padH, padW, strideH, strideW, dilationH, dilationW, mode int32, compute DNNType) error `dl:"cudnnSetConvolution2dDescriptor"`
	SetConvolutionMathType    func(desc DNNConvolution, math int32) error                                                                      `dl:"cudnnSetConvolutionMathType"`
	SetConvolutionGroupCount  func(desc DNNConvolution, groups int32) error                                                                    `dl:"cudnnSetConvolutionGroupCount"`
	GetConvolution2dOutputDim func(desc DNNConvolution, x DNNTensor, w DNNFilter, n, c, h, width *int32) error                                 `dl:"cudnnGetConvolution2dForwardOutputDim"`

	// The Get functions guess and return at once; the Find functions run every
	// algorithm on the given memory, write into y (dx, dw) and take a while.

	GetForwardAlgorithm         func(handle DNNHandle, x DNNTensor, w DNNFilter, conv DNNConvolution, y DNNTensor, requested int32, returned *int32, results *DNNAlgoPerf) error                                                                                            `dl:"cudnnGetConvolutionForwardAlgorithm_v7"`
	GetBackwardDataAlgorithm    func(handle DNNHandle, w DNNFilter, dy DNNTensor, conv DNNConvolution, dx DNNTensor, requested int32, returned *int32, results *DNNAlgoPerf) error                                                                                          `dl:"cudnnGetConvolutionBackwardDataAlgorithm_v7"`
	GetBackwardFilterAlgorithm  func(handle DNNHandle, x, dy DNNTensor, conv DNNConvolution, dw DNNFilter, requested int32, returned *int32, results *DNNAlgoPerf) error                                                                                                    `dl:"cudnnGetConvolutionBackwardFilterAlgorithm_v7"`
	FindForwardAlgorithm        func(handle DNNHandle, xDesc DNNTensor, x DevicePtr, wDesc DNNFilter, w DevicePtr, conv DNNConvolution, yDesc DNNTensor, y DevicePtr, requested int32, returned *int32, results *DNNAlgoPerf, workspace DevicePtr, bytes uintptr) error     `dl:"cudnnFindConvolutionForwardAlgorithmEx"`
	FindBackwardDataAlgorithm   func(handle DNNHandle, wDesc DNNFilter, w DevicePtr, dyDesc DNNTensor, dy DevicePtr, conv DNNConvolution, dxDesc DNNTensor, dx DevicePtr, requested int32, returned *int32, results *DNNAlgoPerf, workspace DevicePtr, bytes uintptr) error `dl:"cudnnFindConvolutionBackwardDataAlgorithmEx"`
	FindBackwardFilterAlgorithm func(handle DNNHandle, xDesc DNNTensor, x DevicePtr, dyDesc DNNTensor, dy DevicePtr, conv DNNConvolution, dwDesc DNNFilter, dw DevicePtr, requested int32, returned *int32, results *DNNAlgoPerf, workspace DevicePtr, bytes uintptr) error `dl:"cudnnFindConvolutionBackwardFilterAlgorithmEx"`

	ForwardWorkspaceSize        func(handle DNNHandle, x DNNTensor, w DNNFilter, conv DNNConvolution, y DNNTensor, algo int32, bytes *uintptr) error   `dl:"cudnnGetConvolutionForwardWorkspaceSize"`
	BackwardDataWorkspaceSize   func(handle DNNHandle, w DNNFilter, dy DNNTensor, conv DNNConvolution, dx DNNTensor, algo int32, bytes *uintptr) error `dl:"cudnnGetConvolutionBackwardDataWorkspaceSize"`
	BackwardFilterWorkspaceSize func(handle DNNHandle, x, dy DNNTensor, conv DNNConvolution, dw DNNFilter, algo int32, bytes *uintptr) error           `dl:"cudnnGetConvolutionBackwardFilterWorkspaceSize"`

	ConvolutionForward func(handle DNNHandle, alpha unsafe.Pointer, xDesc DNNTensor, x DevicePtr, wDesc DNNFilter, w DevicePtr, conv DNNConvolution,
		algo int32, workspace DevicePtr, bytes uintptr, beta unsafe.Pointer, yDesc DNNTensor, y DevicePtr) error `dl:"cudnnConvolutionForward"`
	ConvolutionBiasActivationForward func(handle DNNHandle, alpha1 unsafe.Pointer, xDesc DNNTensor, x DevicePtr, wDesc DNNFilter, w DevicePtr, conv DNNConvolution,
		algo int32, workspace DevicePtr, bytes uintptr, alpha2 unsafe.Pointer, zDesc DNNTensor, z DevicePtr, biasDesc DNNTensor, bias DevicePtr,
		activation DNNActivation, yDesc DNNTensor, y DevicePtr) error `dl:"cudnnConvolutionBiasActivationForward"`
	ConvolutionBackwardData func(handle DNNHandle, alpha unsafe.Pointer, wDesc DNNFilter, w DevicePtr, dyDesc DNNTensor, dy DevicePtr, conv DNNConvolution,
		algo int32, workspace DevicePtr, bytes uintptr, beta unsafe.Pointer, dxDesc DNNTensor, dx DevicePtr) error `dl:"cudnnConvolutionBackwardData"`
	ConvolutionBackwardFilter func(handle DNNHandle, alpha unsafe.Pointer, xDesc DNNTensor, x DevicePtr, dyDesc DNNTensor, dy DevicePtr, conv DNNConvolution,
		algo int32, workspace DevicePtr, bytes uintptr, beta unsafe.Pointer, dwDesc DNNFilter, dw DevicePtr) error `dl:"cudnnConvolutionBackwardFilter"`
	ConvolutionBackwardBias func(handle DNNHandle, alpha unsafe.Pointer, dyDesc DNNTensor, dy DevicePtr, beta unsafe.Pointer, dbDesc DNNTensor, db DevicePtr) error `dl:"cudnnConvolutionBackwardBias"`

	CreateActivation   func(desc *DNNActivation) error                                                                                                                               `dl:"cudnnCreateActivationDescriptor"`
	DestroyActivation  func(desc DNNActivation) error                                                                                                                                `dl:"cudnnDestroyActivationDescriptor"`
	SetActivation      func(desc DNNActivation, mode, nan int32, coefficient float64) error                                                                                          `dl:"cudnnSetActivationDescriptor"`
	ActivationForward  func(handle DNNHandle, activation DNNActivation, alpha unsafe.Pointer, xDesc DNNTensor, x DevicePtr, beta unsafe.Pointer, yDesc DNNTensor, y DevicePtr) error `dl:"cudnnActivationForward"`
	ActivationBackward func(handle DNNHandle, activation DNNActivation, alpha unsafe.Pointer, yDesc DNNTensor, y DevicePtr, dyDesc DNNTensor, dy DevicePtr,
		xDesc DNNTensor, x DevicePtr, beta unsafe.Pointer, dxDesc DNNTensor, dx DevicePtr) error `dl:"cudnnActivationBackward"`

	CreatePooling   func(desc *DNNPooling) error                                                                                                                         `dl:"cudnnCreatePoolingDescriptor"`
	DestroyPooling  func(desc DNNPooling) error                                                                                                                          `dl:"cudnnDestroyPoolingDescriptor"`
	SetPooling2d    func(desc DNNPooling, mode, nan, height, width, padH, padW, strideH, strideW int32) error                                                            `dl:"cudnnSetPooling2dDescriptor"`
	PoolingForward  func(handle DNNHandle, pool DNNPooling, alpha unsafe.Pointer, xDesc DNNTensor, x DevicePtr, beta unsafe.Pointer, yDesc DNNTensor, y DevicePtr) error `dl:"cudnnPoolingForward"`
	PoolingBackward func(handle DNNHandle, pool DNNPooling, alpha unsafe.Pointer, yDesc DNNTensor, y DevicePtr, dyDesc DNNTensor, dy DevicePtr,
		xDesc DNNTensor, x DevicePtr, beta unsafe.Pointer, dxDesc DNNTensor, dx DevicePtr) error `dl:"cudnnPoolingBackward"`

	// Batch norm with an activation and a sum folded in. The reserve space
	// carries what backward needs from forward; mean and inverse standard
	// deviation are saved in float32.

	DeriveBatchNormTensor          func(derived, x DNNTensor, mode int32) error                                                                                    `dl:"cudnnDeriveBNTensorDescriptor"`
	BatchNormForwardWorkspaceSize  func(handle DNNHandle, mode, ops int32, x, z, y, scaleBias DNNTensor, activation DNNActivation, bytes *uintptr) error           `dl:"cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize"`
	BatchNormBackwardWorkspaceSize func(handle DNNHandle, mode, ops int32, x, y, dy, dz, dx, dScaleBias DNNTensor, activation DNNActivation, bytes *uintptr) error `dl:"cudnnGetBatchNormalizationBackwardExWorkspaceSize"`
	BatchNormReserveSpaceSize      func(handle DNNHandle, mode, ops int32, activation DNNActivation, x DNNTensor, bytes *uintptr) error                            `dl:"cudnnGetBatchNormalizationTrainingExReserveSpaceSize"`
	BatchNormForwardTraining       func(handle DNNHandle, mode, ops int32, alpha, beta unsafe.Pointer, xDesc DNNTensor, x DevicePtr, zDesc DNNTensor, z DevicePtr,
		yDesc DNNTensor, y DevicePtr, scaleBiasDesc DNNTensor, scale, bias DevicePtr, factor float64, runningMean, runningVar DevicePtr, epsilon float64,
		saveMean, saveInvStd DevicePtr, activation DNNActivation, workspace DevicePtr, workspaceBytes uintptr, reserve DevicePtr, reserveBytes uintptr) error `dl:"cudnnBatchNormalizationForwardTrainingEx"`
	BatchNormBackward func(handle DNNHandle, mode, ops int32, alphaData, betaData, alphaParam, betaParam unsafe.Pointer, xDesc DNNTensor, x DevicePtr,
		yDesc DNNTensor, y DevicePtr, dyDesc DNNTensor, dy DevicePtr, dzDesc DNNTensor, dz DevicePtr, dxDesc DNNTensor, dx DevicePtr,
		dScaleBiasDesc DNNTensor, scale, bias, dScale, dBias DevicePtr, epsilon float64, savedMean, savedInvStd DevicePtr, activation DNNActivation,
		workspace DevicePtr, workspaceBytes uintptr, reserve DevicePtr, reserveBytes uintptr) error `dl:"cudnnBatchNormalizationBackwardEx"`
	BatchNormForwardInference func(handle DNNHandle, mode int32, alpha, beta unsafe.Pointer, xDesc DNNTensor, x DevicePtr, yDesc DNNTensor, y DevicePtr,
		scaleBiasDesc DNNTensor, scale, bias, mean, variance DevicePtr, epsilon float64) error `dl:"cudnnBatchNormalizationForwardInference"`

	// The graph interface: descriptors of operations, engines and plans, all
	// set by attributes. Types, names and attribute types are cudnn_graph.h's numbers.

	BackendCreate       func(kind int32, desc *BackendDescriptor) error                                                              `dl:"cudnnBackendCreateDescriptor"`
	BackendDestroy      func(desc BackendDescriptor) error                                                                           `dl:"cudnnBackendDestroyDescriptor"`
	BackendFinalize     func(desc BackendDescriptor) error                                                                           `dl:"cudnnBackendFinalize"`
	BackendSetAttribute func(desc BackendDescriptor, name, kind int32, count int64, elements unsafe.Pointer) error                   `dl:"cudnnBackendSetAttribute"`
	BackendGetAttribute func(desc BackendDescriptor, name, kind int32, requested int64, count *int64, elements unsafe.Pointer) error `dl:"cudnnBackendGetAttribute"`
	BackendExecute      func(handle DNNHandle, plan, variants BackendDescriptor) error                                               `dl:"cudnnBackendExecute"`
}
