package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// nodes is this launcher's connection to the launchers of the other hosts. A nil
// *nodes is a job of one host: it sends and receives nothing.
type nodes struct {
	o       Options
	meeting meeting
	client  *rank.Client // the meeting, unless that is etcd
	server  *rank.Server // on node 0
	etcd    *etcd.Job    // nil: node 0 hosts the meeting
	hosts   bool         // with etcd: this node hosts the ranks' store
	leaves  bool         // with etcd: the other nodes go on without this one
}

// meeting is where launchers leave values for each other: the store of node 0's launcher, or etcd.
type meeting interface {
	Set(ctx context.Context, key string, val []byte) error
	Get(ctx context.Context, key string) ([]byte, error) // waits until the key is set
	CompareAndSet(ctx context.Context, key string, old, val []byte) (now []byte, swapped bool, err error)
}

// stopReason is why an attempt ends on all nodes. The first one reported counts.
type stopReason struct {
	Node    int      `json:"node"` // that reported it
	Failure *Failure `json:"failure,omitempty"`
	Signal  int      `json:"signal,omitempty"`

	// Grace is how long the ranks may take to save, as the node that got the signal
	// knows it.
	Grace time.Duration `json:"grace,omitempty"`

	cut bool // the connection to node 0 is lost
}

type nodeInfo struct {
	Host     string   `json:"host"`
	Nproc    int      `json:"nproc"`
	Settings []string `json:"settings,omitempty"`
	Brief    []byte   `json:"brief,omitempty"`
}

// SettingsError reports the first setting that must be equal on all nodes of a
// job and is not. All nodes return the same one.
type SettingsError struct {
	Node         int // the first that differs from node 0
	First, Other string
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("nodes run different configurations: node 0 has %s, node %d has %s; fix: give every node the same file and flags", e.First, e.Node, e.Other)
}

// sameSettings compares the settings of all nodes with node 0's.
func sameSettings(infos []nodeInfo) error {
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "no more settings"
	}
	first := infos[0].Settings
	for n, info := range infos {
		for i := range max(len(first), len(info.Settings)) {
			if a, b := at(first, i), at(info.Settings, i); a != b {
				return &SettingsError{Node: n, First: a, Other: b}
			}
		}
	}
	return nil
}

// layout says which ranks run where.
type layout struct {
	first  []int // first global rank of each node
	size   int
	peers  []rank.Peer // every rank with its host
	brief  []byte      // of the node that began the job
	begins bool        // that is this one
}

func newLayout(infos []nodeInfo) layout {
	sizes := make([]int, len(infos))
	for i, n := range infos {
		sizes[i] = n.Nproc
	}
	var l layout
	l.first, l.size = rank.AssignRanks(sizes)
	for _, n := range infos {
		for range n.Nproc {
			l.peers = append(l.peers, rank.Peer{Rank: len(l.peers), Host: n.Host})
		}
	}
	return l
}

func meetNodes(ctx context.Context, o Options, host string, s *sink) (*nodes, layout, error) {
	n := &nodes{o: o}
	if o.NodeRank == 0 {
		var err error
		n.server, err = rank.ListenStore(bindAddr(o.Endpoint), rank.StoreOptions{RunID: o.RunID, Secret: o.Secret, WorldSize: o.Nodes, Log: s.printf})
		if err != nil {
			return nil, layout{}, err
		}
	}
	l, err := n.introduce(ctx, host, s)
	if err != nil {
		n.close()
		if errors.As(err, new(*SettingsError)) {
			return nil, layout{}, err
		}
		return nil, layout{}, fmt.Errorf("node %d of %d did not meet the others at %s: %w", o.NodeRank, o.Nodes, o.Endpoint, err)
	}
	return n, l, nil
}

// bindAddr is the address to listen on: the endpoint's, or all interfaces where
// the endpoint is a name.
func bindAddr(endpoint string) string {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return endpoint // the listener reports the error
	}
	return net.JoinHostPort(hostnet.LocalHost(host), port)
}

// dial connects to the launchers' store.
func (n *nodes) dial(ctx context.Context, host string, s *sink) (err error) {
	n.client, err = rank.DialStore(ctx, n.o.Endpoint, rank.DialOptions{RunID: n.o.RunID, Secret: n.o.Secret, Rank: n.o.NodeRank, Size: n.o.Nodes, Host: host,
		OnWait: func(p rank.Progress) {
			if len(p.Missing) > 0 && n.o.Least == 0 { // waits for the end of the run last as long as the run and are not worth a line
				s.printf("waiting for the other nodes' launchers: %v", p)
			}
		}})
	n.meeting = n.client
	return err
}

// info describes this node to the others.
func (n *nodes) info(host string) []byte {
	mine, err := json.Marshal(nodeInfo{Host: host, Nproc: n.o.Nproc, Settings: n.o.Settings, Brief: n.o.Brief})
	if err != nil {
		panic("launch: " + err.Error())
	}
	return mine
}

