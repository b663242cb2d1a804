package agreement

import (
	"context"
	"errors"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// Library exchanges calls between the ranks.
type Library interface {
	// Run calls f where the library may be called, and returns soon after ctx ends.
	Run(ctx context.Context, f func() error) error

	// Exchange sends mine to all ranks, and returns what they have sent, by rank, valid
	// until the next call. Run calls it. It waits as long as the guard permits.
	Exchange(mine []byte, g clib.Guard) (all []byte, err error)
}

// announceAfter is how long a rank waits in an exchange before it announces its call to
// the coordinator, which then compares the calls that wait and names missing ranks.
const announceAfter = 100 * time.Millisecond

// errLate ends an exchange at its deadline.
var errLate = errors.New("not all ranks called in time")

// exchange compares this rank's call with those of all others.
func (m *Member) exchange(ctx context.Context, c *sdk.Collective, stalled Stalled) error {
	m.round++
	mine := callOf(c)
	mine.Round = m.round
	var frame [frameSize]byte
	mine.encode(frame[:])
	announced := false
	all, err := m.Library.Exchange(frame[:], m.exchanging(ctx, mine, stalled, &announced))
	if err != nil {
		return err
	}
	if announced {
		m.client.withdraw(mine)
	}
	for rank := range m.group.WorldSize {
		its := parseCall(all[rank*frameSize:])
		if its.Round = mine.Round; rank != m.group.Rank && !mine.matches(its) {
			return &sdk.MismatchError{Rank: m.group.Rank, Peer: rank, Mine: mine.String(), Its: its.String()}
		}
	}
	return nil
}

// exchanging is the guard of an exchange, which sets announced when it announces the call.
func (m *Member) exchanging(ctx context.Context, mine call, stalled Stalled, announced *bool) clib.Guard {
	start := time.Now()
	guard := m.Guard(ctx, mine.Seq, stalled)
	return func() error {
		late := errors.Is(ctx.Err(), context.DeadlineExceeded)
		if !*announced && (late || time.Since(start) > announceAfter) {
			*announced = true
			m.client.announce(mine)
		}
		if late && !m.life.Closed() {
			return errLate
		}
		return guard()
	}
}
