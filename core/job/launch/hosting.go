package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/rank"
)

// hosting keeps the ranks' store of a job with etcd on some node. Every node watches the host, and
// when it is gone, one of them hosts the store from then on, with the group and the values that the
// last host has left in etcd. Ranks connect to the new store and form another group there.
type hosting struct {
	l     *launcher
	job   *etcd.Job
	open  func(ctx context.Context, dead []int) (*rank.Server, error) // ctx bounds the call alone
	dial  rank.DialOptions
	doubt time.Duration // for a host whose port is closed to answer through etcd
	moves chan move

	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	server *rank.Server // nil: another node hosts
}

// move says where the ranks' store is from now on, or why this node has none.
type move struct {
	host string
	port int
	mine bool
	why  *stopReason
}

// openEtcd registers this launcher, and makes it the host if there is none. It reports whether this
// node begins the job.
func (n *nodes) openEtcd(ctx context.Context, host string, s *sink) (begins bool, err error) {
	c := *n.o.Etcd
	c.Secret = n.o.Secret
	if n.o.Warn == nil {
		n.o.Warn = func(source, message string) { s.printf("warning: %s: %s", source, message) }
	}
	n.etcd, err = etcd.Connect(ctx, c, n.o.RunID, n.o.LostAfter, func(line string) { n.o.Warn("etcd", line) })
	if err != nil {
		return false, err
	}
	n.meeting = n.etcd
	n.o.NodeRank, err = n.etcd.Register(ctx, n.o.Nodes, host, func(addr string) bool { return answers(ctx, addr, n.dialOptions()) })
	if err != nil {
		return false, err
	}
	h, err := n.etcd.Host(ctx)
	if err == nil && h.Rev == 0 {
		begins, err = n.etcd.Campaign(ctx, h)
	}
	n.hosts = begins
	return begins, err
}

// dialOptions are those of a launcher that only looks at the ranks' store.
func (n *nodes) dialOptions() rank.DialOptions {
	return rank.DialOptions{RunID: n.o.RunID, Secret: n.o.ranksSecret(0)}
}

// answerTime is how long a store may take to answer before another node hosts it.
const answerTime = 3 * time.Second

// doubtTime is how long the launcher that hosts the store may take to answer through etcd when its
// port refuses connections.
const doubtTime = time.Second

// answers reports whether the job's store is at an address.
func answers(ctx context.Context, addr string, o rank.DialOptions) (there bool) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_ = rank.Observe(ctx, addr, o, func() { there = true; cancel() })
	return there
}

// openHosted is openStore of a job with etcd.
func (l *launcher) openHosted(ctx context.Context, s *groupStore, o rank.StoreOptions) error {
	job := l.nodes.etcd
	at, err := job.Local()
	if err != nil {
		return err
	}
	h := &hosting{l: l, job: job, dial: l.nodes.dialOptions(), doubt: doubtTime, moves: make(chan move)}
	h.open = func(ctx context.Context, dead []int) (*rank.Server, error) {
		o.Journal, o.Dead = journal{job, ctx}, dead
		return rank.ListenStore(net.JoinHostPort(hostnet.LocalHost(at), "0"), o)
	}
	s.hosting = h
	cur, err := h.first(ctx, at)
	if err != nil {
		return fmt.Errorf("the job's store: %w", err)
	}
	if s.host, s.port, err = splitAddr(cur.Addr); err != nil {
		return err
	}
	life, end := context.WithCancel(context.Background())
	h.end = end
	h.work.Go(func() { h.follow(life, cur, at) })
	return nil
}

// journal is the job's journal for a server that reads the records as it opens. Until it is open,
// only ctx can end it: while etcd is unreachable, the launcher would wait for it at the end.
type journal struct {
	*etcd.Job
	opening context.Context
}

func (j journal) Records(context.Context) (map[string][]byte, error) { return j.Job.Records(j.opening) }

// begun is how the node that begins the job describes itself; nil if that node is gone before it
// did, and this one begins the job in its place.
func (n *nodes) begun(ctx context.Context) ([]byte, error) {
	if n.etcd == nil {
		return n.meeting.Get(ctx, firstNode)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if first, set, err := n.etcd.Look(ctx, firstNode); set || err != nil || n.hosts {
			return first, err
		}
		h, err := n.etcd.Host(ctx)
		if err != nil {
			return nil, err
		}
		there, err := n.etcd.Registered(ctx, h)
		if err == nil && !there && h.Rev > 0 && h.Addr == "" {
			if n.hosts, err = n.etcd.Campaign(ctx, h); n.hosts {
				continue // to look once more: it may have described itself
			}
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("node %d has not begun the job: %w", h.Node, ctx.Err())
		}
	}
}

