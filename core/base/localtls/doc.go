// Package localtls secures the connection between a host and a plugin that it has started. Each side makes a key and a
// certificate when it starts, and accepts the other's certificate alone (mutual TLS, RFC 8446).
//
// It imports nothing else of this module. Start with localtls.go.
package localtls
