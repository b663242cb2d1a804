package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/jsonvalue"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Spec describes what to measure. It is sent to the ranks as JSON.
type Spec struct {
	Backend string         // a built-in name or a path
	Options map[string]any // of the backend, as given
	World   int            // ranks
	Hosts   int            // network namespaces that the ranks are spread over; 0: none, all on this host
	Sizes   []int          // bytes of a buffer, each a multiple of the element
	DType   tensor.DType   // of the elements
	Budget  time.Duration  // of measuring, per size
	Idle    time.Duration  // of computing between two calls
	Rest    time.Duration  // of sleeping before a call that is measured as idle; 0: none is
	Timeout time.Duration  // of one call
}

// Defaults for what a caller leaves at zero.
const (
	DefaultBudget  = 1500 * time.Millisecond
	DefaultTimeout = 30 * time.Second
	DefaultRest    = 2 * time.Millisecond
)

// Check reports the first thing that cannot be measured.
func (s *Spec) Check() error {
	if s.World < 1 {
		return fmt.Errorf("%d ranks: at least 1 is needed", s.World)
	}
	if s.Hosts == 1 || s.Hosts < 0 || s.Hosts > 0 && s.World%s.Hosts != 0 {
		return fmt.Errorf("%d ranks on %d hosts: at least 2 hosts with equal numbers of ranks are needed", s.World, s.Hosts)
	}
	if len(s.Sizes) == 0 {
		return fmt.Errorf("no sizes to measure")
	}
	for _, n := range s.Sizes {
		if n <= 0 || n%s.DType.Size() != 0 {
			return fmt.Errorf("%d bytes are not a multiple of the size of %v", n, s.DType)
		}
	}
	return nil
}

// checked are the options as the backend gets them.
func (s *Spec) checked(info sdk.Info) (sdk.Options, error) {
	o, problems := sdk.CheckOptions("backend.options", info.Options, s.Options)
	return o, problems.Err()
}

// decode reads what json.Marshal wrote, and keeps integers integers.
func (s *Spec) decode(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(s); err != nil {
		return err
	}
	jsonvalue.Object(s.Options)
	return nil
}

// Result is what was measured for one size.
type Result struct {
	Bytes   int     `json:"bytes"`
	Backend string  `json:"backend"`
	World   int     `json:"nproc"`
	P50     float64 `json:"p50_us"` // the slowest rank's median
	P99     float64 `json:"p99_us"` // the slowest rank's
	// AlgBW is Bytes per P50, BusBW that times 2(n-1)/n: what every link of a
	// ring would have to carry (NCCL tests, doc/PERFORMANCE.md). Both in
	// decimal gigabytes per second.
	AlgBW float64 `json:"algbw_gbps"`
	BusBW float64 `json:"busbw_gbps"`
	Calls int     `json:"calls"`
	// Idle is the median of calls that all ranks start after sleeping, each measured
	// from the last rank's call. 0 where it was not measured.
	Idle float64 `json:"idle_p50_us,omitempty"`
	// Hosts is how many namespaces the ranks are spread over, 0 for none.
	Hosts int `json:"hosts,omitempty"`
	// Isolation is where a backend ran that can run in the rank's process too:
	// "inproc" there, "isolated" in its own.
	Isolation string `json:"isolation,omitempty"`
	// DeviceBytes is how much less memory the GPU of rank 0 has free since the backends
	// were started: the plugins' contexts and NCCL's buffers, of all ranks on that GPU.
	DeviceBytes int `json:"device_bytes,omitempty"`
	// Limit is the median of [inPlace], 0 where it was not measured.
	Limit float64 `json:"in_place_p50_us,omitempty"`
}

func (s *Spec) result(size int, p50, p99 time.Duration, calls int) Result {
	bw := float64(size) / float64(max(p50, 1))
	return Result{
		Bytes: size, Backend: s.Backend, World: s.World, P50: micros(p50), P99: micros(p99), Calls: calls, Hosts: s.Hosts,
		AlgBW: bw, BusBW: bw * 2 * float64(s.World-1) / float64(s.World),
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Program is how ranks are started.
type Program struct {
	Exe      string   // serves Rank with Args, and built-in plugins
	Args     []string // command line of a rank
	Peer     []string // command line of another program's rank, to compare with; nil: none
	Builtins []host.Builtin
	// CUDA opens the driver for ranks whose backend reduces memory of GPUs; nil:
	// the system's.
	CUDA func() (*driver.CUDA, error)

	foreign bool // not trainctl: its rank 0 has the store
}
