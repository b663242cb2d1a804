// Package doctor checks what runs need from a machine: cores, shared memory,
// limits, network names, plugins that start, and GPU libraries.
//
// It imports core/app, core/base, core/engine/cuda and core/engine/kernel. Start
// with doctor.go.
package doctor
