package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registration is the value of a node's key.
type registration struct {
	ID   string
	Host string
}

func nodeKey(node int) string { return "nodes/" + strconv.Itoa(node) }

// Register takes the lowest number from 0 to nodes−1 that no other launcher has, and keeps it until
// Close. host is for people. answers reports whether a store can be reached at an address: while
// launchers are registered and the job's store does not answer, Register waits for another host;
// when nobody is registered and it does not answer, the job has ended, and a new one begins.
func (j *Job) Register(ctx context.Context, nodes int, host string, answers func(addr string) bool) (node int, err error) {
	j.host = host
	for asked := false; ; asked = true {
		node, err := j.take(ctx, nodes, answers)
		if err != nil && !(asked && ctx.Err() != nil) {
			return 0, err
		}
		if err == nil && node >= 0 {
			j.work.Go(j.stay)
			j.work.Go(func() { j.reply(node) })
			return node, nil
		}
		select {
		case <-ctx.Done():
			if j.other != nil {
				return 0, j.other
			}
			return 0, fmt.Errorf("all %d nodes of the job have joined, or its store does not answer: %w", nodes, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// take tries once to take a number; -1 if it cannot at the moment.
func (j *Job) take(ctx context.Context, nodes int, answers func(addr string) bool) (int, error) {
	all, err := j.get(ctx, "nodes/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return -1, err
	}
	h, err := j.Host(ctx)
	if errors.As(err, new(foreign)) { // it was left by an earlier job, perhaps, whose leases end soon
		j.other = err
	} else if err != nil {
		return -1, err
	} else {
		j.other = nil
	}
	there := h.Rev == 0 || h.Addr != "" && answers(h.Addr)
	if len(all.Kvs) == 0 && (h.Rev == 0 || !there) {
		return j.claim(ctx, 0,
			[]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(j.prefix+"nodes/"), "=", 0).WithPrefix(),
				clientv3.Compare(clientv3.ModRevision(j.prefix+"host"), "=", h.Rev),
			},
			clientv3.OpDelete(j.prefix+"host"), clientv3.OpDelete(j.prefix+"record/", clientv3.WithPrefix()), clientv3.OpDelete(j.prefix+"value/", clientv3.WithPrefix()),
			clientv3.OpDelete(j.prefix+"doubt/", clientv3.WithPrefix()))
	}
	if len(all.Kvs) == 0 || !there {
		return -1, nil
	}
	taken := map[string]bool{}
	for _, kv := range all.Kvs {
		taken[string(kv.Key)] = true
	}
	for n := range nodes {
		if k := j.prefix + nodeKey(n); !taken[k] {
			return j.claim(ctx, n, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k), "=", 0)})
		}
	}
	return -1, nil
}

// claim registers this launcher as a node under conditions; -1 if they do not hold.
func (j *Job) claim(ctx context.Context, node int, conditions []clientv3.Cmp, also ...clientv3.Op) (int, error) {
	var lease *clientv3.LeaseGrantResponse
	err := j.do(ctx, func(ctx context.Context) (err error) {
		lease, err = j.client.Grant(ctx, int64((j.ttl+time.Second-1)/time.Second))
		return err
	})
	if err != nil {
		return -1, err
	}
	mine := j.self(node)
	r, err := j.txn(ctx, conditions, append(also, clientv3.OpPut(j.prefix+nodeKey(node), mine, clientv3.WithLease(lease.ID)))...)
	if err != nil {
		return -1, err
	}
	if !r.Succeeded {
		now, err := j.get(ctx, nodeKey(node))
		if err != nil || len(now.Kvs) == 0 || string(now.Kvs[0].Value) != mine || now.Kvs[0].Lease != int64(lease.ID) {
			_, _ = j.client.Revoke(ctx, lease.ID) // or it runs out
			return -1, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.node, j.lease = node, lease.ID
	return node, nil
}

// self is the value of this launcher's key as that of a node.
func (j *Job) self(node int) string {
	text, err := json.Marshal(registration{ID: j.id, Host: j.host})
	if err != nil {
		panic("etcd: " + err.Error())
	}
	return j.sign(nodeKey(node), text)
}

// stay renews the lease, and registers again when it has run out while etcd was unreachable.
func (j *Job) stay() {
	tick := time.NewTicker(j.ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-j.life.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(j.life, j.ttl/2)
		begin := time.Now()
		_, err := j.client.KeepAliveOnce(ctx, j.lease)
		j.tried(j.life, begin, err)
		if errors.Is(err, rpctypes.ErrLeaseNotFound) && !j.again(ctx) {
			cancel()
			close(j.ousted)
			return
		}
		cancel()
	}
}

// again registers under the same number, and reports whether that is still this launcher's.
func (j *Job) again(ctx context.Context) bool {
	k := j.prefix + nodeKey(j.node)
	for _, ours := range []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(k), "=", 0),
		clientv3.Compare(clientv3.Value(k), "=", j.self(j.node)), // an earlier try has succeeded, with another lease
	} {
		if node, err := j.claim(ctx, j.node, []clientv3.Cmp{ours}); err != nil || node >= 0 {
			return true
		}
	}
	return false
}

