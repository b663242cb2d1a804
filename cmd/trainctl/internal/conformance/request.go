package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/jsonvalue"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// suiteName is the test that holds all others.
const suiteName = "Suite"

// Request says what to test, and how thoroughly.
type Request struct {
	Plugin   string         `json:"plugin"` // a path, or the name of a built-in plugin
	Kind     sdk.Kind       `json:"kind"`
	Options  map[string]any `json:"options,omitempty"`
	Sandbox  *sandbox.Rules `json:"sandbox,omitempty"`
	Quick    bool           `json:"quick,omitempty"`
	AnyOrder bool           `json:"any_order,omitempty"`
	Timeout  time.Duration  `json:"timeout"`
	Call     time.Duration  `json:"call_timeout"`
}

// Parse reads what String wrote.
func Parse(text string) (r Request, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&r)
	jsonvalue.Object(r.Options)
	return r, err
}

// String writes the request as one argument of a command line.
func (r Request) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // options came from TOML
	}
	return string(text)
}

// Main runs the suite outside of go test, and ends the process: package testing does
// so when the tests are over.
func (r Request) Main(builtins []host.Builtin) error {
	testing.Init()
	for name, value := range map[string]string{"test.v": "test2json", "test.timeout": r.Timeout.String()} {
		if err := flag.Set(name, value); err != nil {
			return fmt.Errorf("-%s: %w", name, err)
		}
	}
	if err := flag.CommandLine.Parse(nil); err != nil { // the arguments are ours
		return err
	}
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: suiteName, F: func(t *testing.T) { r.suite(t, host.New(host.Options{Builtins: builtins})) }}}, nil, nil)
	return nil
}

func (r Request) suite(t *testing.T, h *host.Host) {
	h = h.WithTerms(map[host.Key]host.Terms{{Kind: r.Kind, Plugin: r.Plugin}: {Sandbox: r.Sandbox}})
	switch r.Kind {
	case sdk.KindBackend:
		sdktest.Backend(t, r.backend(h))
	case sdk.KindDataset:
		sdktest.Dataset(t, sdktest.DatasetOptions{New: sdktest.DatasetPlugin(h, r.Plugin), Options: r.Options, Samples: r.samples(), CallTimeout: r.Call})
	case sdk.KindPrecision:
		sdktest.Precision(t, sdktest.PrecisionOptions{New: sdktest.PrecisionPlugin(h, r.Plugin), Options: r.Options, CallTimeout: r.Call})
	case sdk.KindObserver:
		sdktest.Observer(t, sdktest.ObserverOptions{New: sdktest.ObserverPlugin(h, r.Plugin), Options: r.Options, CallTimeout: r.Call})
	case sdk.KindLayer:
		sdktest.Layer(t, sdktest.LayerOptions{New: sdktest.LayerPlugin(h, r.Plugin), Options: r.Options, CallTimeout: r.Call})
	default:
		t.Fatalf("no suite for %q", r.Kind)
	}
}

// backend chooses sizes: a plugin process has private buffers only on the inline
// data plane.
func (r Request) backend(h *host.Host) sdktest.BackendOptions {
	o := sdktest.BackendOptions{
		New: sdktest.BackendProcess(h, r.Plugin), Options: r.Options, AnyOrder: r.AnyOrder, CallTimeout: r.Call,
		Worlds: []int{1, 2, 3, 4}, Counts: []int{0, 1, 3, 1000, 65537, 1 << 20},
	}
	if r.Quick {
		o.Worlds, o.Counts = []int{1, 2}, []int{0, 1, 1000}
	}
	inline := os.Getenv(pb.EnvDataPlane) == pb.PlaneInline
	o.NoArena, o.NoPrivate = inline, !inline
	return o
}

func (r Request) samples() int {
	if r.Quick {
		return 100
	}
	return 10_000
}
