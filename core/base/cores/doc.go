// Package cores tells on which core a thread runs, and moves threads to other cores.
//
// Threads that spin while they wait keep their core as busy as threads that compute, so
// the system sees no imbalance and may leave two of them on one core while another is
// idle. Those who spin therefore compare their cores and part.
//
// It imports core/base/system alone. Where the system cannot tell the core, nothing moves.
package cores

import _ "github.com/trainctl/trainctl/core/base/system"
