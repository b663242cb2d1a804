package etcd_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
	"github.com/trainctl/trainctl/core/job/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nobody(string) bool { return false }

var jobSecret = secret.New()

// patient is a context for what takes a moment, also on a busy machine.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// connect is a launcher of the job "it", which leaves it with the test.
func connect(t *testing.T, s *etcdtest.Server) *etcd.Job {
	t.Helper()
	return connectWith(t, s, jobSecret, time.Second, nil)
}

// connectWith is connect with another secret, time until it is lost, and messages.
func connectWith(t *testing.T, s *etcdtest.Server, key secret.Secret, lostAfter time.Duration, say func(string)) *etcd.Job {
	t.Helper()
	j, err := etcd.Connect(patient(t), etcd.Config{Endpoints: []string{s.Addr}, Secret: key}, "it", lostAfter, say)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(true) })
	return j
}

// joins connects a launcher and registers it.
func joins(t *testing.T, s *etcdtest.Server, want int) *etcd.Job {
	t.Helper()
	j := connect(t, s)
	n, err := j.Register(patient(t), 3, "host", func(string) bool { return true })
	if err != nil || n != want {
		t.Fatalf("node %d, want %d: %v", n, want, err)
	}
	return j
}

// hosts is the launcher of node 0, with the ranks' store at "a:1".
func hosts(t *testing.T, s *etcdtest.Server) *etcd.Job {
	t.Helper()
	j := joins(t, s, 0)
	if won, err := j.Campaign(patient(t), etcd.Host{}); !won || err != nil {
		t.Fatal(won, err)
	}
	if err := j.Announce(patient(t), "a:1"); err != nil {
		t.Fatal(err)
	}
	return j
}

