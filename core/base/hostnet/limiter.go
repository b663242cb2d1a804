package hostnet

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// Limiter bounds the number of open connections whose peers are not authenticated.
// Beyond the bound a new one replaces another one from the address that has most:
// one that has sent nothing yet, or else the oldest. So an attacker on one host does
// not block peers on others, and a peer that authenticates at once succeeds even
// with thousands of silent connections from its own address. It is safe for
// concurrent use.
type Limiter struct {
	most int

	mu      sync.Mutex
	waiting map[netip.Prefix]*callers
	total   int
}

// callers are the unauthenticated connections from one address, the oldest first:
// those that have sent nothing yet and those that have.
type callers struct{ silent, sending list.List }

func (c *callers) len() int { return c.silent.Len() + c.sending.Len() }

// Visit is the connection of a peer that is not authenticated yet.
type Visit struct {
	net.Conn
	limiter *Limiter
	from    netip.Prefix
	heard   atomic.Bool

	// Under the limiter's lock.
	list    *list.List // nil: it has left, or was closed
	element *list.Element
	evicted bool
}

// NewLimiter derives the bound from the process's limit of open files; it is at
// least `least`.
func NewLimiter(least int) *Limiter { return LimitTo(max(least, openFiles()/4)) }

// LimitTo returns a Limiter with a fixed bound.
func LimitTo(most int) *Limiter {
	return &Limiter{most: most, waiting: map[netip.Prefix]*callers{}}
}

// openFiles is the process's limit of descriptors, at most 8192.
func openFiles() int {
	const most = 8192
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > most {
		return most
	}
	return int(limit.Cur)
}

// enter registers a new connection. Read from it through the Visit until Leave.
// evicted reports whether another connection was closed for it.
func (l *Limiter) enter(conn net.Conn) (v *Visit, evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.most {
		l.evict()
		evicted = true
	}
	v = &Visit{Conn: conn, limiter: l, from: origin(conn.RemoteAddr())}
	if l.waiting[v.from] == nil {
		l.waiting[v.from] = &callers{}
	}
	v.join(&l.waiting[v.from].silent)
	l.total++
	return v, evicted
}

// Read implements net.Conn.
func (v *Visit) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if n > 0 && !v.heard.Swap(true) {
		v.limiter.heardOf(v)
	}
	return n, err
}

// Leave is called when the peer is authenticated or disconnected; it may be called
// again. It returns false for a visit that was closed to make room.
func (v *Visit) Leave() bool {
	l := v.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(v)
	return !v.evicted
}

func (v *Visit) join(at *list.List) { v.list, v.element = at, at.PushBack(v) }

func (l *Limiter) heardOf(v *Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.list != nil {
		v.list.Remove(v.element)
		v.join(&l.waiting[v.from].sending)
	}
}

func (l *Limiter) evict() {
	var largest *callers
	for _, c := range l.waiting {
		if largest == nil || c.len() > largest.len() {
			largest = c
		}
	}
	if largest == nil {
		return
	}
	from := &largest.silent
	if from.Len() == 0 {
		from = &largest.sending
	}
	v := from.Front().Value.(*Visit)
	l.remove(v)
	v.evicted = true
	v.Close()
}

func (l *Limiter) remove(v *Visit) {
	if v.list == nil {
		return
	}
	v.list.Remove(v.element)
	v.list = nil
	if l.waiting[v.from].len() == 0 {
		delete(l.waiting, v.from)
	}
	l.total--
}

// origin is the range of addresses that one host may use: an IPv4 address, or a
// whole IPv6 network, in which a host may choose its addresses.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{} // all of one kind, as on a unix socket
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
