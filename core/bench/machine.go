package bench

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/peak"
	"github.com/trainctl/trainctl/core/tensor"
)

// Machine is the peak performance of one core of this machine, from which the floor of
// a kernel is computed.
type Machine struct {
	CPU    string      `json:"cpu,omitempty"`              // as CPUModel names it
	Level  string      `json:"level"`                      // instruction set of the kernels
	GFLOPS float64     `json:"peak_gflops"`                // float32 multiply-adds in registers, a multiplication and an addition as two
	BF16   float64     `json:"peak_bf16_gflops,omitempty"` // the same with products of bfloat16; 0: the CPU has none
	Caches []Bandwidth `json:"bandwidth"`
}

// Bandwidth is the memory bandwidth of one core where so many bytes are touched again and again, in decimal gigabytes per second.
type Bandwidth struct {
	Bytes   int     `json:"bytes"`
	GBps    float64 `json:"gbps"`       // read and written by y += x
	Written float64 `json:"write_gbps"` // of stores alone; 0: not measured
}

// bandwidthSizes reach from the second-level cache of every CPU to the memory behind all caches.
var bandwidthSizes = []int{512 << 10, 4 << 20, 16 << 20, 128 << 20}

// Measure takes about budget for each of its figures. It needs an otherwise idle core.
func Measure(budget time.Duration) (Machine, error) {
	level, err := kernel.Active()
	if err != nil {
		return Machine{}, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := Machine{CPU: CPUModel(), Level: level.String()}
	var flops int64
	d := fastest(budget, func() { flops = peak.MultiplyAdds(20000) })
	m.GFLOPS = rate(float64(flops), d)
	if kernel.HasBF16() {
		d := fastest(budget, func() { flops = peak.MultiplyAddsBF16(20000) })
		m.BF16 = rate(float64(flops), d)
	}
	for _, n := range bandwidthSizes {
		x, y := ones(n/8), ones(n/8)
		both := fastest(budget, func() { elementwise.AddTo(y, x) })
		y = ones(n / 4)
		stores := fastest(budget, func() { elementwise.Fill(y, 1) })
		m.Caches = append(m.Caches, Bandwidth{Bytes: n, GBps: rate(float64(n)*3/2, both), Written: rate(float64(n), stores)})
	}
	return m, nil
}

// work is what a kernel has to do at least.
type work struct {
	dtype          tensor.DType // of what it multiplies
	flops          int64
	bytes, written int64 // read and written, and of these written
}

// floor is the least time that work can take: of arithmetic, of moving bytes between the core and the cache that holds them all, and of
// storing those that are written, which often takes longer than reading as many.
func (m *Machine) floor(w work) time.Duration {
	peak := m.GFLOPS
	if w.dtype == tensor.BF16 && m.BF16 > 0 {
		peak = m.BF16
	}
	var c Bandwidth
	for _, c = range m.Caches {
		if w.bytes <= int64(c.Bytes) {
			break
		}
	}
	ns := max(float64(w.flops)/peak, float64(w.bytes)/c.GBps)
	if c.Written > 0 {
		ns = max(ns, float64(w.written)/c.Written)
	}
	return time.Duration(ns)
}

// rate is in units of 10⁹ per second.
func rate(amount float64, d time.Duration) float64 { return amount / float64(max(1, d.Nanoseconds())) }

// fastest repeats f for the budget, at least three times, and returns the
// shortest run: the limit of a machine is the best it has reached.
func fastest(budget time.Duration, f func()) time.Duration {
	f()
	best, end := time.Duration(1<<62), time.Now().Add(budget)
	for n := 0; n < 3 || time.Now().Before(end); n++ {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// CPUModel is what /proc/cpuinfo calls the processor; empty where there is none.
func CPUModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
