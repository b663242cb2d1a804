package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// outage is a time during which etcd does not answer. It is reported once it has taken longer than
// reportAfter, and when it is over.
type outage struct {
	say func(string) // nil: nothing is reported

	mu    sync.Mutex
	last  time.Time // when a request was last answered
	since time.Time // zero: the last request was answered
	told  bool
}

const reportAfter = time.Second

// tried records how a request has ended that was begun at a time. One whose ctx has ended shows
// nothing.
func (j *Job) tried(ctx context.Context, begin time.Time, err error) {
	answered := err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound)
	if !answered {
		_, answered = explain(j.config, err)
	}
	if j.outage.say == nil || ctx.Err() != nil && !answered {
		return
	}
	j.mu.Lock()
	means := "this node waits for it"
	if j.node >= 0 {
		means = "training continues, but until etcd answers no rank can join, and if a rank or the node that hosts the store is lost, the others wait, for at most backend.timeout"
	}
	j.mu.Unlock()
	switch news, since := j.outage.note(begin, answered); news {
	case began:
		j.outage.say(fmt.Sprintf("etcd at %s has not answered since %s (%v); %s", j.endpoints(), since.Format(time.TimeOnly), err, means))
	case ended:
		j.outage.say(fmt.Sprintf("etcd at %s answers again, after %v", j.endpoints(), time.Since(since).Round(time.Second)))
	}
}

// What there is to report about an outage.
const (
	began = iota + 1
	ended
)

// note records a request, and returns what to report of the outage that began at since.
func (o *outage) note(begin time.Time, answered bool) (news int, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !answered && begin.Before(o.last) {
		return 0, since // one that began later was answered
	}
	if o.since.IsZero() {
		o.since = begin
	}
	since = o.since
	switch {
	case answered:
		if o.told {
			news = ended
		}
		o.last, o.since, o.told = time.Now(), time.Time{}, false
	case !o.told && time.Since(since) > reportAfter:
		news, o.told = began, true
	}
	return news, since
}

// endpoints are the addresses of etcd, for messages.
func (j *Job) endpoints() string {
	var l []string
	for _, e := range j.config.Endpoints {
		l = append(l, address(e))
	}
	return strings.Join(l, ", ")
}
