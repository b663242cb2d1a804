package driver

import "unsafe"

// NVRTCResult is an nvrtcResult. It is an error.
type NVRTCResult int32

// Compilation is the code of a program with errors; its log has the errors.
const Compilation NVRTCResult = 6

var nvrtcNames = map[int32]string{
	1: "OUT_OF_MEMORY", 2: "PROGRAM_CREATION_FAILURE", 3: "INVALID_INPUT", 4: "INVALID_PROGRAM", 5: "INVALID_OPTION",
	6: "COMPILATION", 7: "BUILTIN_OPERATION_FAILURE", 11: "INTERNAL_ERROR",
}

func (r NVRTCResult) Error() string { return named(nvrtcNames, "NVRTC_ERROR_", int32(r)) }

// Program is an nvrtcProgram.
type Program uintptr

// NVRTC compiles CUDA C++ at run time. It needs no GPU.
type NVRTC struct {
	Lib Library

	Version              func(major, minor *int32) error                                                         `dl:"nvrtcVersion"`
	GetNumSupportedArchs func(count *int32) error                                                                `dl:"nvrtcGetNumSupportedArchs,11.2"`
	GetSupportedArchs    func(archs *int32) error                                                                `dl:"nvrtcGetSupportedArchs,11.2"` // 90 for sm_90, ascending
	CreateProgram        func(program *Program, source, name *byte, headers int32, contents, names **byte) error `dl:"nvrtcCreateProgram"`
	DestroyProgram       func(program *Program) error                                                            `dl:"nvrtcDestroyProgram"`
	CompileProgram       func(program Program, n int32, options **byte) error                                    `dl:"nvrtcCompileProgram"`
	GetProgramLogSize    func(program Program, bytes *uintptr) error                                             `dl:"nvrtcGetProgramLogSize"` // with the final zero
	GetProgramLog        func(program Program, log *byte) error                                                  `dl:"nvrtcGetProgramLog"`
	GetCUBINSize         func(program Program, bytes *uintptr) error                                             `dl:"nvrtcGetCUBINSize,11.1"` // 0 for a virtual architecture
	GetCUBIN             func(program Program, cubin unsafe.Pointer) error                                       `dl:"nvrtcGetCUBIN,11.1"`
	GetPTXSize           func(program Program, bytes *uintptr) error                                             `dl:"nvrtcGetPTXSize"`
	GetPTX               func(program Program, ptx unsafe.Pointer) error                                         `dl:"nvrtcGetPTX"`
}
