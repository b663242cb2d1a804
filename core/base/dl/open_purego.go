//go:build ((linux && (amd64 || (arm64 && gpu))) || darwin) && !nogpu

package dl

import (
	"sync"

	"github.com/ebitengine/purego"
)

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

// Words are the integer and pointer arguments of a call.
type Words [16]uintptr

var frames = sync.Pool{New: func() any { return new(Words) }}

// Call calls a C function with the first n words and returns its int result. It
// costs a tenth of a call through a bound field, and allocates nothing. What words
// point to lies on the heap or outside Go, and the caller keeps it alive.
func Call(address uintptr, n int, w Words) int32 {
	f := frames.Get().(*Words)
	*f = w
	r, _, _ := purego.SyscallN(address, f[:n]...)
	frames.Put(f)
	return int32(r)
}
