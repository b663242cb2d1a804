//go:build !portable

package tcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// maxArenas is the most arenas of one rank; each costs every local peer a descriptor.
const maxArenas = 64

// listenLocal opens an abstract unix socket, which has no file, and returns the
// host's id.
func listenLocal() (net.Listener, string, error) {
	host, err := hostID()
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("unix", "@trainctl-tcp-"+rand.Text())
	return l, host, err
}

// hostID is equal for processes that can share memory: same boot of the same
// kernel, same user, and same network namespace, to which abstract sockets
// belong. A container with its own network counts as a host.
func hostID() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	netns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s/uid:%d", strings.TrimSpace(string(boot)), netns, os.Getuid()), nil
}

// A control page is a rank's part of the barriers of local ranks. Only its rank writes
// it, except for the counts of sleepers and the gate.
//
//	0     phase     the last barrier that the rank has reached, a futex word
//	64    sleepers  how many wait for the phase to change
//	128   calls     of two successive collectives
//	256   cpu       where the rank's plugin runs, see spread_linux.go
//	320   arrived   64 bits, of the first local rank: how often ranks have come to the gate
//	384   gate      of the first local rank: the last barrier that all ranks have reached, a futex word
//	448   waiting   of the first local rank: how many wait for the gate to change
//	4096  stages    small contributions to two successive collectives
//
// Two of each: a rank may start the next collective while another still reads its data
// of this one, but not the one after.
const (
	pageSleepers = 64
	pageCalls    = 128
	pageCPU      = 256
	pageArrived  = 320
	pageGate     = 384
	pageWaiting  = 448
	pageStages   = 4096
	pageSize     = pageStages + 2*stageSize
)

type page []byte

func (p page) phase() *atomic.Uint32      { return word(p, 0) }
func (p page) sleepers() *atomic.Uint32   { return word(p, pageSleepers) }
func (p page) cpu() *atomic.Uint32        { return word(p, pageCPU) }
func (p page) gate() *atomic.Uint32       { return word(p, pageGate) }
func (p page) waiting() *atomic.Uint32    { return word(p, pageWaiting) }
func (p page) arrived() *atomic.Uint64    { return (*atomic.Uint64)(unsafe.Pointer(&p[pageArrived])) }
func (p page) call(round uint32) []byte   { return p[pageCalls+64*(round&1):][:callSize] }
func (p page) stage(round uint32) []byte  { return p[pageStages+stageSize*(round&1):][:stageSize] }
func (p page) reached(phase uint32) bool  { return reached(p.phase(), phase) }
func word(p page, off int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&p[off])) }

func reached(word *atomic.Uint32, phase uint32) bool { return int32(word.Load()-phase) >= 0 }

// crowd is the number of local ranks from which on they meet at a gate: a rank that waits for
// each of the others is woken by many of them, and a host with so many ranks has few cores to spare.
const crowd = 8

// local is what the ranks of one host share.
type local struct {
	b      *Backend
	spin   shm.Spinner
	sleep  shm.Sleeper
	round  uint32              // counts collectives of all ranks
	pages  []page              // by rank, nil on other hosts
	gate   page                // of the first local rank; nil with few ranks
	count  uint64              // of local ranks
	arenas []map[uint32][]byte // arenas by rank and id
	mapped []*shm.Arena        // to close
	calls  []call              // of the running round, by rank
	bufs   [][]byte            // of the running round, by rank
	tiles  [][]byte
	rest   int // see spread
}

