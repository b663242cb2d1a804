//go:build linux

package e2e

var soakFaults []fault
