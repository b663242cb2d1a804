package ddptest

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
)

// Backend is a backend of one rank that completes each call as it is submitted.
type Backend struct {
	Do      func(c *sdk.Collective) error // nil: leaves the buffer as it is
	Waiting func() error                  // called by Wait; nil: nothing
}

// Submit makes the call.
func (b *Backend) Submit(c *sdk.Collective) (ticket uint64, err error) {
	if b.Do != nil {
		err = b.Do(c)
	}
	return c.Seq, err
}

// Wait returns at once.
func (b *Backend) Wait(uint64) error {
	if b.Waiting == nil {
		return nil
	}
	return b.Waiting()
}

// NewArena is an arena of size bytes that ends with the test.
func NewArena(t testing.TB, size int) *sdk.Arena {
	t.Helper()
	a, err := shm.New("test", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return &sdk.Arena{ID: 1, Name: "test", Arena: a}
}
