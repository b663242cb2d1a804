package agreement

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
)

// Connections to the coordinator use TLS with keys derived from the job's secret, so nothing is
// read from a peer that does not know it. The first message names the group and the
// rank; the coordinator answers with "welcome" or "refused".
func keys(name string, g sdk.Group) (*hostnet.TLS, error) {
	return hostnet.NewTLS(g.Secret, "backend "+name, "")
}

// hello names a group and a rank of it.
type hello struct {
	Job                                string
	Generation, Epoch, WorldSize, Rank int
}

func helloOf(g sdk.Group) hello {
	return hello{g.JobID, g.Generation, g.Epoch, g.WorldSize, g.Rank}
}

// refusal is why the coordinator refuses a peer that knows the secret.
type refusal struct{ cause, text string }

func (r *refusal) Error() string { return r.text }

// check compares a peer's group with the coordinator's.
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

// receive reads a peer's hello and returns its rank.
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

// handshake sends this rank's hello and reads the coordinator's answer.
func handshake(to *json.Encoder, from *json.Decoder, g sdk.Group) error {
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

// final reports whether another attempt would get the same answer. A connection that is
// closed without an answer may have been dropped in favour of others.
func final(err error) bool {
	return errors.As(err, new(*refusal)) || errors.Is(err, hostnet.ErrUnauthenticated)
}