// keys are those that are left in etcd.
func keys(t *testing.T, s *etcdtest.Server) []string {
	t.Helper()
	cmd := exec.Command("etcdctl", "--endpoints", s.Addr, "get", "--prefix", "--keys-only", "/trainctl/")
	cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("etcdctl is not installed (Debian's package etcd-client)")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// Nodes take numbers as they come, one of them hosts, and another one after it: then the first one
// changes nothing any more. At the end nothing is left.
func TestHostsFollowEachOther(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a, b := joins(t, s, 0), joins(t, s, 1)
	nobodyYet, err := a.Host(ctx)
	if err != nil || nobodyYet.Rev != 0 {
		t.Fatalf("host %+v, %v", nobodyYet, err)
	}
	won, err := a.Campaign(ctx, nobodyYet)
	lost, err2 := b.Campaign(ctx, nobodyYet)
	if !won || lost || err != nil || err2 != nil {
		t.Fatalf("won %v, lost %v: %v, %v", won, lost, err, err2)
	}
	if err := errors.Join(a.Announce(ctx, "a:1"), a.Write(ctx, "group", []byte("abc"))); err != nil {
		t.Fatal(err)
	}
	of, err := b.Host(ctx)
	if there, err2 := b.Registered(ctx, of); !there || of.Addr != "a:1" || of.Node != 0 || b.Mine(of) || !a.Mine(of) || err != nil || err2 != nil {
		t.Fatalf("host %+v, registered %v: %v, %v", of, there, err, err2)
	}
	next := make(chan etcd.Host, 1)
	go func() {
		h, _ := a.Next(ctx, of)
		next <- h
	}()
	if won, err := b.Campaign(ctx, of); !won || err != nil {
		t.Fatal(won, err)
	}
	if h := <-next; h.Node != 1 || h.Addr != "" {
		t.Errorf("the next host is %+v", h)
	}
	if err := a.Write(ctx, "group", []byte("ab")); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("the last host wrote: %v", err)
	}
	if err := a.Announce(ctx, "a:2"); !errors.Is(err, etcd.ErrDeposed) {
		t.Errorf("the last host announced: %v", err)
	}
	if r, err := b.Records(ctx); string(r["group"]) != "abc" || len(r) != 1 || err != nil {
		t.Errorf("records %q, %v", r, err)
	}
	if err := a.Close(true); err != nil { // it still takes itself for the host
		t.Error(err)
	}
	if r, err := b.Records(ctx); len(r) != 1 || err != nil {
		t.Errorf("the last host removed records: %q, %v", r, err)
	}
	if err := b.Close(true); err != nil {
		t.Error(err)
	}
	if left := keys(t, s); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Launchers wait for what others leave, and the first one that leaves something counts.
func TestValues(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a, b := connect(t, s), connect(t, s)
	got := make(chan string, 1)
	go func() {
		v, _ := b.Get(ctx, "k")
		got <- string(v)
	}()
	if err := a.Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "v" {
		t.Errorf("got %q", v)
	}
	for i, j := range []*etcd.Job{a, b} {
		now, swapped, err := j.CompareAndSet(ctx, "first", nil, []byte{byte('a' + i)})
		if string(now) != "a" || swapped != (i == 0) || err != nil {
			t.Errorf("%q, %v, %v", now, swapped, err)
		}
	}
}

// While etcd is stopped or restarts, requests wait; leases that have run out are renewed.
func TestEtcdComesBack(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := hosts(t, s)
	s.Kill(t)
	wrote := make(chan error, 1)
	go func() { wrote <- a.Write(ctx, "group", []byte("1")) }()
	s.Start(t)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	s.Signal(t, syscall.SIGSTOP)
	go func() { wrote <- a.Write(ctx, "group", []byte("2")) }()
	select {
	case err := <-wrote:
		t.Fatalf("written to a server that is stopped: %v", err)
	case <-time.After(3 * time.Second): // longer than the lease
	}
	s.Signal(t, syscall.SIGCONT)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	h, err := a.Host(ctx)
	for there := false; err == nil && !there; {
		there, err = a.Registered(ctx, h)
	}
	if err != nil || !a.Mine(h) {
		t.Errorf("host %+v: %v", h, err)
	}
	b := joins(t, s, 1) // and not 0
	if err := b.Close(false); err != nil {
		t.Error(err)
	}
}

// An outage of etcd is reported once, and so is its end.
func TestOutageIsReported(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	said := make(chan string, 16)
	j := connectWith(t, s, jobSecret, time.Second, func(line string) { said <- line })
	if _, err := j.Register(patient(t), 1, "host", nobody); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.Signal(t, syscall.SIGSTOP)
		if line := <-said; !strings.Contains(line, "etcd at "+s.Addr+" has not answered since ") || !strings.Contains(line, "training continues") || !strings.Contains(line, "backend.timeout") {
			t.Errorf("said %q", line)
		}
		s.Signal(t, syscall.SIGCONT)
		if line := <-said; !strings.Contains(line, "etcd at "+s.Addr+" answers again, after ") {
			t.Errorf("said %q", line)
		}
	}
	if len(said) > 0 {
		t.Errorf("said %q, too", <-said)
	}
}

// A launcher answers others through etcd as long as it runs, whatever its lease.
func TestLauncherAnswersThroughEtcd(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := connectWith(t, s, jobSecret, time.Minute, nil)
	if _, err := a.Register(ctx, 2, "host", nobody); err != nil {
		t.Fatal(err)
	}
	if won, err := a.Campaign(ctx, etcd.Host{}); !won || err != nil {
		t.Fatal(won, err)
	}
	h, err := a.Host(ctx)
	b := connect(t, s)
	for range 2 {
		if there, err2 := b.Answers(ctx, h, time.Minute); !there || err != nil || err2 != nil {
			t.Fatalf("answers: %v, %v, %v", there, err, err2)
		}
	}
	s.Kill(t)
	a.Close(false) // it cannot end its lease
	s.Start(t)
	there, err := b.Answers(ctx, h, 200*time.Millisecond)
	if registered, err2 := b.Registered(ctx, h); there || !registered || err != nil || err2 != nil {
		t.Errorf("answers: %v, registered: %v, %v, %v", there, registered, err, err2)
	}
}

