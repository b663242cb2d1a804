//go:build !linux || portable

package fakegpu

// thread is the same for all threads where the system gives them no number: a call on
// a thread without a context then goes unnoticed.
func thread() int { return 1 }
