package sdk

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error is a plugin's error of no more special type. Errors that a plugin
// returns reach the host as *StallError, *MismatchError, *PeerError,
// *diag.Error or, for everything else, as *Error with the text.
type Error struct {
	Code string // for programs: "dataset.corrupt"; empty if the plugin gave none
	Text string
}

// Codes that the SDK itself uses.
const (
	CodePanic    = "panic"    // the plugin's code panicked; Text has the first lines of the stack
	CodeProtocol = "protocol" // the host's request made no sense
	CodeCanceled = "canceled" // the host gave up or the operation was aborted
	CodeDeadline = "deadline" // the deadline passed

	// CodeUnavailable says that something the plugin needs, a device or a
	// library, is not on this machine. The job ends with exit code 3.
	CodeUnavailable = "unavailable"
)

func (e *Error) Error() string { return e.Text }

func (e *StallError) Error() string {
	s := fmt.Sprintf("%v #%d stalled", e.Op, e.Seq)
	if e.Bucket >= 0 {
		s += fmt.Sprintf(" in bucket %d", e.Bucket)
	}
	s += fmt.Sprintf(" after %v", e.Waited.Round(time.Millisecond))
	if len(e.Missing) > 0 {
		s += ": " + rankList(e.Missing) + " did not arrive"
	}
	return s
}

func rankList(ranks []int) string {
	word := "ranks "
	if len(ranks) == 1 {
		word = "rank "
	}
	s := make([]string, len(ranks))
	for i, r := range ranks {
		s[i] = strconv.Itoa(r)
	}
	return word + strings.Join(s, ", ")
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("ranks called different collectives: rank %d %s, rank %d %s", e.Rank, e.Mine, e.Peer, e.Its)
}

func (e *PeerError) Error() string {
	s := fmt.Sprintf("rank %d", e.Peer)
	if e.Seq > 0 {
		s += fmt.Sprintf(" in collective #%d", e.Seq)
	}
	return s + ": " + e.Cause
}
