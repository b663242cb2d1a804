package nccl

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

// Lines are under TLS with keys that derive from the job's secret, so nothing is
// read from a peer that does not know it. The first message says which rank of
// which group calls; the hub answers with "welcome" or "refused".
func keys(g sdk.Group) (*hostnet.TLS, error) { return hostnet.NewTLS(g.Secret, "backend nccl", "") }

// hello says which rank of which group somebody is.
type hello struct {
	Job                                string
	Generation, Epoch, WorldSize, Rank int
}

func helloOf(g sdk.Group) hello {
	return hello{g.JobID, g.Generation, g.Epoch, g.WorldSize, g.Rank}
}

// refusal is why the hub does not admit a peer that knows the secret.
type refusal struct{ cause, text string }

func (r *refusal) Error() string { return r.text }

// check compares a caller's group with the hub's.
func (h hello) check(g sdk.Group) error {
	for _, c := range []struct {
		what      string
		its, mine any
	}{{"job", h.Job, g.JobID}, {"generation", h.Generation, g.Generation}, {"epoch", h.Epoch, g.Epoch}, {"world size", h.WorldSize, g.WorldSize}} {
		if c.its != c.mine {
			return &refusal{c.what, fmt.Sprintf("belongs to another group: its %s is %v, that of this group %v", c.what, c.its, c.mine)}
		}
	}
	if h.Rank < 0 || h.Rank >= g.WorldSize {
		return &refusal{"rank", fmt.Sprintf("claims to be rank %d of %d", h.Rank, g.WorldSize)}
	}
	return nil
}

// receive reads a caller's hello and returns its rank.
func receive(from *json.Decoder, g sdk.Group) (int, error) {
	var m message
	if err := from.Decode(&m); err != nil {
		return 0, err
	}
	if m.Kind != "hello" || m.Hello == nil {
		return 0, &refusal{"protocol", "does not speak this protocol: use the same plugin on all ranks"}
	}
	return m.Hello.Rank, m.Hello.check(g)
}

// greet says who this rank is and reads the hub's answer.
func greet(to *json.Encoder, from *json.Decoder, g sdk.Group) error {
	h := helloOf(g)
	if err := to.Encode(message{Kind: "hello", Hello: &h}); err != nil {
		return err
	}
	var m message
	switch err := from.Decode(&m); {
	case err != nil:
		return err
	case m.Kind == "refused":
		return &refusal{"", "it refused this rank, which " + m.Text}
	case m.Kind != "welcome":
		return &refusal{"", "it does not speak this protocol: use the same plugin on all ranks"}
	}
	return nil
}

// final reports whether calling again would give the same answer. A connection
// that ends without one may have made room for others.
func final(err error) bool {
	return errors.As(err, new(*refusal)) || errors.Is(err, hostnet.ErrStranger)
}
