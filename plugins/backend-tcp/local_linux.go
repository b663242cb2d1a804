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

	"github.com/trainctl/trainctl/core/base/cores"
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
//	512   cost      of the first local rank: the cost model that the hosts have agreed on
//	576   path      of the first local rank: how the running collective moves data between hosts
//	4096  stages    small contributions to two successive collectives; of the first local rank, with
//	                several hosts, results for the others as well
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
	pageCost     = 512
	pagePath     = 576
	pageStages   = 4096
	pageSize     = pageStages + 2*stageSize
)

type page []byte

func (p page) phase() *atomic.Uint32      { return word(p, 0) }
func (p page) sleepers() *atomic.Uint32   { return word(p, pageSleepers) }
func (p page) cpu() *atomic.Uint32        { return word(p, pageCPU) }
func (p page) gate() *atomic.Uint32       { return word(p, pageGate) }
func (p page) waiting() *atomic.Uint32    { return word(p, pageWaiting) }
func (p page) path() *atomic.Uint32       { return word(p, pagePath) }
func (p page) cost() []byte               { return p[pageCost:][:costSize] }
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
	round  uint32              // counts uses of the stages and calls
	phase  uint32              // the last barrier that this rank has come to
	began  uint32              // the first barrier of the running collective
	pages  []page              // by rank, nil on other hosts
	gate   page                // of the first local rank; nil with few ranks
	count  uint64              // of local ranks
	arenas []map[uint32][]byte // arenas by rank and id
	mapped []*shm.Arena        // to close
	calls  []call              // of the running round, by rank
	bufs   [][]byte            // of the running round, by rank
	tiles  [][]byte
	rest   int   // see spread
	taken  []int // cores with a plugin
	parcel parcel
	window []byte // see windows
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
	for r := range b.conns {
		if b.topology.near(r) && b.conns[r] != nil {
			b.conns[r][0].SetDeadline(deadline)
		}
	}
	mine := []shared{{uint64(len(b.arenas)), own}}
	for _, a := range b.arenas {
		mine = append(mine, shared{uint64(a.ID), a.Arena})
	}
	if b.leads() {
		err = l.handOut(mine)
	} else {
		err = l.register(mine)
	}
	if err != nil {
		return err
	}
	l.build()
	return own.CloseFile()
}

// shared is memory that ranks of one host map.
type shared struct {
	tag uint64
	mem *shm.Arena
}

// register gives this rank's memory to the leader and takes that of the others from it.
func (l *local) register(mine []shared) error {
	t := &l.b.topology
	leader := t.leader()
	conn := l.conn(leader)
	if err := give(conn, mine); err != nil {
		return fmt.Errorf("to rank %d: %w", leader, err)
	}
	for r, end := t.local(); r < end; r++ {
		if r == t.rank {
			continue
		}
		all, err := l.take(r, conn)
		if err = errors.Join(err, closeFiles(all)); err != nil {
			return fmt.Errorf("from rank %d: %w", leader, err)
		}
	}
	return nil
}

// handOut takes the memory of all ranks of this host and gives each that of the others.
func (l *local) handOut(mine []shared) (err error) {
	t := &l.b.topology
	first, end := t.local()
	all := make([][]shared, end-first)
	defer func() {
		for _, its := range all[1:] {
			err = errors.Join(err, closeFiles(its))
		}
	}()
	all[0] = mine
	for r := first + 1; r < end; r++ {
		if all[r-first], err = l.take(r, l.conn(r)); err != nil {
			return fmt.Errorf("from rank %d: %w", r, err)
		}
	}
	for r := first + 1; r < end; r++ {
		for q := range all {
			if q == r-first {
				continue
			}
			if err := give(l.conn(r), all[q]); err != nil {
				return fmt.Errorf("to rank %d: %w", r, err)
			}
		}
	}
	return nil
}

func (l *local) conn(rank int) *net.UnixConn { return l.b.conns[rank][0].(*net.UnixConn) }

// closeFiles leaves memory mapped without descriptors.
func closeFiles(all []shared) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.mem.CloseFile())
	}
	return err
}

// build chooses the first local rank's page for the gate, if there are many ranks.
func (l *local) build() {
	first, end := l.b.topology.local()
	if l.count = uint64(end - first); l.count >= crowd {
		l.gate = l.pages[first]
	}
}

// give sends a rank's control page, tagged with the number of its arenas, then those,
// tagged with their ids.
func give(conn *net.UnixConn, all []shared) error {
	for _, s := range all {
		if err := shm.SendFile(conn, s.tag, s.mem.File()); err != nil {
			return err
		}
	}
	return nil
}

// take maps a rank's control page and arenas. Their files are open.
func (l *local) take(rank int, conn *net.UnixConn) (all []shared, err error) {
	one, err := l.takeOne(conn)
	if err != nil {
		return nil, err
	}
	if len(one.mem.Bytes()) != pageSize || one.tag > maxArenas {
		return nil, errors.New("it sent no control page of this protocol")
	}
	l.pages[rank], l.arenas[rank] = one.mem.Bytes(), map[uint32][]byte{}
	all = append(all, one)
	for range one.tag {
		a, err := l.takeOne(conn)
		if err != nil {
			return all, err
		}
		l.arenas[rank][uint32(a.tag)] = a.mem.Bytes()
		all = append(all, a)
	}
	return all, nil
}