// Values that were not signed with the job's secret are refused, wherever they stand.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := hosts(t, s)
	if err := errors.Join(a.Write(ctx, "group", []byte("1")), a.Set(ctx, "k", []byte("v"))); err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := a.Host(ctx)
	all, err2 := c.Get(ctx, "/trainctl/it/", clientv3.WithPrefix())
	if err := errors.Join(err, err2); err != nil || len(all.Kvs) != 4 {
		t.Fatal(all, err)
	}
	reads := map[string]func() error{
		"host":         func() error { _, err := a.Host(ctx); return err },
		"nodes/0":      func() error { _, err := a.Registered(ctx, h); return err },
		"record/group": func() error { _, err := a.Records(ctx); return err },
		"value/k":      func() error { _, err := a.Get(ctx, "k"); return err },
	}
	for _, kv := range all.Kvs {
		key := strings.TrimPrefix(string(kv.Key), "/trainctl/it/")
		for _, other := range [][]byte{{}, []byte(`{"Node":0}`), append([]byte{'x'}, kv.Value...), all.Kvs[0].Value, all.Kvs[1].Value} {
			if string(other) == string(kv.Value) {
				continue
			}
			if _, err := c.Put(ctx, string(kv.Key), string(other), clientv3.WithIgnoreLease()); err != nil {
				t.Fatal(err)
			}
			if err := reads[key](); usererr.Problems(err) == nil || !strings.Contains(err.Error(), secret.Env) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// A job with another secret neither joins nor changes one that runs, and takes the place of one whose
// nodes have died.
func TestJobsWithDifferentSecrets(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := hosts(t, s)
	b := connectWith(t, s, secret.New(), time.Second, nil)
	brief, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := b.Register(brief, 3, "host", func(string) bool { return true }); usererr.Problems(err) == nil || !strings.Contains(err.Error(), "give all nodes of the job the same secret") {
		t.Errorf("got %v", err)
	}
	if err := a.Close(false); err != nil {
		t.Fatal(err)
	}
	if node, err := b.Register(ctx, 3, "host", nobody); node != 0 || err != nil {
		t.Errorf("node %d, %v", node, err)
	}
	if h, err := b.Host(ctx); h.Rev != 0 || err != nil {
		t.Errorf("host %+v, %v", h, err)
	}
}

// A launcher whose key is there with another lease, because etcd has carried out a request that failed
// for the launcher, keeps its number.
func TestRegistrationThatFailedOnceIsKept(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := joins(t, s, 0)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const key = "/trainctl/it/nodes/0"
	old, err := c.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(ctx, key, string(old.Kvs[0].Value), clientv3.WithLease(other.ID))
	_, err2 := c.Revoke(ctx, clientv3.LeaseID(old.Kvs[0].Lease))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for lease := int64(other.ID); lease == int64(other.ID); {
		select {
		case <-a.Ousted():
			t.Fatal("it takes itself for another launcher")
		case <-time.After(50 * time.Millisecond):
		}
		r, err := c.Get(ctx, key)
		if err != nil || len(r.Kvs) != 1 {
			t.Fatal(r, err)
		}
		lease = r.Kvs[0].Lease
	}
}

// What a job whose nodes have all died left is removed by the next one, but not while the store of
// the job still answers.
func TestNextJobBeginsAnew(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx := patient(t)
	a := hosts(t, s)
	if err := errors.Join(a.Write(ctx, "group", []byte("1")), a.Set(ctx, "k", []byte("v")), a.Close(false)); err != nil {
		t.Fatal(err)
	}
	b := connect(t, s)
	asked := 0
	node, err := b.Register(ctx, 3, "host", func(addr string) bool { // it answers for a while
		asked++
		return asked < 3 && addr == "a:1"
	})
	if node != 0 || asked != 3 || err != nil {
		t.Fatalf("node %d after %d answers: %v", node, asked, err)
	}
	if left := keys(t, s); !slices.Equal(left, []string{"/trainctl/it/nodes/0"}) {
		t.Errorf("left: %v", left)
	}
	joins(t, s, 1)
	joins(t, s, 2)
	full, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := connect(t, s).Register(full, 3, "host", nobody); err == nil || !strings.Contains(err.Error(), "all 3 nodes") {
		t.Errorf("a fourth of three: %v", err)
	}
}
