//go:build linux

package e2e

var configFaults []fault
