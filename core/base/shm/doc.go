// Package shm is the data plane between a rank and its plugins: arenas of
// shared memory, passed as file descriptors, and a submission ring with a
// doorbell that lies in one of them.
//
// Nothing that another process can write is trusted: indices and lengths read
// from shared memory are checked against what was agreed before.
//
// It imports nothing else of this module. Start with shm.go for arenas, ring.go
// for the ring.
package shm
