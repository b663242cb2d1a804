package sdk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error is a plugin's error of no more special type. Errors that a plugin
// returns reach the host as *StallError, *MismatchError, *PeerError,
// *usererr.Error or, for everything else, as *Error with the text.
type Error struct {
	Code string // for programs, one of the codes below or your own; empty if the plugin gave none
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

	// CodeCorrupt says that the data cannot be used as they are: a file is
	// damaged, or gone since the data set was opened. Only the user can change
	// that: the job ends with exit code 2 at once, whatever restarts are left. An
	// error that may pass, as of a network, has another code or none. See [Corrupt].
	CodeCorrupt = "dataset.corrupt"

	// CodeEndOfData says that a data set has no more samples for this rank in
	// this epoch; see [ErrEndOfData].
	CodeEndOfData = "dataset.end"
)

// Corrupt is what Fill returns for data that cannot be used. The text is the
// error's, and names the file and what to do about it.
func Corrupt(err error) error { return corrupt{err} }

type corrupt struct{ error }

func (c corrupt) Unwrap() error { return c.error }

// As makes it an *Error with the code, which is what travels.
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

// ErrEndOfData is what Fill returns when it has none of the batch's samples and
// will have none of the epoch's later ones: a stream that ends before the
// promised number of samples. What the job makes of it is for ddp.uneven to say.
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
