package tcp

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// The probes of fit. The shortest of several times counts, because other processes only add to it.
const (
	probeSmall  = 64
	probeLarge  = 256 << 10
	probeReduce = 64 << 10
	smallLaps   = 12
	largeLaps   = 4
)

// fit measures the cost model with small and large all-reduces of the hosts' leaders, if the
// group uses sockets. All ranks then use the largest value of each figure.
func (b *Backend) fit(ctx context.Context) error {
	if b.inMemory() {
		return nil
	}
	var err error
	if b.leads() {
		var k Cost
		if k, err = b.measure(ctx); err == nil {
			b.cost, err = b.agree(ctx, k)
		}
	}
	if err == nil && b.local != nil {
		err = b.shareCost(ctx)
	}
	if err != nil {
		return b.fail(err)
	}
	b.limitSendBuffers()
	if b.group.Rank == 0 {
		b.log().Info("measured the network", "cost", b.cost.String())
	}
	return nil
}

// sendBuffer is enough for what is in flight in a network of short distances.
const sendBuffer = 256 << 10

// limitSendBuffers keeps the system from queueing megabytes for a network with little
// in flight: queued bytes leave the cache before they are copied again. For a network
// with more in flight than fits, the system's own tuning stays.
func (b *Backend) limitSendBuffers() {
	if 2*b.cost.Alpha/b.cost.Beta > sendBuffer {
		return
	}
	for _, l := range b.links {
		if !b.topology.near(l.rank) {
			_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer) // without the limit it is only slower
		}
	}
}

func (b *Backend) measure(ctx context.Context) (k Cost, err error) {
	small, err := b.timeAllReduce(ctx, probeSmall, smallLaps)
	if err != nil {
		return k, err
	}
	large, err := b.timeAllReduce(ctx, probeLarge, largeLaps)
	if err != nil {
		return k, err
	}
	others := float64(b.topology.hosts() - 1)
	k.Gamma = reduceCost()
	k.Alpha = max(small/(1+burst*(others-1)), 1)
	k.Beta = max((large-small)/(others*(probeLarge-probeSmall))-k.Gamma, 1e-3)
	return k, nil
}

// timeAllReduce returns the least time of a direct all-reduce, in nanoseconds. Its
// elements are those of reduceCost.
func (b *Backend) timeAllReduce(ctx context.Context, size, laps int) (least float64, err error) {
	c := &sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: size / 4, Bucket: -1, Buf: tensor.Aligned(size)}
	for i := range laps {
		b.begin(ctx, c)
		var err error
		if size <= maxInline {
			err = b.swap(c.Buf)
		} else {
			b.useLeaders()
			err = b.drive(b.algorithms.direct.start(b, c.Buf))
		}
		if err != nil {
			return 0, err
		}
		if t := float64(time.Since(b.op.start)); i == 0 || t < least {
			least = t
		}
	}
	return least, nil
}

// reduceCost measures gamma in this process alone.
func reduceCost() (least float64) {
	srcs := [][]byte{tensor.Aligned(probeReduce), tensor.Aligned(probeReduce)}
	for i := range largeLaps {
		start := time.Now()
		reduce.All(sdk.Sum, tensor.F32, srcs[0], srcs)
		if t := float64(time.Since(start)) / probeReduce; i == 0 || t < least {
			least = t
		}
	}
	return max(least, 1e-3)
}

// agree returns the largest value of each figure over all hosts.
func (b *Backend) agree(ctx context.Context, k Cost) (Cost, error) {
	mine := k.encode()
	b.begin(ctx, &sdk.Collective{Op: sdk.OpAllGather, DType: tensor.F64, Count: len(mine) / 8, Bucket: -1})
	if err := b.swap(mine); err != nil {
		return k, err
	}
	for h := range b.topology.hosts() {
		if h == b.topology.me {
			continue
		}
		its := parseCost(b.slot(h, 0))
		k = Cost{max(k.Alpha, its.Alpha), max(k.Beta, its.Beta), max(k.Gamma, its.Gamma)}
	}
	return k, nil
}

// swap sends the same number of bytes from every leader to every other, together with the calls.
func (b *Backend) swap(mine []byte) error {
	n := b.topology.hosts()
	p := &parcel{mine: mine, sizes: make([]int, n), wants: make([]bool, n)}
	for h := range n {
		p.sizes[h], p.wants[h] = len(mine), true
	}
	return b.tradeParcels(p, len(mine))
}

// tradeParcels sends parcels of at most the given size. They are in the hosts' slots afterwards.
func (b *Backend) tradeParcels(p *parcel, size int) error {
	b.useLeaders()
	b.room(b.topology.hosts(), size)
	b.op.attached, b.op.parcel = true, p
	return b.drive(noPayload{})
}

// costSize is the length of an encoded cost.
const costSize = 24

func (k Cost) encode() []byte {
	buf := tensor.Aligned(costSize)
	copy(tensor.View[float64](buf), []float64{k.Alpha, k.Beta, k.Gamma})
	return buf
}

func parseCost(buf []byte) Cost {
	x := tensor.View[float64](buf[:costSize])
	return Cost{x[0], x[1], x[2]}
}