func (l *local) takeOne(conn *net.UnixConn) (s shared, err error) {
	tag, f, err := shm.RecvFile(conn)
	if err != nil {
		return s, err
	}
	info, err := f.Stat()
	if err != nil {
		return s, errors.Join(err, f.Close())
	}
	a, err := shm.Map(f, int(info.Size()))
	if err != nil {
		return s, err
	}
	l.mapped = append(l.mapped, a)
	return shared{tag, a}, nil
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

// barrier announces that this rank has come to the next phase and waits for the others. A
// stall names all that have not.
func (l *local) barrier() error {
	l.phase++
	phase, me := l.phase, l.b.group.Rank
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

// present reports whether another rank of this host has called the running collective.
func (l *local) present(rank int) bool { return l.pages[rank].reached(l.began) }

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
	if err == nil {
		err = l.deserted(phase)
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

// deserted returns the error of a rank of this host that has come to a phase and is gone although
// nobody can have passed it: another rank is still missing. Without this the others would wait for
// the missing one until their deadline.
func (l *local) deserted(phase uint32) error {
	for _, k := range l.b.links {
		if k.lost != nil && k.stream == 0 && l.b.topology.near(k.rank) && !l.passable(phase) {
			return l.b.broken(k.rank, k.lost)
		}
	}
	return nil
}

// passable reports whether a rank may have passed a phase.
func (l *local) passable(phase uint32) bool {
	if l.gate != nil {
		return reached(l.gate.gate(), phase)
	}
	return !slices.ContainsFunc(l.pages, func(p page) bool { return p != nil && !p.reached(phase) })
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
	l, staged, large := b.local, stages(c), len(c.Buf) >= spreadSize
	if large {
		l.pages[b.group.Rank].cpu().Store(uint32(cores.Current() + 1))
	}
	if err := l.announce(c, staged); err != nil {
		return err
	}
	switch {
	case len(c.Buf) == 0 || c.Op == sdk.OpBarrier:
		return nil
	case staged:
		l.finishStaged(c)
		return nil
	case !l.allShared():
		return l.inWindows(c, func(w *sdk.Collective) error { l.finishStaged(w); return nil })
	}
	if err := l.resolve(len(c.Buf)); err != nil {
		return err
	}
	if large {
		l.spread()
	}
	l.inPlace(c)
	return l.barrier()
}

// announce begins a collective: the ranks of this host compare their calls, and pass on small
// contributions.
func (l *local) announce(c *sdk.Collective, staged bool) error {
	l.round++
	l.began = l.phase + 1
	own := l.pages[l.b.group.Rank]
	l.b.op.call.encode(own.call(l.round))
	if staged {
		copy(own.stage(l.round), l.contribution(c))
	}
	if err := l.barrier(); err != nil {
		return err
	}
	return l.compare()
}

// compare reads and compares the calls of this host's ranks.
func (l *local) compare() error {
	for r, p := range l.pages {
		if p == nil {
			continue
		}
		l.calls[r] = parseCall(p.call(l.round))
		if !l.b.op.call.matches(l.calls[r]) {
			return l.b.mismatch(r, l.calls[r])
		}
		l.b.op.agreed[r] = true
	}
	return nil
}

// allShared reports whether the buffers of all ranks of this host are mapped by the others.
func (l *local) allShared() bool {
	first, end := l.b.topology.local()
	return !slices.ContainsFunc(l.calls[first:end], func(k call) bool { return !k.shared })
}

// inWindows runs a collective part by part through the stages, for buffers that other ranks
// cannot map. run ends the collective of one part, whose contributions are in the stages.
func (l *local) inWindows(c *sdk.Collective, run func(*sdk.Collective) error) error {
	d, world, size := c.Op.Definition(), l.b.group.WorldSize, c.DType.Size()
	parts := d.Parts(world)
	n := min(stageSize/(size*parts), maxInline/(l.b.topology.largest()*contributed(c, world)/c.Count))
	n = min(max(n, 1), c.Count)
	w := *c
	for at := 0; at < c.Count; at += n {
		w.Count = min(n, c.Count-at)
		if parts == 1 {
			w.Buf = c.Buf[at*size:][:w.Count*size]
		} else {
			w.Buf = l.load(c, &w, at)
		}
		l.round++
		copy(l.pages[l.b.group.Rank].stage(l.round), l.contribution(&w))
		if err := l.barrier(); err != nil {
			return err
		}
		if err := run(&w); err != nil {
			return err
		}
		if parts > 1 {
			eachPart(c, &w, at, func(whole, window []byte) { copy(whole, window) })
		}
	}
	return nil
}

// load copies a window of every part to memory of its own.
func (l *local) load(c, w *sdk.Collective, at int) []byte {
	if n := w.Count * c.DType.Size() * l.b.group.WorldSize; cap(l.window) < n {
		l.window = tensor.Aligned(n)
	} else {
		l.window = l.window[:n]
	}
	w.Buf = l.window
	eachPart(c, w, at, func(whole, window []byte) { copy(window, whole) })
	return w.Buf
}

// eachPart calls f with what a window has of every part, in the whole buffer and in the window's.
func eachPart(c, w *sdk.Collective, at int, f func(whole, window []byte)) {
	size := c.DType.Size()
	part, short := c.Count*size, w.Count*size
	for r := range len(w.Buf) / short {
		f(c.Buf[r*part+at*size:][:short], w.Buf[r*short:][:short])
	}
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

// resolve finds the buffers of this host's ranks in this process's mappings.
func (l *local) resolve(size int) error {
	for r, end := l.b.topology.local(); r < end; r++ {
		var err error
		if l.bufs[r], err = l.buffer(r, l.calls[r], size); err != nil {
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
