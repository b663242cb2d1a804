package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
	"github.com/trainctl/trainctl/core/job/secret"
)

// A try of a write that reaches etcd late, behind the record that came after it, changes nothing. A
// try that succeeded although its answer was lost counts.
func TestLateTryOfAWrite(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	j, err := Connect(ctx, Config{Endpoints: []string{s.Addr}, Secret: secret.New()}, "it", time.Second, nil)
	fail(err)
	defer j.Close(true)
	_, err = j.Register(ctx, 1, "host", func(string) bool { return true })
	fail(err)
	_, err = j.Campaign(ctx, Host{})
	fail(err)
	holds := func(want string) {
		t.Helper()
		if r, err := j.Records(ctx); err != nil || string(r["group"]) != want {
			t.Fatalf("the record is %q, want %q: %v", r["group"], want, err)
		}
	}
	fail(j.Write(ctx, "group", []byte("1")))
	for _, val := range []string{"2", "2"} { // the same value may be written twice
		late := j.write("group", []byte(val))
		r, err := j.txn(ctx, late.conditions, late.put) // its answer is lost
		fail(err)
		if !r.Succeeded {
			t.Fatal("the first try failed")
		}
		fail(j.Write(ctx, "group", []byte(val)))
		holds(val)
		fail(j.Write(ctx, "group", []byte("3")))
		if r, err = j.txn(ctx, late.conditions, late.put); err != nil || r.Succeeded {
			t.Errorf("a late try succeeded: %v", err)
		}
		holds("3")
	}
}
