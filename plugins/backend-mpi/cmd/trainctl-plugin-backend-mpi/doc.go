// Command trainctl-plugin-backend-mpi is the backend plugin "mpi" as a program of its own.
//
// It imports core/sdk and plugins/backend-mpi.
package main
