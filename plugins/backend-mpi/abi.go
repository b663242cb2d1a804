package mpi

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// abi are the constants of an implementation's mpi.h.
type abi struct {
	world        handle // MPI_COMM_WORLD
	errorsReturn handle // MPI_ERRORS_RETURN
	inPlace      uintptr
	ignore       uintptr // MPI_STATUS_IGNORE
	types        map[tensor.DType]handle
	ops          map[sdk.ReduceOp]handle
}

// Constants that are the same in both.
const (
	threadFunneled = 1 // MPI_THREAD_FUNNELED
	success        = 0 // MPI_SUCCESS
)

// mpichABI has MPICH's constants. They are those of all libraries of the MPICH ABI
// Compatibility Initiative (https://www.mpich.org/abi).
var mpichABI = abi{
	world: 0x44000000, errorsReturn: 0x54000001, inPlace: ^uintptr(0), ignore: 1,
	types: map[tensor.DType]handle{
		tensor.F32: 0x4c00040a, tensor.F64: 0x4c00080b,
		tensor.I8: 0x4c000137, tensor.I16: 0x4c000238, tensor.I32: 0x4c000439, tensor.I64: 0x4c00083a, tensor.U8: 0x4c00013b,
	},
	ops: map[sdk.ReduceOp]handle{sdk.Sum: 0x58000003, sdk.Max: 0x58000001, sdk.Min: 0x58000002, sdk.Prod: 0x58000004},
}

// openMPIABI takes the addresses of Open MPI's predefined objects. Versions 3 to 5 have
// the same.
func openMPIABI(l *dl.Library) abi {
	of := func(name string) handle { return l.Symbol("ompi_mpi_" + name) }
	return abi{
		world: of("comm_world"), errorsReturn: of("errors_return"), inPlace: 1, ignore: 0,
		types: map[tensor.DType]handle{
			tensor.F32: of("float"), tensor.F64: of("double"),
			tensor.I8: of("int8_t"), tensor.I16: of("int16_t"), tensor.I32: of("int32_t"), tensor.I64: of("int64_t"), tensor.U8: of("uint8_t"),
		},
		ops: map[sdk.ReduceOp]handle{sdk.Sum: of("op_sum"), sdk.Max: of("op_max"), sdk.Min: of("op_min"), sdk.Prod: of("op_prod")},
	}
}

// complete reports objects that a library does not have.
func (l *library) complete() error {
	missing := l.world == 0 || l.errorsReturn == 0
	for _, h := range l.types {
		missing = missing || h == 0
	}
	for _, h := range l.ops {
		missing = missing || h == 0
	}
	if missing {
		return unavailable("%s (%s) lacks predefined objects of MPI that it should export; install a release from version 3 to 5", l.path, l.version)
	}
	return nil
}

// unit is a type of the same size as an element, for data that is only moved.
func (a *abi) unit(d tensor.DType) handle {
	switch d.Size() {
	case 1:
		return a.types[tensor.U8]
	case 2:
		return a.types[tensor.I16]
	case 4:
		return a.types[tensor.I32]
	case 8:
		return a.types[tensor.I64]
	}
	panic(fmt.Sprintf("mpi: elements of %d bytes", d.Size()))
}
