//go:build linux

package e2e

var valueFaults []fault