// first is the host at the start of an attempt. If it is gone before its store is there, another node
// takes its place.
func (h *hosting) first(ctx context.Context, at string) (cur etcd.Host, err error) {
	if h.l.nodes.hosts {
		return h.serve(ctx, at, nil)
	}
	for cur, err = h.job.Host(ctx); err == nil && cur.Addr == ""; {
		if cur.Rev == 0 {
			cur, err = h.job.Next(ctx, cur)
		} else {
			cur, err = h.next(ctx, cur, at)
		}
	}
	h.l.nodes.hosts = err == nil && h.job.Mine(cur)
	return cur, err
}

// serve opens the store on this node and announces it.
func (h *hosting) serve(ctx context.Context, at string, dead []int) (cur etcd.Host, err error) {
	server, err := h.open(ctx, dead)
	if err != nil {
		return cur, err
	}
	h.set(server)
	if err := h.job.Announce(ctx, net.JoinHostPort(at, strconv.Itoa(server.Addr().Port))); err != nil {
		h.set(nil)
		return cur, err
	}
	return h.job.Host(ctx)
}

// set makes a server this node's, nil if another node hosts.
func (h *hosting) set(s *rank.Server) {
	h.mu.Lock()
	old := h.server
	h.server = s
	h.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// hosted is this node's server, nil if another node hosts.
func (h *hosting) hosted() *rank.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

// stay ends the search for other hosts: the attempt ends.
func (h *hosting) stay() {
	if h != nil {
		h.end()
	}
}

func (h *hosting) close() {
	if h == nil {
		return
	}
	if h.end != nil {
		h.end()
	}
	h.work.Wait()
	h.set(nil)
}

// follow sends the moves of the store until ctx ends.
func (h *hosting) follow(ctx context.Context, cur etcd.Host, at string) {
	for {
		next, err := h.next(ctx, cur, at)
		if ctx.Err() != nil {
			return
		}
		switch {
		case usererr.Problems(err) != nil: // it would fail again
			h.send(ctx, move{why: h.l.nodes.lost(0, fmt.Errorf("the job's store: %w", err))})
			return
		case err != nil:
			h.l.sink.printf("the job's store: %v", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		if !h.job.Mine(next) {
			h.set(nil)
		}
		if m, changed := h.moveTo(ctx, cur, next); changed {
			h.send(ctx, m)
		}
		cur = next
	}
}

// send passes a move to the attempt, unless that ends.
func (h *hosting) send(ctx context.Context, m move) {
	select {
	case h.moves <- m:
	case <-ctx.Done():
	}
}

// errOver is why a node ends whose job is over.
var errOver = errors.New("the job has ended without this node")

// moveTo describes the change from one host to another.
func (h *hosting) moveTo(ctx context.Context, cur, next etcd.Host) (m move, changed bool) {
	var err error
	switch {
	case next.Rev == 0: // at the end of a job the ranks of this node end at the same time
		select {
		case <-ctx.Done():
		case <-time.After(h.l.o.LostAfter):
		}
		return move{why: h.l.nodes.lost(0, errOver)}, true
	case next.Addr == "" || next.Addr == cur.Addr:
		return m, false
	}
	m.mine = h.job.Mine(next)
	if m.host, m.port, err = splitAddr(next.Addr); err != nil {
		return m, false
	}
	if !m.mine {
		h.l.sink.printf("node %d hosts the job's store now, at %s", next.Node, next.Addr)
	}
	return m, true
}

// next waits for another host, which is this node if the current one is gone and no other node was
// faster.
func (h *hosting) next(ctx context.Context, cur etcd.Host, at string) (etcd.Host, error) {
	if cur.Rev == 0 {
		<-ctx.Done()
		return cur, ctx.Err()
	}
	switch server := h.hosted(); {
	case h.job.Mine(cur) && server != nil:
		return h.nextAfter(ctx, cur, server)
	case h.job.Mine(cur):
		return h.serve(ctx, at, nil)
	}
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	h.work.Go(func() {
		if h.dies(watched, cur) {
			close(gone)
		}
	})
	type answer struct {
		host etcd.Host
		err  error
	}
	changed := make(chan answer, 1)
	h.work.Go(func() {
		next, err := h.job.Next(watched, cur)
		changed <- answer{next, err}
	})
	select {
	case a := <-changed:
		return a.host, a.err
	case <-gone:
	}
	if won, err := h.job.Campaign(ctx, cur); err != nil || !won {
		a := <-changed
		return a.host, errors.Join(err, a.err)
	}
	h.l.sink.printf("node %d, which hosted the job's store, is gone; this node hosts it now", cur.Node)
	return h.serve(ctx, at, h.l.placesOf(cur.Node))
}

// nextAfter waits until another node hosts instead of this one, or until this one cannot record the
// state of its server any more.
func (h *hosting) nextAfter(ctx context.Context, cur etcd.Host, server *rank.Server) (etcd.Host, error) {
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	h.work.Go(func() {
		select {
		case <-server.Done():
			if err := server.Err(); err != nil && !errors.Is(err, etcd.ErrDeposed) {
				cancel()
			}
		case <-watched.Done():
		}
	})
	next, err := h.job.Next(watched, cur)
	if err != nil && ctx.Err() == nil && server.Err() != nil {
		return cur, server.Err()
	}
	return next, err
}

// placesOf are the places of a node's ranks.
func (l *launcher) placesOf(node int) (places []int) {
	if node == l.o.NodeRank {
		return nil
	}
	for i := range l.o.Nproc {
		places = append(places, node*l.o.Nproc+i)
	}
	return places
}

// dies watches a host until it is gone: its port is closed and its launcher does not answer through
// etcd either, or it is not registered, and was silent or does not answer. It returns false when ctx ends.
func (h *hosting) dies(ctx context.Context, host etcd.Host) bool {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	var ended chan error
	var silent atomic.Bool
	looked := 0
	for {
		if ended == nil && host.Addr != "" {
			ended = make(chan error, 1)
			h.work.Go(func() { ended <- rank.Observe(ctx, host.Addr, h.dial, func() { silent.Store(false) }) })
		}
		select {
		case <-ctx.Done():
			return false
		case err := <-ended:
			ended = nil
			silent.Store(silent.Load() || rank.Silent(err))
			if gone, over := h.refused(ctx, host, err); over {
				return gone
			}
		case <-tick.C:
			if looked++; !silent.Load() && looked%looks > 0 {
				continue
			}
			if there, err := h.job.Registered(ctx, host); err == nil && !there && (host.Addr == "" || silent.Load() || !answers(ctx, host.Addr, h.dial)) {
				return ctx.Err() == nil
			}
		}
	}
}

// A launcher looks every second whether the host is still registered, and more often while it is silent.
const (
	lookTime = 200 * time.Millisecond
	looks    = 5
)

// refused asks a host through etcd whose port refuses connections, which may be the network in between, and
// pauses before the next attempt to connect. It is over when the host is gone, or ctx has ended.
func (h *hosting) refused(ctx context.Context, host etcd.Host, err error) (gone, over bool) {
	pause := 50 * time.Millisecond
	if errors.Is(err, syscall.ECONNREFUSED) {
		if there, err := h.job.Answers(ctx, host, h.doubt); err == nil && !there {
			return ctx.Err() == nil, true
		}
		pause = time.Second
	}
	select {
	case <-ctx.Done():
		return false, true
	case <-time.After(pause):
		return false, false
	}
}

func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	return host, port, err
}

// moved tells the ranks of this node where their store is.
func (a *attempt) moved(m move) {
	if m.why != nil {
		a.stopFor(m.why)
		return
	}
	a.store.host, a.store.port = m.host, m.port
	a.l.nodes.hosts = m.mine
	for w := range a.alive {
		w.redirect(a.store.addr())
	}
}

// redirect tells a rank where its store is. A rank that does not read ends soon.
func (w *worker) redirect(addr string) {
	if w.stores != nil {
		w.stores.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprintln(w.stores, addr)
	}
}

// ousted is closed when another launcher has this node's number.
func (n *nodes) ousted() <-chan struct{} {
	if n == nil || n.etcd == nil {
		return nil
	}
	return n.etcd.Ousted()
}

// cut is the reason to join the job again.
func (n *nodes) cut(attempt int) *stopReason {
	v := n.lost(attempt, errors.New("another launcher has this node's number, because this one was cut off from etcd"))
	v.cut = true
	return v
}
