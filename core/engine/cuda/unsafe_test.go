package cuda

import "unsafe"

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
