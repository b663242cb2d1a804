// Package mpi is the backend plugin "mpi": collectives by the MPI library of a site, which
// knows its fast network.
//
// It opens Open MPI's or MPICH's library at run time; the build does not need them. Their
// binary interfaces differ (abi.go): handles of Open MPI are addresses of exported symbols,
// those of MPICH and of the libraries that share its interface (Intel MPI, MVAPICH, Cray
// MPICH) are integers. The library must be that of the launcher (launcher.go).
//
// The plugin's process is the MPI process of its rank: mpirun or srun starts the rank, the
// plugin inherits the variables and the descriptor by which a process finds its launcher,
// and calls MPI_Init_thread; the rank itself never does. One thread makes all calls
// (plugins/internal/clib), so the level is MPI_THREAD_FUNNELED.
//
// MPI neither compares the ranks' calls nor reports missing ranks, and cannot withdraw a
// collective that has begun. So the ranks first exchange their calls, by MPI, and compare
// them (plugins/internal/agreement); over TCP they learn which ranks are missing or have
// failed. Operations are nonblocking and polled (wait.go): the deadline, a peer's failure
// and Close end the wait, and after a failure only the end of the process ends MPI.
//
// MPI moves the data, and this package adds it, in rank order (collective.go). MPI has no
// bfloat16 and leaves the order of additions to the library; here the bits are those of the
// backend tcp, on all ranks and in every run. With reproducible = false MPI adds float32
// and float64 itself.
//
// It imports core/base, core/contract, core/sdk, core/tensor, plugins/internal/agreement,
// plugins/internal/clib, plugins/internal/instance and plugins/internal/reduce. Start with
// do.go.
package mpi
