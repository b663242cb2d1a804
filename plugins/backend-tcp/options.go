package tcp

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

// settings are the plugin's options after reading.
type settings struct {
	iface   string
	ports   hostnet.Ports
	shm     bool
	connect time.Duration
	segment int // bytes

	algorithm    string
	reproducible bool
	connections  int
	tls          bool
}

// defaultSegment: with smaller segments ranks switch between sending and receiving
// more often than needed, larger ones do not stay in the cache.
const defaultSegment = 512 << 10

func options() []sdk.Option {
	least, most := 4096.0, float64(64<<20)
	lowest, highest := 1.0, 65535.0
	one, many := 1.0, 16.0
	return []sdk.Option{
		{Name: "interface", Type: sdk.String, Default: "",
			Doc: "Interface name or IP address to listen on. Default: the interface that reaches the master address."},
		{Name: "port_range", Type: sdk.IntList, Min: &lowest, Max: &highest,
			Doc: "First and last port to listen on, for firewalls. Default: the system picks a free port."},
		{Name: "shm", Type: sdk.Boolean, Default: true,
			Doc: "Use shared memory between ranks of one host; false uses sockets everywhere."},
		{Name: "connect_timeout", Type: sdk.Duration, Default: "30s",
			Doc: "Time limit until all ranks are connected."},
		{Name: "segment_bytes", Type: sdk.Int, Default: int64(defaultSegment), Unit: "bytes", Min: &least, Max: &most,
			Doc: "Large buffers are sent in segments of this size, one in transfer while another is reduced."},
		{Name: "algorithm", Type: sdk.String, Default: algorithmAuto, Enum: append([]string{algorithmAuto}, anyOrder...),
			Doc: "Algorithm of all-reduce over sockets. Keep \"auto\", which picks the fastest by costs measured at the start and uses shared memory within hosts; the other values are experiments, see docs/scaling.md."},
		{Name: "reproducible", Type: sdk.Boolean, Default: true,
			Doc: "Let \"auto\" pick only algorithms that add in rank order, so that a sum has the same bits in every run and on every network."},
		{Name: "connections", Type: sdk.Int, Default: int64(1), Min: &one, Max: &many,
			Doc: "TCP connections between two ranks of different hosts. More than one helps on networks that a single TCP stream cannot saturate."},
		{Name: "tls", Type: sdk.Boolean, Default: false,
			Doc: "Encrypt connections between hosts with TLS 1.3 and a key derived from the job's secret. Must be equal on all ranks."},
	}
}

func readSettings(o sdk.Options) (settings, error) {
	s := settings{
		iface:   o.String("interface"),
		shm:     !o.Has("shm") || o.Bool("shm"),
		connect: 30 * time.Second,
		segment: defaultSegment,

		algorithm: algorithmAuto, reproducible: !o.Has("reproducible") || o.Bool("reproducible"),
		connections: max(1, int(o.Int("connections"))), tls: o.Bool("tls"),
	}
	if o.Has("algorithm") {
		s.algorithm = o.String("algorithm")
	}
	if o.Has("connect_timeout") {
		if s.connect = o.Duration("connect_timeout"); s.connect <= 0 {
			return s, fmt.Errorf("backend tcp: connect_timeout = %q is not a positive duration such as \"30s\"", o.String("connect_timeout"))
		}
	}
	if o.Has("segment_bytes") {
		// A multiple of every element size, so that no element is cut.
		if s.segment = int(o.Int("segment_bytes")) &^ 63; s.segment < 4096 {
			return s, fmt.Errorf("backend tcp: segment_bytes = %d is less than 4096", o.Int("segment_bytes"))
		}
	}
	var err error
	if s.ports, err = hostnet.PortsOf(o.Ints("port_range")); err != nil {
		return s, fmt.Errorf("backend tcp: %w", err)
	}
	return s, nil
}