// shareMemory exchanges control pages and arenas with the other ranks of this host.
func (b *Backend) shareMemory(ctx context.Context) (*local, error) {
	w := b.group.WorldSize
	l := &local{b: b, sleep: shm.Sleeper{Shares: b.group.InProcess}, spin: shm.Spinner{For: shm.DefaultSpin()}, pages: make([]page, w), arenas: make([]map[uint32][]byte, w),
		calls: make([]call, w), bufs: make([][]byte, w), tiles: make([][]byte, w)}
	if err := l.exchange(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *local) exchange(ctx context.Context) error {
	b := l.b
	own, err := shm.New("control page", pageSize)
	if err != nil {
		return err
	}
	l.mapped = append(l.mapped, own)
	l.pages[b.group.Rank] = own.Bytes()
	l.arenas[b.group.Rank] = map[uint32][]byte{}
	for _, a := range b.arenas {
		l.arenas[b.group.Rank][a.ID] = a.Bytes()
	}
	deadline, _ := ctx.Deadline()
	for r, near := range b.topology.near {
		if !near {
			continue
		}
		b.conns[r][0].SetDeadline(deadline)
		if err := l.give(b.conns[r][0].(*net.UnixConn), own); err != nil {
			return fmt.Errorf("to rank %d: %w", r, err)
		}
	}
	for r, near := range b.topology.near {
		if !near {
			continue
		}
		if err := l.take(r, b.conns[r][0].(*net.UnixConn)); err != nil {
			return fmt.Errorf("from rank %d: %w", r, err)
		}
	}
	l.build()
	return nil
}

// build chooses the first local rank's page for the gate, if there is one.
func (l *local) build() {
	var first page
	for _, p := range slices.Backward(l.pages) {
		if p != nil {
			first, l.count = p, l.count+1
		}
	}
	if l.count >= crowd {
		l.gate = first
	}
}

// give sends the control page, tagged with the number of arenas, then those,
// tagged with their ids.
func (l *local) give(conn *net.UnixConn, own *shm.Arena) error {
	if err := shm.SendFile(conn, uint64(len(l.b.arenas)), own.File()); err != nil {
		return err
	}
	for _, a := range l.b.arenas {
		if err := shm.SendFile(conn, uint64(a.ID), a.File()); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) take(rank int, conn *net.UnixConn) error {
	n, mem, err := l.takeOne(conn)
	if err != nil {
		return err
	}
	if len(mem) != pageSize || n > maxArenas {
		return errors.New("it sent no control page of this protocol")
	}
	l.pages[rank], l.arenas[rank] = mem, map[uint32][]byte{}
	for range n {
		id, mem, err := l.takeOne(conn)
		if err != nil {
			return err
		}
		l.arenas[rank][uint32(id)] = mem
	}
	return nil
}

func (l *local) takeOne(conn *net.UnixConn) (tag uint64, mem []byte, err error) {
	tag, f, err := shm.RecvFile(conn)
	if err != nil {
		return 0, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, nil, errors.Join(err, f.Close())
	}
	a, err := shm.Map(f, int(info.Size()))
	if err != nil {
		return 0, nil, err
	}
	l.mapped = append(l.mapped, a)
	return tag, a.Bytes(), a.CloseFile() // one descriptor less for every peer
}

func (l *local) close() {
	for _, a := range l.mapped {
		a.Close()
	}
}

// maps reports whether c.Buf is in an arena that peers have mapped.
func (l *local) maps(c *sdk.Collective) bool {
	if c.Arena == nil || len(c.Buf) == 0 || c.Offset < 0 {
		return false
	}
	mem := l.arenas[l.b.group.Rank][c.Arena.ID]
	return c.Offset+len(c.Buf) <= len(mem) && &mem[c.Offset] == &c.Buf[0]
}

// barrier announces that this rank has reached a phase and waits for the others. A
// stall names all that have not.
func (l *local) barrier(phase uint32) error {
	me := l.b.group.Rank
	own := l.pages[me]
	if l.gate != nil {
		return l.meet(phase)
	}
	own.phase().Store(phase)
	if own.sleepers().Load() > 0 {
		l.wake()
	}
	for r, p := range l.pages {
		if r == me || p == nil {
			continue
		}
		if err := l.waitFor(p.phase(), p.sleepers(), phase); err != nil {
			return err
		}
	}
	return nil
}

// meet is barrier where there are many ranks: the last one opens the gate. So every rank sleeps
// and is woken once.
func (l *local) meet(phase uint32) error {
	g := l.gate
	last := g.arrived().Add(1)%l.count == 0
	l.pages[l.b.group.Rank].phase().Store(phase) // after it has arrived: a rank that dies before this is missed
	if !last {
		return l.waitFor(g.gate(), g.waiting(), phase)
	}
	g.gate().Store(phase)
	if g.waiting().Load() > 0 {
		shm.WakeAll(g.gate())
	}
	return nil
}

// waitFor waits until a word has reached a phase. Whoever changes the word wakes the sleepers.
func (l *local) waitFor(word, sleepers *atomic.Uint32, phase uint32) error {
	if l.spin.Until(func() bool { return reached(word, phase) }) {
		return nil
	}
	for !reached(word, phase) {
		seen := word.Load()
		sleepers.Add(1)
		if !reached(word, phase) {
			l.sleep.Sleep(word, seen, slice)
		}
		sleepers.Add(^uint32(0))
		if reached(word, phase) {
			break
		}
		if err := l.check(phase); err != nil {
			return err
		}
	}
	return nil
}

// check returns a reason to stop waiting: the deadline, Close, a rank that failed or
// died.
func (l *local) check(phase uint32) error {
	for r, p := range l.pages {
		if p != nil {
			l.b.op.agreed[r] = p.reached(phase)
		}
	}
	err := l.b.overdue()
	if err == nil {
		err = l.b.checkPeers()
	}
	var stall *sdk.StallError
	if errors.As(err, &stall) && len(stall.Missing) == 0 {
		for r, there := range l.b.op.agreed {
			if !there && l.pages[r] != nil {
				stall.Missing = append(stall.Missing, r)
			}
		}
	}
	return err
}

// wake wakes the ranks that wait for this one.
func (l *local) wake() {
	shm.WakeAll(l.pages[l.b.group.Rank].phase())
	if l.gate != nil {
		shm.WakeAll(l.gate.gate())
	}
}

// runLocal runs a collective if all ranks are on this host.
func (b *Backend) runLocal(c *sdk.Collective) error {
	l, staged := b.local, stages(c)
	l.round++
	own := l.pages[b.group.Rank]
	b.op.call.encode(own.call(l.round))
	large := len(c.Buf) >= spreadSize
	switch {
	case staged:
		copy(own.stage(l.round), l.contribution(c))
	case large:
		own.cpu().Store(currentCPU())
	}
	if err := l.barrier(2 * l.round); err != nil {
		return err
	}
	if err := l.compare(); err != nil {
		return err
	}
	switch {
	case len(c.Buf) == 0 || c.Op == sdk.OpBarrier:
		return nil
	case staged:
		l.finishStaged(c)
		return nil
	case !l.allShared():
		return b.exchangePayload(c)
	}
	if err := l.resolve(c); err != nil {
		return err
	}
	if large {
		l.spread()
	}
	l.inPlace(c)
	return l.barrier(2*l.round + 1)
}

// compare reads and compares the ranks' calls.
func (l *local) compare() error {
	for r, p := range l.pages {
		l.calls[r] = parseCall(p.call(l.round))
		if !l.b.op.call.matches(l.calls[r]) {
			return l.b.mismatch(r, l.calls[r])
		}
		l.b.op.agreed[r] = true
	}
	return nil
}

func (l *local) allShared() bool {
	for _, k := range l.calls {
		if !k.shared {
			return false
		}
	}
	return true
}

// contribution returns what this rank provides to the others.
func (l *local) contribution(c *sdk.Collective) []byte {
	d, me := c.Op.Definition(), l.b.group.Rank
	switch {
	case !d.Sends(me, c.Root):
		return nil
	case d.Slice == contract.SendersPart:
		return c.Slice(c.Buf, me, me)
	}
	return c.Buf
}

// finishStaged computes the result from the ranks' control pages.
func (l *local) finishStaged(c *sdk.Collective) {
	d, size, me := c.Op.Definition(), c.Count*c.DType.Size(), l.b.group.Rank
	if !d.Receives(me, c.Root) {
		return
	}
	mine := 0
	if d.Slice == contract.ReceiversPart {
		mine = me * size
	}
	for r, p := range l.pages {
		l.tiles[r] = p.stage(l.round)[mine:][:size]
		if !d.Reduces && d.Sends(r, c.Root) {
			copy(c.Slice(c.Buf, r, me), l.tiles[r])
		}
	}
	if d.Reduces {
		reduce.All(c.Reduce, c.DType, c.Slice(c.Buf, me, me), l.tiles)
	}
}

// resolve finds every rank's buffer in this process's mappings.
func (l *local) resolve(c *sdk.Collective) error {
	for r, k := range l.calls {
		var err error
		if l.bufs[r], err = l.buffer(r, k, len(c.Buf)); err != nil {
			return err
		}
	}
	return nil
}

// inPlace works directly on the other ranks' memory. Each rank writes only
// what no other rank reads or writes in this phase.
func (l *local) inPlace(c *sdk.Collective) {
	d, size, me := c.Op.Definition(), c.Count*c.DType.Size(), l.b.group.Rank
	switch {
	case d.Reduces && d.Slice == contract.ReceiversPart:
		l.reduceRange(c, me*size, (me+1)*size)
	case d.Reduces:
		chunk := tensor.RoundUp(ceilDiv(size, l.b.group.WorldSize), line)
		l.reduceRange(c, min(me*chunk, size), min((me+1)*chunk, size))
	case d.Receives(me, c.Root):
		for r, buf := range l.bufs {
			if r != me && d.Sends(r, c.Root) {
				copy(c.Slice(c.Buf, r, me), c.Slice(buf, r, me))
			}
		}
	}
}

// reduceRange reduces bytes [from, to) of all buffers tile by tile, for the ranks
// that receive them: this one if the parts are its own, else all that receive a result.
// No other rank accesses these bytes of any buffer, so the result is computed in the
// first rank's tile, which is fastest.
func (l *local) reduceRange(c *sdk.Collective, from, to int) {
	d := c.Op.Definition()
	for ; from < to; from += tileSize {
		end := min(from+tileSize, to)
		for r, buf := range l.bufs {
			l.tiles[r] = buf[from:end]
		}
		reduce.All(c.Reduce, c.DType, l.tiles[0], l.tiles)
		for r, tile := range l.tiles {
			if r != 0 && d.Receives(r, c.Root) && (d.Slice == contract.Whole || r == l.b.group.Rank) {
				copy(tile, l.tiles[0])
			}
		}
	}
}
