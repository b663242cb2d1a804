// Package hostnet guards the connections between the hosts of a job: in which
// ports they are listened for (Listen), how both ends prove who they are
// (TLS), and how little a stranger who finds the port can do (Limiter, Notes).
// core/base/keepalive says how long they live.
//
// It imports nothing else of this module. Start with listen.go.
package hostnet
