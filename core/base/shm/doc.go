// Package shm is the data plane between a rank and its plugins: arenas of
// shared memory, passed as file descriptors, and a submission ring with a doorbell
// in one of them.
//
// It trusts nothing that another process can write: it checks indices and lengths
// read from shared memory against the agreed sizes.
//
// It imports core/base/system alone. Start with shm.go for arenas, ring.go
// for the ring.
package shm

import _ "github.com/trainctl/trainctl/core/base/system"