func (n *nodes) introduce(ctx context.Context, host string, s *sink) (layout, error) {
	if err := n.dial(ctx, host, s); err != nil {
		return layout{}, err
	}
	mine := n.info(host)
	all, err := rank.Exchange(ctx, n.client, "nodes", n.o.NodeRank, n.o.Nodes, mine)
	if err != nil {
		return layout{}, err
	}
	infos := make([]nodeInfo, len(all))
	for i, text := range all {
		if err := json.Unmarshal(text, &infos[i]); err != nil || infos[i].Nproc < 1 {
			return layout{}, fmt.Errorf("node %d sent an invalid description of itself: %q", i, text)
		}
	}
	l := newLayout(infos)
	l.brief, l.begins = infos[0].Brief, n.o.NodeRank == 0
	return l, sameSettings(infos)
}

func (n *nodes) close() {
	if n == nil {
		return
	}
	if n.etcd != nil {
		_ = n.etcd.Close(!n.leaves) // the leases run out
	}
	if n.client != nil {
		n.client.Close()
	}
	if n.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		n.server.Drain(ctx) // a node that has not left by then is dead
		n.server.Close()
	}
}

func stopKey(attempt int) string { return "stop/" + strconv.Itoa(attempt) }

// report publishes why the attempt ends and returns the reason that counts: the first one.
func (n *nodes) report(attempt int, v *stopReason) *stopReason {
	if n == nil {
		return v
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	text, _ := json.Marshal(v)
	now, _, err := n.meeting.CompareAndSet(ctx, stopKey(attempt), nil, text)
	first := new(stopReason)
	if err != nil || json.Unmarshal(now, first) != nil {
		return v // the others notice when this launcher disconnects, or are dead themselves
	}
	return first
}

func graceKey(attempt int) string { return "grace/" + strconv.Itoa(attempt) }

// offerGrace tells the other nodes how long node 0 lets its ranks save.
func (n *nodes) offerGrace(attempt int, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = n.meeting.Set(ctx, graceKey(attempt), []byte(d.String())) // without it they use their own
}

// awaitGrace delivers what node 0 offers.
func (n *nodes) awaitGrace(ctx context.Context, wg *sync.WaitGroup, attempt int) <-chan time.Duration {
	c := make(chan time.Duration, 1)
	wg.Go(func() {
		text, err := n.meeting.Get(ctx, graceKey(attempt))
		if err != nil {
			return
		}
		if d, err := time.ParseDuration(string(text)); err == nil {
			c <- d
		}
	})
	return c
}

// listen delivers why another node ends the attempt, or that the connection to a launcher is lost.
func (n *nodes) listen(ctx context.Context, wg *sync.WaitGroup, attempt int) <-chan *stopReason {
	if n == nil {
		return nil
	}
	c := make(chan *stopReason, 1)
	wg.Go(func() {
		text, err := n.meeting.Get(ctx, stopKey(attempt))
		v := new(stopReason)
		if err == nil {
			err = json.Unmarshal(text, v)
		}
		if err == nil && v.Failure == nil && v.Signal == 0 {
			err = errors.New("it reported an end without a reason")
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			v = n.lost(attempt, err)
		}
		c <- v
	})
	return c
}

// done waits until the ranks of all nodes are done and delivers nil then.
func (n *nodes) done(ctx context.Context, wg *sync.WaitGroup, attempt int, store *rank.Server) <-chan *stopReason {
	c := make(chan *stopReason, 1)
	if n.o.Least > 0 { // the ranks have ended together, and leave the store
		wg.Go(func() {
			if store != nil {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				_ = store.Drain(ctx) // a rank that has not left by then is dead
			}
			c <- nil
		})
		return c
	}
	wg.Go(func() {
		err := n.tellCompleted(ctx, attempt, true) // a signal may reach another node before the barrier
		if err == nil {
			err = n.client.Barrier(ctx, "done/"+strconv.Itoa(attempt), n.o.NodeRank, n.o.Nodes)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c <- n.lost(attempt, err)
			return
		}
		c <- nil
	})
	return c
}

func completedKey(attempt, node int) string { return fmt.Sprintf("completed/%d/%d", attempt, node) }

func (n *nodes) tellCompleted(ctx context.Context, attempt int, here bool) error {
	return n.meeting.Set(ctx, completedKey(attempt, n.o.NodeRank), []byte(strconv.FormatBool(here)))
}

// completed tells the other nodes whether the ranks of this one had done their work when a signal came, and
// delivers whether those of all nodes had. It waits for nodes whose ranks have not ended.
func (n *nodes) completed(ctx context.Context, wg *sync.WaitGroup, attempt int, here bool) <-chan bool {
	c := make(chan bool, 1)
	wg.Go(func() {
		all := n.tellCompleted(ctx, attempt, here) == nil && here
		for node := 0; all && node < n.o.Nodes; node++ {
			text, err := n.meeting.Get(ctx, completedKey(attempt, node))
			all = err == nil && string(text) == "true"
		}
		c <- all
	})
	return c
}

// lost is the reason when the connection to a launcher is lost.
func (n *nodes) lost(attempt int, err error) *stopReason {
	c := Cause{Rank: -1, Host: n.o.Endpoint, Time: time.Now(), Step: -1, Message: "the launcher of node 0 is gone: " + err.Error()}
	if n.etcd != nil {
		c.Message = err.Error()
	}
	var left *rank.PeerLeftError
	if errors.As(err, &left) {
		c.Host = left.Peer.Host
		c.Message = fmt.Sprintf("the launcher of node %d is gone (%s, %s)", left.Peer.Rank, left.Peer.Host, left.Peer.Addr)
		if left.Cause != "" {
			c.Message += ": " + left.Cause
		}
	}
	return &stopReason{Node: n.o.NodeRank, Failure: &Failure{Job: n.o.Name, Attempt: attempt, MaxRestarts: n.o.MaxRestarts, Root: c}, cut: n.o.Least > 0 && n.o.NodeRank > 0 && n.etcd == nil}
}

// groupStore is where the ranks of one attempt meet.
type groupStore struct {
	server  *rank.Server // on node 0
	hosting *hosting     // instead of server, with etcd
	host    string
	port    int
	secret  secret.Secret
	left    chan departed
}

// hosted is the server on this node, nil if another node has it.
func (s *groupStore) hosted() *rank.Server {
	if s.hosting != nil {
		return s.hosting.hosted()
	}
	return s.server
}

// moves delivers where the store is when another node hosts it; never without etcd.
func (s *groupStore) moves() <-chan move {
	if s == nil || s.hosting == nil {
		return nil
	}
	return s.hosting.moves
}

func (s *groupStore) addr() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

func (s *groupStore) close() {
	if s == nil {
		return
	}
	s.hosting.close()
	if s.server != nil {
		s.server.Close()
	}
}

// openStore opens a new store for attempt n on node 0, before any rank starts,
// and tells the other nodes its port.
func (l *launcher) openStore(ctx context.Context, n int) (*groupStore, error) {
	s := &groupStore{secret: l.o.ranksSecret(n), left: make(chan departed, 2*l.layout.size)}
	var onLeave func(int, time.Time, error)
	if l.o.Elastic {
		onLeave = s.gone
	}
	so := rank.StoreOptions{RunID: l.o.RunID, Secret: s.secret, Ports: l.o.Ports, WorldSize: l.layout.size,
		Generation: n, Roster: l.layout.peers, Log: l.sink.printf, Elastic: l.o.Elastic, LostAfter: l.o.LostAfter, LateAfter: l.o.LateAfter, OnLeave: onLeave,
		Least: l.o.Least * l.o.Nproc, Window: startWindow, WaitForLeast: l.o.WaitForNodes}
	if l.nodes != nil && l.nodes.etcd != nil {
		ctx, cancel := context.WithTimeout(ctx, l.o.RendezvousTimeout)
		defer cancel()
		return s, l.openHosted(ctx, s, so)
	}
	var bind string
	if l.nodes != nil {
		s.host, _, _ = net.SplitHostPort(l.o.Endpoint)
		bind = net.JoinHostPort(hostnet.LocalHost(s.host), "0")
	} else {
		var err error
		if s.host, err = loopback(); err != nil {
			return nil, err
		}
		bind = net.JoinHostPort(s.host, "0")
	}
	if l.o.NodeRank == 0 {
		var err error
		if s.server, err = rank.ListenStore(bind, so); err != nil {
			return nil, err
		}
		s.port = s.server.Addr().Port
	}
	if l.nodes == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.o.RendezvousTimeout)
	defer cancel()
	port, err := l.nodes.storePort(ctx, n, strconv.Itoa(s.port))
	if err == nil {
		s.port, err = strconv.Atoi(port)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("the nodes did not start attempt %d together: %w", n, err)
	}
	return s, nil
}

