//go:build linux

package e2e

var checkpointFaults []fault
