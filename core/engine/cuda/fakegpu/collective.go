package fakegpu

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// launch is one rank's call of a collective.
type launch struct {
	op            contract.Op
	send, receive []byte
	dtype         tensor.DType
	reduce        contract.ReduceOp
	root          int // the peer of a transfer
	done          bool
}

var dtypes = map[driver.NCCLDataType]tensor.DType{
	driver.NCCLInt8: tensor.I8, driver.NCCLUint8: tensor.U8, driver.NCCLInt32: tensor.I32, driver.NCCLInt64: tensor.I64,
	driver.NCCLFloat16: tensor.F16, driver.NCCLFloat32: tensor.F32, driver.NCCLFloat64: tensor.F64, driver.NCCLBFloat16: tensor.BF16,
}

var reductions = map[driver.NCCLRedOp]contract.ReduceOp{
	driver.NCCLSum: contract.Sum, driver.NCCLProd: contract.Prod, driver.NCCLMax: contract.Max, driver.NCCLMin: contract.Min, driver.NCCLAvg: contract.Avg,
}

// request is a collective as C programs ask for it.
type request struct {
	op            contract.Op
	send, receive driver.DevicePtr
	count         uintptr
	dtype         driver.NCCLDataType
	reduce        driver.NCCLRedOp
	root          int32
	comm          driver.Comm
	stream        driver.Stream
}

func (p *Process) fillCollectives(n *driver.NCCL) {
	type (
		ptr = driver.DevicePtr
		typ = driver.NCCLDataType
		red = driver.NCCLRedOp
	)
	n.AllReduce = func(s, r ptr, count uintptr, t typ, op red, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclAllReduce", request{contract.OpAllReduce, s, r, count, t, op, 0, c, on})
	}
	n.Broadcast = func(s, r ptr, count uintptr, t typ, root int32, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclBroadcast", request{contract.OpBroadcast, s, r, count, t, 0, root, c, on})
	}
	n.Reduce = func(s, r ptr, count uintptr, t typ, op red, root int32, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclReduce", request{contract.OpReduce, s, r, count, t, op, root, c, on})
	}
	n.AllGather = func(s, r ptr, count uintptr, t typ, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclAllGather", request{contract.OpAllGather, s, r, count, t, 0, 0, c, on})
	}
	n.ReduceScatter = func(s, r ptr, count uintptr, t typ, op red, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclReduceScatter", request{contract.OpReduceScatter, s, r, count, t, op, 0, c, on})
	}
	n.Send = func(s ptr, count uintptr, t typ, peer int32, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclSend", request{contract.OpSend, s, s, count, t, 0, peer, c, on})
	}
	n.Recv = func(r ptr, count uintptr, t typ, peer int32, c driver.Comm, on driver.Stream) error {
		return p.launch("ncclRecv", request{contract.OpRecv, r, r, count, t, 0, peer, c, on})
	}
}

func (p *Process) launch(call string, r request) error {
	m := p.m
	return m.replies(call, func() driver.NCCLResult {
		c, s := m.comms[r.comm], m.streams[r.stream]
		if c == nil || s == nil || c.owner != p.id || s.owner != p.id {
			return driver.NCCLInvalidArgument
		}
		l := p.resolve(r, uintptr(len(c.clique.members)))
		if l == nil {
			return driver.NCCLInvalidArgument
		}
		code := m.begin(r.comm, func(c *comm) {
			s.busy = nil
			s.queue = append(s.queue, m.work(c, l))
		})
		if code == driver.NCCLInProgress {
			s.busy = c
		}
		return code
	})
}

// resolve finds the memory of a call, nil if it is not there.
func (p *Process) resolve(r request, world uintptr) *launch {
	d := dtypes[r.dtype]
	send := r.count * uintptr(d.Size())
	receive := send
	switch r.op.Definition().Slice {
	case contract.SendersPart:
		receive *= world
	case contract.ReceiversPart:
		send *= world
	}
	l := &launch{op: r.op, send: p.at(r.send, send), receive: p.at(r.receive, receive), dtype: d, reduce: reductions[r.reduce], root: int(r.root)}
	if l.send == nil || l.receive == nil {
		return nil
	}
	return l
}

// work is a launch on its stream: it posts itself once, and is done when it
// has met the others.
func (m *Machine) work(c *comm, l *launch) func() bool {
	posted := m.absent[c.rank]
	return func() bool {
		if c.aborted {
			return true
		}
		if !posted {
			c.clique.posted[c.rank] = append(c.clique.posted[c.rank], l)
			posted = true
		}
		c.clique.meet(c.rank)
		return l.done
	}
}

// meet runs the first launch of a rank if all it needs are there.
func (q *clique) meet(rank int) {
	if len(q.posted[rank]) == 0 {
		return
	}
	l := q.posted[rank][0]
	ranks := []int{rank}
	if l.op.Definition().Kind == contract.OfPair {
		ranks = []int{rank, l.root}
	} else if len(q.posted) > 1 {
		ranks = ranks[:0]
		for r := range q.posted {
			ranks = append(ranks, r)
		}
	}
	for _, r := range ranks {
		if len(q.posted[r]) == 0 {
			return
		}
	}
	if !q.run(l, rank) {
		return
	}
	for _, r := range ranks {
		q.posted[r][0].done = true
		q.posted[r] = q.posted[r][1:]
	}
}

// run moves the bytes of a meeting. Two transfers that do not point at each
// other are none.
func (q *clique) run(l *launch, rank int) bool {
	if l.op.Definition().Kind == contract.OfPair {
		return q.transfer(l, rank)
	}
	all := make([]*launch, len(q.posted))
	for r := range all {
		all[r] = q.posted[r][0]
		if all[r].op != l.op || all[r].dtype != l.dtype || len(all[r].send) != len(l.send) {
			panic("fakegpu: ranks launch different collectives; a real NCCL would hang or return garbage")
		}
	}
	collect(l, all)
	return true
}

func (q *clique) transfer(l *launch, rank int) bool {
	o := q.posted[l.root][0]
	if o.op == l.op || o.op != contract.OpSend && o.op != contract.OpRecv || o.root != rank {
		return false
	}
	if l.op == contract.OpSend {
		copy(o.receive, l.send)
	} else {
		copy(l.receive, o.send)
	}
	return true
}

// collect computes from copies, since sources and results may be the same memory.
func collect(l *launch, all []*launch) {
	c, d := contract.Call{Op: l.op, Reduce: l.reduce, DType: l.dtype, Root: l.root}, l.op.Definition()
	c.Count = len(l.send) / c.DType.Size()
	if d.Slice == contract.ReceiversPart {
		c.Count /= len(all)
	}
	bufs := make([][]byte, len(all))
	for r, o := range all {
		bufs[r] = tensor.Aligned(c.Size(len(all)))
		if d.Slice == contract.SendersPart {
			copy(c.Slice(bufs[r], r, r), o.send)
		} else {
			copy(bufs[r], o.send)
		}
	}
	for r, result := range contracttest.Results(&c, bufs) {
		if contracttest.Receives(&c, r) {
			copy(all[r].receive, contracttest.Result(&c, r, result))
		}
	}
}