// storePort is the port of the ranks' store, which node 0 tells the others.
func (n *nodes) storePort(ctx context.Context, attempt int, own string) (string, error) {
	name := "attempt/" + strconv.Itoa(attempt)
	if n.o.Least == 0 {
		ports, err := rank.Exchange(ctx, n.client, name, n.o.NodeRank, n.o.Nodes, []byte(own))
		if err != nil {
			return "", err
		}
		return string(ports[0]), nil
	}
	if n.o.NodeRank == 0 {
		return own, n.meeting.Set(ctx, name, []byte(own))
	}
	port, err := n.meeting.Get(ctx, name)
	return string(port), err
}

// loopback is the address at which the ranks of one host reach each other: IPv4,
// or IPv6 on a host without IPv4. Without either the ranks would retry until the
// rendezvous times out, so this fails early. Connecting a UDP socket looks up the
// route and sends nothing.
func loopback() (string, error) {
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
		if err == nil {
			return host, c.Close()
		}
		if first == nil {
			first = err
		}
	}
	if usererr.Shortage(first.Error()) != "" {
		return "", usererr.Explained(first)
	}
	return "", fmt.Errorf("the ranks of this host cannot reach each other: %w; is the loopback interface down, as in a new network namespace? fix: \"ip link set lo up\"", first)
}
