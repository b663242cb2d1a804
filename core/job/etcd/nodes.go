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
	for {
		node, err := j.take(ctx, nodes, answers)
		if err != nil {
			return 0, err
		}
		if node >= 0 {
			j.work.Go(j.stay)
			return node, nil
		}
		select {
		case <-ctx.Done():
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
	if err != nil {
		return -1, err
	}
	there := h.Rev == 0 || h.Addr != "" && answers(h.Addr)
	if len(all.Kvs) == 0 && (h.Rev == 0 || !there) {
		return j.claim(ctx, 0,
			[]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(j.prefix+"nodes/"), "=", 0).WithPrefix(),
				clientv3.Compare(clientv3.ModRevision(j.prefix+"host"), "=", h.Rev),
			},
			clientv3.OpDelete(j.prefix+"host"), clientv3.OpDelete(j.prefix+"record/", clientv3.WithPrefix()), clientv3.OpDelete(j.prefix+"value/", clientv3.WithPrefix()))
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
	mine := j.self()
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

// self is the value of this launcher's key.
func (j *Job) self() string {
	text, err := json.Marshal(registration{ID: j.id, Host: j.host})
	if err != nil {
		panic("etcd: " + err.Error())
	}
	return string(text)
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
		_, err := j.client.KeepAliveOnce(ctx, j.lease)
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
		clientv3.Compare(clientv3.Value(k), "=", j.self()), // an earlier try has succeeded, with another lease
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
	r, err := j.get(ctx, nodeKey(h.Node))
	if err != nil || len(r.Kvs) == 0 {
		return false, err
	}
	var of registration
	err = json.Unmarshal(r.Kvs[0].Value, &of)
	return of.ID == h.ID, err
}
