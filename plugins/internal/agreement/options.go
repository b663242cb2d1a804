package agreement

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

// Settings are the options that a backend publishes for the agreement.
type Settings struct {
	Connect time.Duration // until all ranks have joined
	Ports   hostnet.Ports
}

const defaultConnect = 60 * time.Second

// Options are the keys of [Settings] for a library.
func Options(library string) []sdk.Option {
	lowest, highest := 1.0, 65535.0
	return []sdk.Option{
		{Name: "connect_timeout", Type: sdk.Duration, Default: defaultConnect.String(),
			Doc: "Time limit until all ranks have joined the communicator."},
		{Name: "port_range", Type: sdk.IntList, Min: &lowest, Max: &highest,
			Doc: "First and last port where rank 0 listens for the other ranks; " + library + "'s own connections do not use it. Default: the system picks a free port."},
	}
}

// ReadSettings reads the options of the backend of a name.
func ReadSettings(name string, o sdk.Options) (s Settings, err error) {
	s.Connect = defaultConnect
	if o.Has("connect_timeout") {
		if s.Connect = o.Duration("connect_timeout"); s.Connect <= 0 {
			return s, fmt.Errorf("backend %s: connect_timeout = %q is not a positive duration such as \"60s\"", name, o.String("connect_timeout"))
		}
	}
	if s.Ports, err = hostnet.PortsOf(o.Ints("port_range")); err != nil {
		return s, fmt.Errorf("backend %s: %w", name, err)
	}
	return s, nil
}
