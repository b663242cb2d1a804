//go:build linux

package e2e

var memoryFaults []fault
