//go:build linux

package e2e

var networkFaults []fault
