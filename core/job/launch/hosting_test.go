package launch

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// registered are the first two launchers of a job, of which the first is the host but has not
// announced its store.
func registered(t *testing.T, s *etcdtest.Server) (ctx context.Context, a, b *etcd.Job) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	key := secret.New()
	join := func(node int) *etcd.Job {
		j, err := etcd.Connect(ctx, etcd.Config{Endpoints: []string{s.Addr}, Secret: key}, "it", time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close(false) })
		if n, err := j.Register(ctx, 2, "host", func(string) bool { return true }); n != node || err != nil {
			t.Fatal(n, err)
		}
		return j
	}
	a, b = join(0), join(1)
	if won, err := a.Campaign(ctx, etcd.Host{}); !won || err != nil {
		t.Fatal(won, err)
	}
	return ctx, a, b
}

// hostingOf is the part of the node of a job in hosting.
func hostingOf(t *testing.T, j *etcd.Job, key secret.Secret) *hosting {
	t.Helper()
	o := Options{RunID: "it", NodeRank: 1, Nproc: 1, Nodes: 2, Least: 1, Secret: key, LostAfter: time.Minute}
	h := &hosting{l: &launcher{o: o, sink: &sink{w: &buffer{}}, nodes: &nodes{o: o, etcd: j, meeting: j}}, job: j, doubt: time.Minute, moves: make(chan move)}
	h.dial = h.l.nodes.dialOptions()
	h.open = func(ctx context.Context, dead []int) (*rank.Server, error) {
		return rank.ListenStore("127.0.0.1:0", rank.StoreOptions{RunID: "it", Secret: o.ranksSecret(0), WorldSize: 2, Elastic: true, LostAfter: time.Minute, Journal: journal{j, ctx}, Dead: dead})
	}
	t.Cleanup(h.close)
	return h
}

// The host is not deposed because the network refuses connections to its store, as long as its launcher
// answers through etcd; when its launcher has gone, it is.
func TestRefusedConnectionDeposesNobody(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx, a, b := registered(t, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := a.Announce(ctx, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	asked := c.Watch(ctx, "/trainctl/it/doubt/0")
	host, err := b.Host(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := hostingOf(t, b, secret.New())
	dies := make(chan bool, 1)
	go func() { dies <- h.dies(ctx, host) }()
	for range 2 { // the second time after an answer to the first
		select {
		case <-asked:
		case <-dies:
			t.Fatal("the host is deposed because its port is closed")
		}
	}
	if err := a.Close(false); err != nil {
		t.Fatal(err)
	}
	if !<-dies {
		t.Error("the host is not deposed although its launcher is gone")
	}
}

// When the first host is gone before it has described itself, or announced its store, another node
// takes its place.
func TestFirstHostThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	for described := range 2 {
		s := etcdtest.Start(t, etcdtest.Options{})
		ctx, a, b := registered(t, s)
		if described == 1 {
			if err := a.Set(ctx, firstNode, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(false); err != nil {
			t.Fatal(err)
		}
		h := hostingOf(t, b, secret.New())
		if first, err := h.l.nodes.begun(ctx); string(first) != []string{"", "a"}[described] || h.l.nodes.hosts == (described == 1) || err != nil {
			t.Errorf("begun by %q, hosts: %v, %v", first, h.l.nodes.hosts, err)
		}
		cur, err := h.first(ctx, "127.0.0.1")
		if err != nil || !b.Mine(cur) || cur.Addr == "" || !h.l.nodes.hosts {
			t.Errorf("host %+v, %v", cur, err)
		}
	}
}

// full is a journal in which nothing can be stored any more.
type full struct{}

func (full) Records(context.Context) (map[string][]byte, error) { return nil, nil }
func (full) Write(context.Context, string, []byte) error {
	return usererr.Errorf("launch.rdzv_endpoint", "free space", "etcd is full")
}

// A host that cannot record its job's state ends its job with the reason.
func TestHostThatCannotRecord(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx, a, _ := registered(t, s)
	key := secret.New()
	h := hostingOf(t, a, key)
	ranks := Options{Secret: key}.ranksSecret(0)
	h.open = func(context.Context, []int) (*rank.Server, error) {
		return rank.ListenStore("127.0.0.1:0", rank.StoreOptions{RunID: "it", Secret: ranks, WorldSize: 2, Elastic: true, Journal: full{}})
	}
	host, err := h.serve(ctx, "127.0.0.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(ctx)
	h.end = end
	h.work.Go(func() { h.follow(life, host, "127.0.0.1") })
	c, err := rank.DialStore(ctx, host.Addr, rank.DialOptions{RunID: "it", Secret: ranks, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := rank.NewMembers(c, 0).Publish(ctx, "plan", nil); err == nil {
		t.Error("published without a record")
	}
	if m := <-h.moves; m.why == nil || !strings.Contains(m.why.Failure.Root.Message, "etcd is full") {
		t.Errorf("%+v", m)
	}
}
