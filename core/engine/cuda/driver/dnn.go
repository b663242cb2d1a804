package driver

import "unsafe"

// DNN is cuDNN 9 with its graph interface: descriptors of operations, engines
// and plans, all set by attributes. Types, names and attribute types are
// cudnn_graph.h's numbers.
type DNN struct {
	Lib Library

	GetVersion         func() uintptr                              `dl:"cudnnGetVersion"` // 92800 is 9.28.0
	GetLastErrorString func(message *byte, size uintptr)           `dl:"cudnnGetLastErrorString,9.0"`
	Create             func(handle *DNNHandle) error               `dl:"cudnnCreate"`
	Destroy            func(handle DNNHandle) error                `dl:"cudnnDestroy"`
	SetStream          func(handle DNNHandle, stream Stream) error `dl:"cudnnSetStream"`

	BackendCreate       func(kind int32, desc *BackendDescriptor) error                                                              `dl:"cudnnBackendCreateDescriptor"`
	BackendDestroy      func(desc BackendDescriptor) error                                                                           `dl:"cudnnBackendDestroyDescriptor"`
	BackendFinalize     func(desc BackendDescriptor) error                                                                           `dl:"cudnnBackendFinalize"`
	BackendSetAttribute func(desc BackendDescriptor, name, kind int32, count int64, elements unsafe.Pointer) error                   `dl:"cudnnBackendSetAttribute"`
	BackendGetAttribute func(desc BackendDescriptor, name, kind int32, requested int64, count *int64, elements unsafe.Pointer) error `dl:"cudnnBackendGetAttribute"`
	BackendExecute      func(handle DNNHandle, plan, variants BackendDescriptor) error                                               `dl:"cudnnBackendExecute"`
}
