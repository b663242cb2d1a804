package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// suiteName is the test that holds all others.
const suiteName = "Suite"

// suiteRequest is the request of plugins test to the process that runs the suite.
type suiteRequest struct {
	Plugin   string        `json:"plugin"`
	Kind     sdk.Kind      `json:"kind"`
	Set      []string      `json:"set,omitempty"` // as on the command line: JSON has no integers
	Quick    bool          `json:"quick,omitempty"`
	AnyOrder bool          `json:"any_order,omitempty"`
	Timeout  time.Duration `json:"timeout"`
	Call     time.Duration `json:"call_timeout"`

	options map[string]any
}

// pluginsSuiteCommand is the hidden command that plugins test starts: package
// testing ends the process that it runs in.
func pluginsSuiteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "suite REQUEST", Hidden: true, Args: exactly("REQUEST"),
		RunE: func(_ *cobra.Command, args []string) error {
			var r suiteRequest
			if err := json.Unmarshal([]byte(args[0]), &r); err != nil {
				return usagef("%v", err)
			}
			var err error
			if r.options, err = parseOptions(string(r.Kind), r.Set); err != nil {
				return err
			}
			return r.main()
		},
	}
}

// main runs the suite outside of go test, and ends the process.
func (r suiteRequest) main() error {
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
		[]testing.InternalTest{{Name: suiteName, F: r.suite}}, nil, nil)
	return nil
}

func (r suiteRequest) suite(t *testing.T) {
	h := host.New(host.Options{Builtins: builtins()})
	switch r.Kind {
	case sdk.KindBackend:
		sdktest.Backend(t, r.backend(h))
	case sdk.KindDataset:
		sdktest.Dataset(t, sdktest.DatasetOptions{New: sdktest.DatasetPlugin(h, r.Plugin), Options: r.options, Samples: r.samples(), CallTimeout: r.Call})
	case sdk.KindPrecision:
		sdktest.Precision(t, sdktest.PrecisionOptions{New: sdktest.PrecisionPlugin(h, r.Plugin), Options: r.options, CallTimeout: r.Call})
	default:
		t.Fatalf("no suite for %q", r.Kind)
	}
}

// backend chooses sizes: a plugin process has private buffers only on the inline
// data plane.
func (r suiteRequest) backend(h *host.Host) sdktest.BackendOptions {
	o := sdktest.BackendOptions{
		New: sdktest.BackendProcess(h, r.Plugin), Options: r.options, AnyOrder: r.AnyOrder, CallTimeout: r.Call,
		Worlds: []int{1, 2, 3, 4}, Counts: []int{0, 1, 3, 1000, 65537, 1 << 20},
	}
	if r.Quick {
		o.Worlds, o.Counts = []int{1, 2}, []int{0, 1, 1000}
	}
	inline := os.Getenv(pb.EnvDataPlane) == pb.PlaneInline
	o.NoArena, o.NoPrivate = inline, !inline
	return o
}

func (r suiteRequest) samples() int {
	if r.Quick {
		return 100
	}
	return 10_000
}
