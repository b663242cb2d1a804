package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/job/secret"
)

// Store is the key-value store that the ranks of a job share. All ranks of a job
// use the same keys. Values last for one start of the group, so a restarted group
// never reads a value of the previous one (connections of another generation are
// refused).
//
// Stores are safe for concurrent use. A method that waits returns a *TimeoutError
// when ctx's deadline passes, ctx's error when it is cancelled, a *PeerLeftError
// as soon as a rank of the job is dead, and ErrStoreLost when the connection to the
// store is lost. Byte slices passed in may be reused after the call; those returned
// belong to the caller.
type Store interface {
	Set(ctx context.Context, key string, val []byte) error

	// Get waits until the key is set.
	Get(ctx context.Context, key string) ([]byte, error)

	// Add adds to a counter that starts at 0 and returns the sum. A key set
	// with Set is not a counter.
	Add(ctx context.Context, key string, delta int64) (int64, error)

	// Wait waits until all keys are set.
	Wait(ctx context.Context, keys ...string) error

	// CompareAndSet stores val if the key holds old; an empty old also matches a
	// key that is not set. It returns what the key holds afterwards and whether
	// this call stored it.
	CompareAndSet(ctx context.Context, key string, old, val []byte) (now []byte, swapped bool, err error)

	// Delete removes a key and reports whether it was set.
	Delete(ctx context.Context, key string) (bool, error)

	// Gather waits until ranks 0..size-1 have called it with the same name and
	// returns the values of all, by rank. The n-th call of one rank matches the
	// n-th call of the others. The whole result must fit into one frame.
	Gather(ctx context.Context, name string, rank, size int, mine []byte) ([][]byte, error)

	// Barrier is Gather without values.
	Barrier(ctx context.Context, name string, rank, size int) error
}

// Exchange is an all-gather: it returns the values of all ranks, by rank, such as
// the endpoints of a backend or the hash of a configuration. All ranks call it
// with the same key, any number of times.
func Exchange(ctx context.Context, s Store, key string, rank, size int, mine []byte) ([][]byte, error) {
	return s.Gather(ctx, "exchange/"+key, rank, size, mine)
}

// Peer is one rank as the store knows it. Host and Addr are empty for a rank
// that has never connected, unless the roster gave the host.
type Peer struct {
	Rank int    `json:"rank"`
	Host string `json:"host,omitempty"`
	Addr string `json:"addr,omitempty"`
}

func (p Peer) String() string {
	s := "rank " + strconv.Itoa(p.Rank)
	switch {
	case p.Addr != "":
		return s + " (" + p.Host + ", " + p.Addr + ")"
	case p.Host != "":
		return s + " (" + p.Host + ", not connected)"
	}
	return s + " (not connected)"
}

// Progress is the state of a wait: for Gather and Barrier which ranks have called
// it, for Get and Wait which ranks are connected.
type Progress struct {
	Op      string // "connect", "get", "wait", "gather"
	Key     string // key, name or address
	Waited  time.Duration
	Arrived []Peer // by rank
	Missing []Peer // by rank
	Cause   error  // the last error, nil if there was none
}

func (p Progress) String() string {
	what := p.Op
	if p.Key != "" {
		what += " " + strconv.Quote(p.Key)
	}
	s := fmt.Sprintf("%s: %d arrived", what, len(p.Arrived))
	if len(p.Arrived) > 0 {
		s += " (" + rankList(p.Arrived) + ")"
	}
	if len(p.Missing) > 0 {
		s += ", missing " + describe(p.Missing)
	}
	if p.Cause != nil {
		s += ": " + p.Cause.Error()
	}
	return s
}

// TimeoutError is a wait that reached its deadline. It wraps
// context.DeadlineExceeded.
type TimeoutError struct {
	Progress
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %v: %v", e.Waited.Round(time.Millisecond), e.Progress)
}

// Unwrap gives context.DeadlineExceeded and the last cause.
func (e *TimeoutError) Unwrap() []error {
	if e.Cause == nil {
		return []error{context.DeadlineExceeded}
	}
	return []error{context.DeadlineExceeded, e.Cause}
}

// PeerLeftError ends every wait for a rank that has disconnected.
type PeerLeftError struct {
	Peer  Peer
	Clean bool   // it left on purpose (Client.Close), so it is not dead
	Cause string // the error of its connection, "" where it was just closed
}

func (e *PeerLeftError) Error() string {
	if e.Clean {
		return fmt.Sprintf("%v left the job before the other ranks were done", e.Peer)
	}
	if e.Cause != "" {
		return fmt.Sprintf("%v disconnected unexpectedly: %s", e.Peer, e.Cause)
	}
	return fmt.Sprintf("%v disconnected unexpectedly: its process or its host died", e.Peer)
}

// RefusedError is a store's answer to a process that does not belong to its job.
type RefusedError struct {
	Addr   string
	Reason string

	again    bool // may be another start of the same job: try again
	otherJob bool // this rank's store may be at another port
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the store at %s refused this rank: %s", e.Addr, e.Reason)
}

// ErrStoreLost reports a broken connection to the store: the process that hosts it
// died or left.
var ErrStoreLost = errors.New("lost the connection to the job's store")

// ErrNotThisJob reports a port on which something other than this job's store answers.
var ErrNotThisJob = errors.New("another program listens there: it does not know this job's secret")

// SecretError reports a store whose job has a different secret than this process.
// It wraps ErrNotThisJob.
type SecretError struct {
	Addr string

	sameJob bool // it has the same name, see DialOptions.PublicName
}

func (e *SecretError) Error() string {
	return fmt.Sprintf("the job's store at %s has a different secret than this process; fix: give all hosts the same %s, or the same launch.secret_file", e.Addr, secret.Env)
}

func (e *SecretError) Unwrap() error { return ErrNotThisJob }

func rankList(peers []Peer) string {
	s := make([]string, len(peers))
	for i, p := range peers {
		s[i] = strconv.Itoa(p.Rank)
	}
	return strings.Join(s, ", ")
}

// describe lists at most eight peers.
func describe(peers []Peer) string {
	const most = 8
	s := make([]string, 0, most+1)
	for _, p := range peers[:min(most, len(peers))] {
		s = append(s, p.String())
	}
	if more := len(peers) - most; more > 0 {
		s = append(s, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(s, ", ")
}

func byRank(peers []Peer) []Peer {
	slices.SortFunc(peers, func(a, b Peer) int { return a.Rank - b.Rank })
	return peers
}

// hostname never fails: a host without a name still has an address.
func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown-host"
	}
	return h
}
