// Package rundirtest writes run directories for the tests of what reads them.
//
// It imports core/report/event and core/report/timeline.
package rundirtest
