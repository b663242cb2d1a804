package tcp

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The test binary serves its own plugin, as trainctl does.
var builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "tcp", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return New() }}},
}

func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	tune()
	goleak.VerifyTestMain(m)
}

// tune changes defaults: suites run in parallel, because faults mostly wait, and rapid
// draws fewer groups, because each opens many connections.
func tune() {
	flag.Parse()
	for name, value := range map[string]string{"test.parallel": "8", "rapid.checks": "30"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			f.Value.Set(value)
		}
	}
}

func newBackend(testing.TB) sdk.Backend { return New() }

func TestShared(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{New: newBackend})
}

// So many ranks on one host that they meet at a gate.
func TestCrowd(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{New: newBackend, Worlds: []int{8}, Counts: []int{0, 1, 1000, 50_001}})
}

func TestSockets(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     newBackend,
		Options: map[string]any{"shm": false},
		Worlds:  []int{2, 3, 8},
	})
}

// Every algorithm by name, on worlds that are powers of two and that are not.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	for _, a := range anyOrder {
		t.Run(a, func(t *testing.T) {
			t.Parallel()
			sdktest.Backend(t, sdktest.BackendOptions{
				New:      newBackend,
				Options:  map[string]any{"shm": false, "algorithm": a, "segment_bytes": int64(8192), "reproducible": false},
				Worlds:   []int{2, 3, 5, 6},
				Counts:   []int{0, 1, 3, 1000, 50_001},
				AnyOrder: a != algorithmDirect && a != algorithmMesh,
				NoArena:  true,
			})
		})
	}
}

// Several connections with TLS give the same results as one without.
func TestTLSStreams(t *testing.T) {
	t.Parallel()
	for _, a := range []string{algorithmMesh, algorithmRing} {
		sdktest.Backend(t, sdktest.BackendOptions{
			New:      newBackend,
			Options:  map[string]any{"shm": false, "tls": true, "connections": int64(3), "algorithm": a, "segment_bytes": int64(8192)},
			Worlds:   []int{2, 3},
			Counts:   []int{0, 1, 1000, 100_001},
			AnyOrder: a == algorithmRing,
			NoArena:  true,
		})
	}
}

// Many small segments, of which the last is shorter.
func TestSegments(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     newBackend,
		Options: map[string]any{"shm": false, "segment_bytes": int64(4100)},
		Worlds:  []int{2, 3, 5},
		Counts:  []int{0, 1, 50_001, 100_000},
		NoArena: true,
	})
}

// plugins starts processes of this test binary. They may take long to close: on a machine that runs
// many tests they wait for a core.
func plugins(env ...string) *host.Host {
	return host.New(host.Options{Builtins: builtins, StopTimeout: 10 * time.Second, SetEnv: append(env, "GORACE=atexit_sleep_ms=0")})
}

func TestWire(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{
		New:       sdktest.BackendProcess(plugins(), "tcp"),
		Worlds:    []int{1, 2, 3},
		NoPrivate: true,
	})
}

func TestInlineWire(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     sdktest.BackendProcess(plugins(pb.EnvDataPlane+"=inline"), "tcp"),
		Worlds:  []int{2, 3},
		Counts:  []int{0, 1, 100, 70_000}, // more than a message; faults are those of small calls, as nothing but the plane differs
		NoArena: true,
	})
}
