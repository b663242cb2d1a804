//go:build linux

package e2e

var pluginFaults []fault
