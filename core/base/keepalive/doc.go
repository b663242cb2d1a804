// Package keepalive ends connections between hosts in bounded time when the network
// fails. Every connection of a job that may leave its host is created with [Dialer]
// or [Listener].
//
// By default TCP does not notice a broken network for a long time. A connection
// without data in flight waits for ever; keep-alive probes end it after Limit. One
// with unacknowledged data retransmits for a quarter of an hour without probes; the
// user timeout (RFC 5482) ends it earlier. In both cases a read or write fails with
// ETIMEDOUT.
//
// It imports core/base/system alone. Start with keepalive.go.
package keepalive

import _ "github.com/trainctl/trainctl/core/base/system"
