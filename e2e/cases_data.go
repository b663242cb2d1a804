//go:build linux

package e2e

var dataFaults []fault
