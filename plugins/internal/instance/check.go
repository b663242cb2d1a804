package instance

import (
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/sdk"
)

// CheckCollective refuses a call over host memory that is invalid by itself.
func (s *State) CheckCollective(g sdk.Group, c *sdk.Collective) error {
	if wrong := c.Wrong(g.Rank, g.WorldSize); wrong != "" {
		return s.Refuse(c, "%s", wrong)
	}
	if c.Op == sdk.OpBarrier {
		return nil
	}
	if len(c.Buf) != c.Size(g.WorldSize) {
		return s.Refuse(c, "the buffer has %d bytes", len(c.Buf))
	}
	if p := unsafe.Pointer(unsafe.SliceData(c.Buf)); uintptr(p)%uintptr(c.DType.Size()) != 0 {
		return s.Refuse(c, "the buffer is not aligned to its elements")
	}
	return nil
}

// Refuse returns the error of a call that is invalid.
func (s *State) Refuse(c *sdk.Collective, format string, args ...any) error {
	return fmt.Errorf("backend %s: %v: %s", s.Name, c, fmt.Sprintf(format, args...))
}
