package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// root is the prefix of all jobs.
const root = "/trainctl/"

// Job is one launcher's part of a job in etcd. Its methods are safe for concurrent use; those
// that talk to etcd try again, while it is unreachable, until their ctx ends.
type Job struct {
	config Config
	client *clientv3.Client
	prefix string
	id     string // of this launcher
	key    []byte // signs values
	ttl    time.Duration
	outage outage
	other  error // the job's keys are those of a job with another secret; of Register

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	node   int // this launcher's, -1 before Register
	host   string
	lease  clientv3.LeaseID
	term   int64         // the revision of the host's key as this launcher wrote it; 0: it does not host
	wrote  int64         // the revision of its last record
	ousted chan struct{} // closed when another launcher has this node's number
}

// ErrDeposed reports that another node hosts the ranks' store by now.
var ErrDeposed = errors.New("another node hosts the job's store")

// Connect connects to etcd. name identifies the job. A launcher that does not renew its lease for
// lostAfter, at least 2 s, is no longer registered. Until ctx ends it waits for an etcd that does
// not answer; say, if not nil, is called with the reason when that takes longer than a second, and
// also later, when etcd does not answer for longer than that, and when it answers again.
func Connect(ctx context.Context, c Config, name string, lostAfter time.Duration, say func(string)) (*Job, error) {
	t, err := c.tls()
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, func(ctx context.Context, at string) error { return c.reach(ctx, at, t) }, say); err != nil {
		return nil, err
	}
	j := &Job{config: c, prefix: root + url.PathEscape(name) + "/", id: rand.Text(), key: c.Secret.Key("etcd"), ttl: max(2*time.Second, lostAfter), node: -1, ousted: make(chan struct{})}
	j.outage.say = say
	cc := clientv3.Config{
		TLS: t, Username: c.User, Password: c.Password, Logger: zap.NewNop(), DialTimeout: dialTime,
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	}
	for _, e := range c.Endpoints {
		scheme := "http://"
		if t != nil {
			scheme = "https://"
		}
		cc.Endpoints = append(cc.Endpoints, scheme+address(e))
	}
	if j.client, err = clientv3.New(cc); err != nil {
		err, _ = explain(c, err)
		return nil, err
	}
	j.life, j.end = context.WithCancel(context.Background())
	if _, err := j.get(ctx, "host"); err != nil {
		j.end()
		return nil, errors.Join(err, j.client.Close())
	}
	return j, nil
}

// await waits until one of the endpoints can be reached.
func (c Config) await(ctx context.Context, reach func(context.Context, string) error, say func(string)) error {
	start, told := time.Now(), false
	var last error // of the last attempt that ctx has not cut short, which says why
	for {
		var errs []error
		for _, e := range c.Endpoints {
			err := reach(ctx, e)
			if err == nil {
				return nil
			}
			if usererr.Problems(err) != nil && len(c.Endpoints) == 1 {
				return err
			}
			errs = append(errs, err)
		}
		err := errors.Join(errs...)
		if last != nil && ctx.Err() != nil {
			err = last
		}
		last = err
		if say != nil && !told && time.Since(start) > time.Second {
			told = true
			say(fmt.Sprintf("waiting for etcd: %v", err))
		}
		select {
		case <-ctx.Done():
			if usererr.Problems(err) != nil {
				return err
			}
			return unreachable(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func unreachable(err error) error {
	return mistake("rdzv_endpoint", `the "host:port" of a running etcd, or several with commas between them`, err)
}

// Close ends the registration. over removes the job's keys, if this launcher still hosts.
func (j *Job) Close(over bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	j.end()
	j.work.Wait()
	if term, still := j.ruling(); over && term > 0 {
		_, _ = j.client.Txn(ctx).If(still).Then(clientv3.OpDelete(j.prefix, clientv3.WithPrefix())).Commit() // what stays is removed by the next job of that name
	}
	if j.lease != 0 {
		_, _ = j.client.Revoke(ctx, j.lease) // or it runs out
	}
	return j.client.Close()
}

// oneTry bounds a request, so that one that an unreachable server got is made again.
const oneTry = 3 * time.Second

// do makes a request until it succeeds, fails for good, or ctx ends.
func (j *Job) do(ctx context.Context, request func(context.Context) error) error {
	for {
		begin := time.Now()
		try, cancel := context.WithTimeout(ctx, oneTry)
		err := request(try)
		cancel()
		j.tried(ctx, begin, err)
		if err == nil {
			return nil
		}
		err, final := explain(j.config, err)
		if final {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return unreachable(err)
			}
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (j *Job) get(ctx context.Context, key string, opts ...clientv3.OpOption) (r *clientv3.GetResponse, err error) {
	err = j.do(ctx, func(ctx context.Context) error {
		r, err = j.client.Get(ctx, j.prefix+key, opts...)
		return err
	})
	return r, err
}

// txn makes a transaction. It may have happened although an earlier try of it failed.
func (j *Job) txn(ctx context.Context, conditions []clientv3.Cmp, then ...clientv3.Op) (r *clientv3.TxnResponse, err error) {
	err = j.do(ctx, func(ctx context.Context) error {
		r, err = j.client.Txn(ctx).If(conditions...).Then(then...).Commit()
		return err
	})
	return r, err
}

// Set stores a value.
func (j *Job) Set(ctx context.Context, key string, val []byte) error {
	return j.do(ctx, func(ctx context.Context) error {
		_, err := j.client.Put(ctx, j.prefix+"value/"+key, j.sign("value/"+key, val))
		return err
	})
}

// Get waits until a value is set.
func (j *Job) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		val, set, at, err := j.look(ctx, key)
		if err != nil || set {
			return val, err
		}
		if err := j.change(ctx, "value/"+key, at); err != nil {
			return nil, err
		}
	}
}

// Look returns a value if it is set.
func (j *Job) Look(ctx context.Context, key string) (val []byte, set bool, err error) {
	val, set, _, err = j.look(ctx, key)
	return val, set, err
}

// look is Look, and the revision of etcd at which it has looked.
func (j *Job) look(ctx context.Context, key string) (val []byte, set bool, at int64, err error) {
	r, err := j.get(ctx, "value/"+key)
	if err != nil {
		return nil, false, 0, err
	}
	if len(r.Kvs) == 0 {
		return nil, false, r.Header.Revision, nil
	}
	val, err = j.verify("value/"+key, r.Kvs[0].Value)
	return val, err == nil, r.Header.Revision, err
}

// CompareAndSet stores a value if the key has none; old must be empty. It returns what the key
// holds afterwards.
func (j *Job) CompareAndSet(ctx context.Context, key string, old, val []byte) (now []byte, swapped bool, err error) {
	if len(old) > 0 {
		panic("etcd: CompareAndSet with an old value")
	}
	k := j.prefix + "value/" + key
	r, err := j.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k), "=", 0)}, clientv3.OpPut(k, j.sign("value/"+key, val)))
	if err != nil || r.Succeeded {
		return val, err == nil, err
	}
	now, err = j.Get(ctx, key)
	return now, string(now) == string(val), err
}

// change waits until a key may have changed since a revision.
func (j *Job) change(ctx context.Context, key string, rev int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case r := <-j.client.Watch(clientv3.WithRequireLeader(ctx), j.prefix+key, clientv3.WithRev(rev+1)):
		if r.Err() == nil {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	select { // the watch has ended, perhaps because the revision is too old by now
	case <-time.After(200 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
