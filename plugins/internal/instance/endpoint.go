package instance

import (
	"encoding/json"
	"fmt"
)

// Endpoint is the beginning of what a rank tells the others about itself. Backends embed it; the
// whole is sent as JSON, of at most 4 KiB.
type Endpoint struct {
	Version int `json:"v"` // of the backend's endpoints
	Rank    int `json:"rank"`
}

const maxEndpoint = 4 << 10

// Common returns the part that all backends share.
func (e Endpoint) Common() Endpoint { return e }

// endpoint is a backend's own type.
type endpoint interface {
	Common() Endpoint
	// Check returns what is wrong with the rest of the endpoint.
	Check() error
}

// Encode returns an endpoint as Listen returns it. It must consist of strings and
// numbers.
func Encode[E endpoint](e E) []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return raw
}

// ParseEndpoints parses what Connect gets: one endpoint of each rank.
func ParseEndpoints[E endpoint](raw [][]byte, world, version int) ([]E, error) {
	if len(raw) != world {
		return nil, fmt.Errorf("%d endpoints for a world of %d", len(raw), world)
	}
	all := make([]E, world)
	for r := range raw {
		var err error
		if all[r], err = ParseEndpoint[E](raw[r], r, version); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ParseEndpoint parses and checks the endpoint of one rank.
func ParseEndpoint[E endpoint](raw []byte, rank, version int) (e E, err error) {
	if len(raw) > maxEndpoint {
		return e, fmt.Errorf("endpoint of rank %d: %d bytes, at most %d are allowed", rank, len(raw), maxEndpoint)
	}
	if err = json.Unmarshal(raw, &e); err == nil {
		switch c := e.Common(); {
		case c.Version != version:
			err = fmt.Errorf("version %d, but this plugin uses %d: use the same plugin on all ranks", c.Version, version)
		case c.Rank != rank:
			err = fmt.Errorf("it belongs to rank %d", c.Rank)
		default:
			err = e.Check()
		}
	}
	if err != nil {
		return e, fmt.Errorf("endpoint of rank %d: %w", rank, err)
	}
	return e, nil
}
