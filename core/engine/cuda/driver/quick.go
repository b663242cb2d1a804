package driver

import (
	"runtime"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
)

// quick replaces the functions that a step calls by ones without reflection and
// without garbage. Pointers that they are given have escaped to the heap: the
// fields are variables, which the compiler does not see through.
func (c *CUDA) quick(l *dl.Library) {
	current := l.Symbol("cuCtxSetCurrent")
	c.CtxSetCurrent = func(context Context) error {
		return cuStatus("cuCtxSetCurrent", dl.Call(current, 1, dl.Words{uintptr(context)}))
	}
	up := l.Symbol("cuMemcpyHtoDAsync_v2")
	c.MemcpyHtoDAsync = func(to DevicePtr, from unsafe.Pointer, bytes uintptr, stream Stream) error {
		code := dl.Call(up, 4, dl.Words{uintptr(to), uintptr(from), bytes, uintptr(stream)})
		runtime.KeepAlive(from)
		return cuStatus("cuMemcpyHtoDAsync", code)
	}
	down := l.Symbol("cuMemcpyDtoHAsync_v2")
	c.MemcpyDtoHAsync = func(to unsafe.Pointer, from DevicePtr, bytes uintptr, stream Stream) error {
		code := dl.Call(down, 4, dl.Words{uintptr(to), uintptr(from), bytes, uintptr(stream)})
		runtime.KeepAlive(to)
		return cuStatus("cuMemcpyDtoHAsync", code)
	}
	within := l.Symbol("cuMemcpyDtoDAsync_v2")
	c.MemcpyDtoDAsync = func(to, from DevicePtr, bytes uintptr, stream Stream) error {
		return cuStatus("cuMemcpyDtoDAsync", dl.Call(within, 4, dl.Words{uintptr(to), uintptr(from), bytes, uintptr(stream)}))
	}
	launch := l.Symbol("cuLaunchKernel")
	c.LaunchKernel = func(f Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream Stream, params, extra *unsafe.Pointer) error {
		code := dl.Call(launch, 11, dl.Words{uintptr(f), uintptr(gridX), uintptr(gridY), uintptr(gridZ), uintptr(blockX), uintptr(blockY), uintptr(blockZ),
			uintptr(sharedBytes), uintptr(stream), uintptr(unsafe.Pointer(params)), uintptr(unsafe.Pointer(extra))})
		runtime.KeepAlive(params)
		runtime.KeepAlive(extra)
		return cuStatus("cuLaunchKernel", code)
	}
	graphLaunch := l.Symbol("cuGraphLaunch")
	c.GraphLaunch = func(exec GraphExec, stream Stream) error {
		return cuStatus("cuGraphLaunch", dl.Call(graphLaunch, 2, dl.Words{uintptr(exec), uintptr(stream)}))
	}
	record := l.Symbol("cuEventRecord")
	c.EventRecord = func(event Event, stream Stream) error {
		return cuStatus("cuEventRecord", dl.Call(record, 2, dl.Words{uintptr(event), uintptr(stream)}))
	}
	wait := l.Symbol("cuStreamWaitEvent")
	c.StreamWaitEvent = func(stream Stream, event Event, flags uint32) error {
		return cuStatus("cuStreamWaitEvent", dl.Call(wait, 3, dl.Words{uintptr(stream), uintptr(event), uintptr(flags)}))
	}
	query := l.Symbol("cuEventQuery")
	c.EventQuery = func(event Event) error {
		return cuStatus("cuEventQuery", dl.Call(query, 1, dl.Words{uintptr(event)}))
	}
	streamQuery := l.Symbol("cuStreamQuery")
	c.StreamQuery = func(stream Stream) error {
		return cuStatus("cuStreamQuery", dl.Call(streamQuery, 1, dl.Words{uintptr(stream)}))
	}
}

func cuStatus(call string, code int32) error {
	switch CUResult(code) {
	case 0:
		return nil
	case NotReady: // the answer of every poll but the last
		return notReady
	}
	return &CallError{Call: call, Status: CUResult(code)}
}

var notReady error = &CallError{Call: "query", Status: NotReady}
