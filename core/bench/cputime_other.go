//go:build !linux || portable

package bench

import "time"

// CPU times are not measured here.

func processTime(int) cpuTime { return cpuTime{} }

func threadTime() time.Duration { return 0 }