// Ousted is closed when another launcher has this one's number, which can happen when this one was
// cut off from etcd for longer than its lease.
func (j *Job) Ousted() <-chan struct{} { return j.ousted }

// Local is the address of this host from which it reaches etcd, and so the one at which other hosts
// that reach etcd can reach it.
func (j *Job) Local() (string, error) {
	var errs []error
	for _, e := range j.config.Endpoints {
		c, err := net.Dial("udp", address(e)) // which sends nothing
		if err == nil {
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// Registered reports whether the launcher that hosts is registered.
func (j *Job) Registered(ctx context.Context, h Host) (bool, error) {
	there, _, _, err := j.registered(ctx, h)
	return there, err
}

// registered is Registered, the revision of the launcher's key, and that of etcd.
func (j *Job) registered(ctx context.Context, h Host) (there bool, rev, at int64, err error) {
	r, err := j.get(ctx, nodeKey(h.Node))
	if err != nil || len(r.Kvs) == 0 {
		return false, 0, 0, err
	}
	var of registration
	text, err := j.verify(nodeKey(h.Node), r.Kvs[0].Value)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	return of.ID == h.ID && err == nil, r.Kvs[0].ModRevision, r.Header.Revision, err
}

func doubtKey(node int) string { return "doubt/" + strconv.Itoa(node) }

// Answers asks the launcher that hosts, through etcd, whether it runs, and reports whether it has
// answered within a time. So a network that refuses connections for a moment, while the launcher can
// reach etcd, does not look like the end of the launcher.
func (j *Job) Answers(ctx context.Context, h Host, within time.Duration) (bool, error) {
	var asked int64
	err := j.do(ctx, func(ctx context.Context) error {
		r, err := j.client.Put(ctx, j.prefix+doubtKey(h.Node), j.id)
		if err == nil {
			asked = r.Header.Revision
		}
		return err
	})
	if err != nil {
		return false, err
	}
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		there, rev, at, err := j.registered(ctx, h)
		if err != nil || !there || rev > asked {
			return there, err
		}
		if wait.Err() != nil {
			return false, ctx.Err()
		}
		_ = j.change(wait, nodeKey(h.Node), at) // when the time is over, the key is read once more
	}
}

// reply writes this launcher's key again whenever another launcher asks for it.
func (j *Job) reply(node int) {
	k, mine := j.prefix+nodeKey(node), j.self(node)
	for {
		r, err := j.get(j.life, doubtKey(node))
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(j.life, oneTry)
		_, _ = j.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(k), "=", mine)).Then(clientv3.OpPut(k, mine, clientv3.WithIgnoreLease())).Commit() // or they ask again
		cancel()
		if j.change(j.life, doubtKey(node), r.Header.Revision) != nil {
			return
		}
	}
}
