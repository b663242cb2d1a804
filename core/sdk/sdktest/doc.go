// Package sdktest holds the conformance suites: what the core relies on, as
// tests that a plugin's own test calls in a few lines.
package sdktest
