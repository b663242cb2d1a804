package nccl

import (
	"slices"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// launch has the arguments of NCCL's functions. own is the rank's part of a buffer that
// has one for each rank.
type launch struct {
	nccl    *driver.NCCL
	at, own driver.DevicePtr
	count   uintptr
	dtype   driver.NCCLDataType
	reduce  driver.NCCLRedOp
	root    int32
	comm    driver.Comm
	stream  driver.Stream
}

// launches are NCCL's functions for the collectives that this backend publishes.
var launches = map[sdk.Op]func(l launch) error{
	sdk.OpAllReduce: func(l launch) error {
		return l.nccl.AllReduce(l.at, l.at, l.count, l.dtype, l.reduce, l.comm, l.stream)
	},
	sdk.OpBroadcast: func(l launch) error {
		return l.nccl.Broadcast(l.at, l.at, l.count, l.dtype, l.root, l.comm, l.stream)
	},
	sdk.OpReduce: func(l launch) error {
		return l.nccl.Reduce(l.at, l.at, l.count, l.dtype, l.reduce, l.root, l.comm, l.stream)
	},
	sdk.OpAllGather: func(l launch) error {
		return l.nccl.AllGather(l.own, l.at, l.count, l.dtype, l.comm, l.stream)
	},
	sdk.OpReduceScatter: func(l launch) error {
		return l.nccl.ReduceScatter(l.at, l.own, l.count, l.dtype, l.reduce, l.comm, l.stream)
	},
	sdk.OpSend: func(l launch) error {
		return l.nccl.Send(l.at, l.count, l.dtype, l.root, l.comm, l.stream)
	},
	sdk.OpRecv: func(l launch) error {
		return l.nccl.Recv(l.at, l.count, l.dtype, l.root, l.comm, l.stream)
	},
}

// ops are the collectives for which NCCL has a function, and the barrier, which needs
// only the ranks' agreement.
func ops() []sdk.Op {
	return slices.DeleteFunc(sdk.Ops(), func(o sdk.Op) bool { return launches[o] == nil && o != sdk.OpBarrier })
}

// launch starts a collective in place in device memory.
func (b *Backend) launch(c *sdk.Collective, at driver.DevicePtr) error {
	ch := b.channels[c.Channel]
	return launches[c.Op](launch{
		nccl: ch.comm.nccl, comm: ch.comm.handle, stream: ch.stream,
		at: at, own: at + driver.DevicePtr(b.group.Rank*c.Count*c.DType.Size()),
		count: uintptr(c.Count), dtype: types[c.DType], reduce: reductions[c.Reduce], root: int32(c.Root),
	})
}

// parts returns the parts of the buffer that this rank sends and receives.
func (b *Backend) parts(c *sdk.Collective) (give, take span) {
	d, me := c.Op.Definition(), b.group.Rank
	all, size := span{0, len(c.Buf)}, c.Count*c.DType.Size()
	own := span{me * size, (me + 1) * size}
	switch c.Op {
	case sdk.OpSend:
		return all, span{}
	case sdk.OpRecv:
		return span{}, all
	}
	if d.Sends(me, c.Root) {
		give = all
		if d.Slice == contract.SendersPart {
			give = own
		}
	}
	if d.Receives(me, c.Root) {
		take = all
		if d.Slice == contract.ReceiversPart {
			take = own
		}
	}
	return give, take
}
