package main

import "fmt"

// instructions is a level that both sides are held to; empty: each uses the
// best that the processor has.
type instructions string

const avx2 instructions = "avx2"

// UnmarshalText is for the flag.
func (i *instructions) UnmarshalText(text []byte) error {
	if *i = instructions(text); *i != "" && *i != avx2 {
		return fmt.Errorf("only %s can be asked of both sides", avx2)
	}
	return nil
}

func (i instructions) MarshalText() ([]byte, error) { return []byte(i), nil }

// trainctl is the environment that holds trainctl to the level.
func (i instructions) trainctl() []string {
	if i == "" {
		return nil
	}
	return []string{"TRAINCTL_CPU=" + string(i)}
}

// torch is the same for PyTorch's own kernels, oneDNN and MKL.
func (i instructions) torch() []string {
	if i == "" {
		return nil
	}
	return []string{"ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2"}
}

// note is how a report's first line names the level.
func (i instructions) note() string {
	if i == "" {
		return ""
	}
	return " held to " + string(i)
}
