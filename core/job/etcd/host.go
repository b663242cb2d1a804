package etcd

import (
	"context"
	"encoding/json"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Host is the node that hosts the ranks' store.
type Host struct {
	Node int
	ID   string // of its launcher
	Addr string // host:port of the store; "" while it starts

	Rev int64 `json:"-"` // of this value; 0: nobody has hosted yet
}

// Host is the current host.
func (j *Job) Host(ctx context.Context) (Host, error) {
	h, _, err := j.readHost(ctx)
	return h, err
}

// readHost is Host, and the revision of etcd at which it was read. With a foreign value Rev is set
// alone.
func (j *Job) readHost(ctx context.Context) (h Host, at int64, err error) {
	r, err := j.get(ctx, "host")
	if err != nil {
		return h, 0, err
	}
	if len(r.Kvs) > 0 {
		text, err := j.verify("host", r.Kvs[0].Value)
		if err == nil {
			err = json.Unmarshal(text, &h)
		}
		h.Rev = r.Kvs[0].ModRevision
		if err != nil {
			return h, 0, err
		}
	}
	return h, r.Header.Revision, nil
}

// Mine reports whether this launcher hosts.
func (j *Job) Mine(h Host) bool { return h.ID == j.id }

// Next waits until the host is another one than h, at another address, or nobody. Its Rev is 0 then.
func (j *Job) Next(ctx context.Context, h Host) (Host, error) {
	for {
		now, at, err := j.readHost(ctx)
		if err != nil || now.Rev != h.Rev {
			return now, err
		}
		if err := j.change(ctx, "host", at); err != nil { // etcd may have compacted h.Rev, long ago
			return now, err
		}
	}
}

// Campaign makes this launcher the host after another one, or after nobody, and reports whether it
// is: it is not if someone else was faster.
func (j *Job) Campaign(ctx context.Context, after Host) (bool, error) {
	return j.rule(ctx, after.Rev, "")
}

// Announce says where this host's store is.
func (j *Job) Announce(ctx context.Context, addr string) error {
	term, _ := j.ruling()
	if ok, err := j.rule(ctx, term, addr); !ok || err != nil {
		return deposed(err)
	}
	return nil
}

func deposed(err error) error {
	if err != nil {
		return err
	}
	return ErrDeposed
}

// ruling is the term in which this launcher hosts, and the condition that it still does.
func (j *Job) ruling() (term int64, still clientv3.Cmp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.term, clientv3.Compare(clientv3.ModRevision(j.prefix+"host"), "=", j.term)
}

// rule writes this launcher as the host, if the revision of the key is still after.
func (j *Job) rule(ctx context.Context, after int64, addr string) (bool, error) {
	j.mu.Lock()
	mine := Host{Node: j.node, ID: j.id, Addr: addr}
	j.mu.Unlock()
	text, err := json.Marshal(mine)
	if err != nil {
		panic("etcd: " + err.Error())
	}
	k := j.prefix + "host"
	r, err := j.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(k), "=", after)}, clientv3.OpPut(k, j.sign("host", text)))
	if err != nil {
		return false, err
	}
	term := r.Header.Revision
	if !r.Succeeded {
		now, err := j.Host(ctx)
		if err != nil || !j.Mine(now) || now.Addr != addr || now.Rev <= after { // an earlier try may have succeeded
			return false, err
		}
		term = now.Rev
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.term = term
	return true, nil
}

// Records implements rank.Journal.
func (j *Job) Records(ctx context.Context) (map[string][]byte, error) {
	r, err := j.get(ctx, "record/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, kv := range r.Kvs {
		key := strings.TrimPrefix(string(kv.Key), j.prefix)
		val, err := j.verify(key, kv.Value)
		if err != nil {
			return nil, err
		}
		all[strings.TrimPrefix(key, "record/")] = val
	}
	return all, nil
}

// Write implements rank.Journal. It is not safe for concurrent use.
func (j *Job) Write(ctx context.Context, key string, val []byte) error {
	w := j.write(key, val)
	r, err := j.txn(ctx, w.conditions, w.put)
	if err != nil {
		return err
	}
	at := r.Header.Revision
	if !r.Succeeded {
		now, err := j.get(ctx, w.key)
		if err != nil || len(now.Kvs) == 0 || string(now.Kvs[0].Value) != w.val || now.Kvs[0].ModRevision <= w.after { // an earlier try may have succeeded
			return deposed(err)
		}
		at = now.Kvs[0].ModRevision
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrote = at
	return nil
}

// writing is a transaction that writes a record.
type writing struct {
	key, val   string
	after      int64 // this launcher's last write
	conditions []clientv3.Cmp
	put        clientv3.Op
}

// write makes the transaction of Write. A try of it that etcd gets late, when this launcher has tried
// again and gone on to the next record, must not bring the old record back.
func (j *Job) write(key string, val []byte) writing {
	_, still := j.ruling()
	j.mu.Lock()
	defer j.mu.Unlock()
	key = "record/" + key
	w := writing{key: key, val: j.sign(key, val), after: max(j.term, j.wrote)}
	w.conditions = []clientv3.Cmp{still, clientv3.Compare(clientv3.ModRevision(j.prefix+key), "<", w.after+1)}
	w.put = clientv3.OpPut(j.prefix+key, w.val)
	return w
}
