package driver

import "errors"

// faults are the codes after which a context does no more work: every later
// call returns the same one (the CUDA driver API's reference on CUresult). They
// are those of work on the device, so the call that first returns one is seldom
// to blame.
var faults = map[CUResult]string{
	4:   "the driver is shutting down",
	46:  "the GPU is busy or unavailable",
	214: "a memory error that ECC could not correct: the GPU needs a reset, and a replacement if it happens again",
	220: "an NVLink error that could not be corrected",
	226: "a hardware error that was contained to this process",
	700: "a kernel read or wrote memory outside its allocations",
	702: "a kernel ran longer than the driver allows on a GPU with a display",
	709: "the context was destroyed",
	710: "an assertion in a kernel failed",
	714: "the hardware found a broken call stack in a kernel",
	715: "a kernel executed an illegal instruction",
	716: "a kernel read or wrote at an address that is not aligned",
	717: "a kernel used an address of another kind of memory",
	718: "a kernel's program counter is outside its code",
	719: "a kernel failed at launch or while it ran",
	721: "a kernel left tensor memory allocated",
	806: "the MPS server cannot be reached",
	810: "another MPS client caused MPS to end this one",
	999: "the driver does not know the cause; often the GPU has fallen off the bus",
}

// Fault is the code in an error that says that the context is of no use any
// more, and what it means; "" for errors that the next call may be free of.
func Fault(err error) (code CUResult, meaning string) {
	if !errors.As(err, &code) {
		return 0, ""
	}
	return code, faults[code]
}
