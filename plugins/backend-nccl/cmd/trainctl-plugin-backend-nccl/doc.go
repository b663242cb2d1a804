// Command trainctl-plugin-backend-nccl is the backend plugin "nccl" as a program of its own.
//
// It imports core/sdk and plugins/backend-nccl.
package main
