//go:build linux

package e2e

var endFaults []fault
