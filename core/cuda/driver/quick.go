package driver

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/dl"
)

// quick replaces the functions that a step calls often by ones without
// reflection.
func (c *CUDA) quick(l *dl.Library) {
	launch := l.Symbol("cuLaunchKernel")
	c.LaunchKernel = func(f Function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes uint32, stream Stream, params, extra *unsafe.Pointer) error {
		return cuStatus("cuLaunchKernel", dl.Call(launch, uintptr(f), uintptr(gridX), uintptr(gridY), uintptr(gridZ), uintptr(blockX), uintptr(blockY), uintptr(blockZ),
			uintptr(sharedBytes), uintptr(stream), uintptr(unsafe.Pointer(params)), uintptr(unsafe.Pointer(extra))))
	}
	graphLaunch := l.Symbol("cuGraphLaunch")
	c.GraphLaunch = func(exec GraphExec, stream Stream) error {
		return cuStatus("cuGraphLaunch", dl.Call(graphLaunch, uintptr(exec), uintptr(stream)))
	}
	record := l.Symbol("cuEventRecord")
	c.EventRecord = func(event Event, stream Stream) error {
		return cuStatus("cuEventRecord", dl.Call(record, uintptr(event), uintptr(stream)))
	}
	wait := l.Symbol("cuStreamWaitEvent")
	c.StreamWaitEvent = func(stream Stream, event Event, flags uint32) error {
		return cuStatus("cuStreamWaitEvent", dl.Call(wait, uintptr(stream), uintptr(event), uintptr(flags)))
	}
	query := l.Symbol("cuEventQuery")
	c.EventQuery = func(event Event) error { return cuStatus("cuEventQuery", dl.Call(query, uintptr(event))) }
	streamQuery := l.Symbol("cuStreamQuery")
	c.StreamQuery = func(stream Stream) error { return cuStatus("cuStreamQuery", dl.Call(streamQuery, uintptr(stream))) }
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
