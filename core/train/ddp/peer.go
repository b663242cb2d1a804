package ddp

import (
	"fmt"
	"strings"
)

// PeerFailed reports that this rank cannot continue because another one failed.
type PeerFailed struct {
	Rank int
	Text string // the first line of the other rank's error, which that rank shows whole
}

// NewPeerFailed returns the error for the other ranks; text is that of the failed rank's own error.
func NewPeerFailed(rank int, text string) *PeerFailed {
	first, _, more := strings.Cut(text, "\n")
	if more {
		first = strings.TrimSuffix(first, ":")
	}
	return &PeerFailed{Rank: rank, Text: first}
}

func (e *PeerFailed) Error() string { return fmt.Sprintf("rank %d: %s", e.Rank, e.Text) }
