// Package cgroup reads the limits of this process's Linux control groups and their
// out-of-memory kills: version 1, version 2 and both at once, nested, and seen from
// inside a container. Other systems have no limits.
//
// It imports core/base/system alone. Start with cgroup.go.
package cgroup

import _ "github.com/trainctl/trainctl/core/base/system"
