//go:build linux

package e2e

var memberFaults []fault
