package driver

// The graph interface of cuDNN: kinds of descriptors, names of attributes and
// types of their values, with cudnn_graph.h's numbers.

// Kinds of descriptors.
const (
	DNNConvolutionDescriptor          int32 = 1
	DNNEngineDescriptor               int32 = 2
	DNNEngineConfigDescriptor         int32 = 3
	DNNEngineHeuristicsDescriptor     int32 = 4
	DNNExecutionPlanDescriptor        int32 = 5
	DNNOpConvForwardDescriptor        int32 = 10
	DNNOpConvBackwardFilterDescriptor int32 = 11
	DNNOpConvBackwardDataDescriptor   int32 = 12
	DNNOperationGraphDescriptor       int32 = 15
	DNNVariantPackDescriptor          int32 = 16
	DNNTensorDescriptor               int32 = 17
	DNNDevicePropDescriptor           int32 = 38 // since 9.8
)

// Types of attributes; the comment is an element's C type.
const (
	DNNTypeHandle          int32 = 0  // cudnnHandle_t
	DNNTypeDataType        int32 = 1  // int32
	DNNTypeInt64           int32 = 3  // int64
	DNNTypeFloat           int32 = 4  // float
	DNNTypePointer         int32 = 6  // void *
	DNNTypeConvolutionMode int32 = 7  // int32
	DNNTypeHeuristicMode   int32 = 8  // int32
	DNNTypeNumericalNote   int32 = 11 // int32
	DNNTypeDescriptor      int32 = 15 // cudnnBackendDescriptor_t
	DNNTypeChar            int32 = 24 // char
)

// Attributes of a convolution, all of them per dimension but the first two and the last.
const (
	DNNConvComputeType int32 = 100
	DNNConvMode        int32 = 101
	DNNConvDilations   int32 = 102
	DNNConvStrides     int32 = 103
	DNNConvPostPadding int32 = 104
	DNNConvPrePadding  int32 = 105
	DNNConvDimensions  int32 = 106
)

// Attributes of heuristics, engine configurations, engines and plans.
const (
	DNNHeuristicsMode   int32 = 200
	DNNHeuristicsGraph  int32 = 201
	DNNHeuristicsResult int32 = 202
	DNNHeuristicsDevice int32 = 204 // a DNNDevicePropDescriptor, since 9.8

	DNNConfigEngine int32 = 300

	DNNPlanHandle    int32 = 400
	DNNPlanConfig    int32 = 401
	DNNPlanWorkspace int32 = 402
	DNNPlanDevice    int32 = 407 // since 9.8

	DNNEngineNumericalNotes int32 = 1303
)

// Attributes of the three operations of a convolution.
const (
	DNNForwardAlpha int32 = 700
	DNNForwardBeta  int32 = 701
	DNNForwardConv  int32 = 702
	DNNForwardW     int32 = 703
	DNNForwardX     int32 = 704
	DNNForwardY     int32 = 705

	DNNBackwardDataAlpha int32 = 706
	DNNBackwardDataBeta  int32 = 707
	DNNBackwardDataConv  int32 = 708
	DNNBackwardDataW     int32 = 709
	DNNBackwardDataX     int32 = 710
	DNNBackwardDataY     int32 = 711

	DNNBackwardFilterAlpha int32 = 712
	DNNBackwardFilterBeta  int32 = 713
	DNNBackwardFilterConv  int32 = 714
	DNNBackwardFilterW     int32 = 715
	DNNBackwardFilterX     int32 = 716
	DNNBackwardFilterY     int32 = 717
)

// Attributes of operation graphs, tensors, variant packs and device properties.
const (
	DNNGraphHandle int32 = 800
	DNNGraphOps    int32 = 801

	DNNTensorAlignment  int32 = 900 // bytes
	DNNTensorType       int32 = 901
	DNNTensorDimensions int32 = 902 // n, c, h, w in whatever layout
	DNNTensorStrides    int32 = 903 // in elements
	DNNTensorID         int32 = 906

	DNNPackIDs       int32 = 1000
	DNNPackPointers  int32 = 1001
	DNNPackWorkspace int32 = 1003

	DNNDevicePropJSON int32 = 2702
)

// Modes of the heuristics.
const (
	DNNHeuristicsFallback int32 = 2 // engines that work, however slowly
	DNNHeuristicsA        int32 = 3
)

// Numerical notes of engines.
const (
	DNNNoteTensorCore       int32 = 0
	DNNNoteDownConvert      int32 = 1 // rounds its inputs
	DNNNoteReducedReduction int32 = 2 // sums in less than float32
	DNNNoteFFT              int32 = 3
	DNNNoteNondeterministic int32 = 4
	DNNNoteWinograd6x6      int32 = 7
	DNNNoteWinograd13x13    int32 = 8
)
