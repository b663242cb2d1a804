// Package keepalive ends connections between hosts in bounded time when the
// network no longer carries them. Every connection of a job that may leave its
// host is made with [Dialer] or [Listener].
//
// TCP alone is silent in both states that a cut link leaves behind. A
// connection without data in flight waits for ever; keep-alive probes end it
// after Limit. One with unacknowledged data retransmits for a quarter of an
// hour, and probes are suspended meanwhile; there the user timeout (RFC 5482)
// ends it. Either way a read or write fails with ETIMEDOUT.
//
// It imports nothing else of this module. Start with keepalive.go.
package keepalive
