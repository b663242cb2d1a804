//go:build linux

package e2e

var diskFaults []fault
