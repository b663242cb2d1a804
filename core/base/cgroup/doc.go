// Package cgroup reads what Linux's control groups allow this process and what
// they did to it: version 1, version 2 and both at once, nested, and seen from
// inside a container. Elsewhere nothing is limited.
//
// It imports nothing else of this module. Start with cgroup.go.
package cgroup
