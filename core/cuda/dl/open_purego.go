//go:build ((linux && (amd64 || arm64)) || darwin) && !nogpu

package dl

import "github.com/ebitengine/purego"

func dlopen(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func dlsym(handle uintptr, name string) uintptr {
	address, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return address
}

// register makes the Go function that fn points to call a C function.
func register(fn any, address uintptr) { purego.RegisterFunc(fn, address) }

// Call calls a C function of integer and pointer arguments, at most 32, and
// returns its int result. It costs a fifth of a call through a bound field.
// Pointers are converted in the argument list itself; they stay valid until
// Call returns.
//
//go:uintptrescapes
func Call(address uintptr, args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(address, args...)
	return int32(r)
}
