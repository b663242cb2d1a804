// Package instance has what the built-in backends share: one call at a time until Close
// (instance.go), checks of a call (check.go), and the endpoints that ranks exchange
// (endpoint.go).
//
// It imports core/base/hostnet, core/base/keepalive and core/sdk. Start with instance.go.
package instance
