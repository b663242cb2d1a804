package sdktest

import (
	"slices"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/race"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// BackendOptions configures [Backend].
type BackendOptions struct {
	// New makes the instance of one rank. It is called once per rank and
	// group, from one goroutine. It may start a plugin process: see [BackendProcess].
	New func(t testing.TB) sdk.Backend

	// NewGroup, if set, makes the instances of all ranks of a group in place of New, for a
	// plugin whose processes another program starts together. What they need until they
	// are closed may end in a Cleanup of t.
	NewGroup func(t testing.TB, world int) []sdk.Backend

	// Options is the plugin's table as a user would write it. Defaults are
	// filled in.
	Options map[string]any

	// Worlds are the world sizes, ascending; default 1, 2, 3, 4 and 7. With -short those
	// above 3 are left out, unless there are no others, and faults happen at one size.
	Worlds []int

	// Counts are the element counts; default 0, 1, 3, 1000, 65537 and,
	// without the race detector, 1<<20.
	// Every combination of types and reductions runs on those up to 1000.
	Counts []int

	// AnyOrder is for backends that do not add in rank order, such as a ring:
	// their sums are compared within rounding. They must still be bit-equal
	// on all ranks, and from run to run if Info says "bitwise".
	AnyOrder bool

	// NoArena skips shared memory and uses only private buffers.
	NoArena bool

	// CallTimeout bounds calls that must return, such as a collective that all ranks
	// call; default 60 s. Calls that are meant to time out have one second.
	CallTimeout time.Duration

	// NoPrivate skips private buffers: a plugin process has them only with the inline
	// data plane.
	NoPrivate bool
}

// Backend runs the conformance suite of communication backends. A plugin's own
// test is a call of it:
//
//	func TestBackend(t *testing.T) {
//		sdktest.Backend(t, sdktest.BackendOptions{
//			New: func(testing.TB) sdk.Backend { return mybackend.New() },
//		})
//	}
//
// What Info does not list is skipped, with the reason.
func Backend(t *testing.T, o BackendOptions) {
	b := newBackendSuite(t, o)
	t.Run("info", b.testInfo)
	b.testWorlds(t)
	t.Run("faults", b.testFaults)
}

// BackendResults is the part of [Backend] that checks what collectives compute: for
// another path of a backend whose faults are the same.
func BackendResults(t *testing.T, o BackendOptions) { newBackendSuite(t, o).testWorlds(t) }

func (b *backendSuite) testWorlds(t *testing.T) {
	for _, w := range b.worlds(1) {
		t.Run(worldName(w), func(t *testing.T) { b.testResults(t, w) })
	}
}

func newBackendSuite(t *testing.T, o BackendOptions) *backendSuite {
	b := &backendSuite{BackendOptions: o}
	if b.Worlds == nil {
		b.Worlds = []int{1, 2, 3, 4, 7}
	}
	if testing.Short() {
		few := slices.IndexFunc(b.Worlds, func(n int) bool { return n > 3 })
		if few > 0 {
			b.Worlds = b.Worlds[:few]
		}
	}
	if b.Counts == nil {
		b.Counts = []int{0, 1, 3, 1000, 65537}
		if !race.Enabled {
			b.Counts = append(b.Counts, 1<<20)
		}
	}
	if b.CallTimeout <= 0 {
		b.CallTimeout = defaultCallTimeout
	}
	instance := o.New(t)
	b.info = instance.Info()
	if w, ok := instance.(*remoteBackend); ok {
		b.remote, b.process = true, w.PID() != 0
	}
	if err := instance.Close(); err != nil {
		t.Errorf("Close of an instance that was never opened: %v", err)
	}
	return b
}

type backendSuite struct {
	BackendOptions
	info    sdk.Info
	remote  bool // called through a host: contexts of calls have no effect
	process bool // and in another process, which the host can end
}

func (b *backendSuite) testInfo(t *testing.T) {
	i := b.info
	if i.Kind != sdk.KindBackend || i.Name == "" || i.Version == "" || i.Summary == "" {
		t.Errorf("Kind is %q, Name %q, Version %q, Summary %q: all are shown to users", i.Kind, i.Name, i.Version, i.Summary)
	}
	if len(i.Ops) == 0 || len(i.DTypes) == 0 || len(i.Devices) == 0 {
		t.Errorf("Ops %v, DTypes %v, Devices %v: the core uses only what is listed", i.Ops, i.DTypes, i.Devices)
	}
	if i.Determinism != "" && i.Determinism != "bitwise" {
		t.Errorf(`Determinism is %q; "bitwise" and "" have a meaning`, i.Determinism)
	}
	for _, op := range i.Ops {
		if !op.Valid() {
			t.Errorf("Ops has %v", op)
		}
	}
}

// worlds returns the world sizes that the backend supports, from least on.
func (b *backendSuite) worlds(least int) (w []int) {
	for _, n := range b.Worlds {
		if n >= least && (b.info.MaxWorld == 0 || n <= b.info.MaxWorld) {
			w = append(w, n)
		}
	}
	return w
}

func (b *backendSuite) can(op sdk.Op) bool { return slices.Contains(b.info.Ops, op) }

// need skips a test of operations that the backend does not list.
func (b *backendSuite) need(t *testing.T, ops ...sdk.Op) {
	t.Helper()
	for _, op := range ops {
		if !b.can(op) {
			t.Skipf("Info.Ops does not list %v", op)
		}
	}
}

func (b *backendSuite) needType(t *testing.T, d tensor.DType) {
	t.Helper()
	if !slices.Contains(b.info.DTypes, d) {
		t.Skipf("Info.DTypes does not list %v", d)
	}
}
