package sdk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error is a plugin's error without a more specific type. Errors that a plugin
// returns reach the host as *StallError, *MismatchError, *PeerError,
// *usererr.Error or, for all others, as *Error with the text.
type Error struct {
	Code string // for programs, one of the codes below or your own; empty if the plugin gave none
	Text string
}

// Codes that the SDK itself uses.
const (
	CodePanic    = "panic"    // the plugin's code panicked; Text has the first lines of the stack
	CodeProtocol = "protocol" // the host's request was invalid
	CodeCanceled = "canceled" // the host gave up or the operation was aborted
	CodeDeadline = "deadline" // the deadline passed

	// CodeUnavailable means that this machine lacks something that the plugin needs,
	// such as a device or a library. The job ends with exit code 3.
	CodeUnavailable = "unavailable"

	// CodeCorrupt means that the data cannot be used: a file is damaged, or was
	// removed after the data set was opened. Only the user can fix that: the job ends
	// with exit code 2 at once, without using restarts. An error that may disappear,
	// such as a network error, has another code or none. See [Corrupt].
	CodeCorrupt = "dataset.corrupt"

	// CodeEndOfData means that a data set has no more samples for this rank in this
	// epoch; see [ErrEndOfData].
	CodeEndOfData = "dataset.end"
)

// Corrupt wraps an error for Fill to return if data cannot be used. The text of the
// error should name the file and the fix.
func Corrupt(err error) error { return corrupt{err} }

type corrupt struct{ error }

func (c corrupt) Unwrap() error { return c.error }

// As converts it to an *Error with the code, the form that is sent to the host.
func (c corrupt) As(target any) bool {
	e, ok := target.(**Error)
	if ok {
		*e = &Error{Code: CodeCorrupt, Text: c.Error()}
	}
	return ok
}

// IsCorrupt reports whether err is of [Corrupt], also when it has come from
// another process.
func IsCorrupt(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeCorrupt
}

// ErrEndOfData is returned by Fill if it has none of the batch's samples and none of
// the epoch's later ones: a stream that ends before the announced number of samples.
// The setting ddp.uneven decides how the job continues.
var ErrEndOfData error = &Error{Code: CodeEndOfData, Text: "the data set has no more samples in this epoch"}

// IsEndOfData reports whether err is ErrEndOfData, also when it has come from
// another process.
func IsEndOfData(err error) bool {
	if err == nil {
		return false // and allocate nothing
	}
	var e *Error
	return errors.As(err, &e) && e.Code == CodeEndOfData
}

func (e *Error) Error() string { return e.Text }

func (e *StallError) Error() string {
	if e.Op == OpNone {
		return fmt.Sprintf("no connection with %s after %v", rankList(e.Missing), e.Waited.Round(time.Millisecond))
	}
	s := fmt.Sprintf("%v #%d stalled", e.Op, e.Seq)
	if e.Bucket >= 0 {
		s += fmt.Sprintf(" in bucket %d", e.Bucket)
	}
	if e.Waited > 0 {
		s += fmt.Sprintf(" after %v", e.Waited.Round(time.Millisecond))
	}
	if len(e.Missing) == 0 {
		return s + ": no rank is known to be missing, so the collective itself hangs"
	}
	return s + ": " + rankList(e.Missing) + " did not arrive"
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
