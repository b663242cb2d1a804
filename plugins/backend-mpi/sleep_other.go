//go:build !linux

package mpi

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
