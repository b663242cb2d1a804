// Package parity holds end-to-end tests that compare results: with PyTorch's, and
// between settings that must not change them, or only by rounding. curves_test.go and
// gpt_test.go follow PyTorch's losses, whose files testdata/*.py make; resume_test.go,
// world_test.go, comm_test.go, ddp_test.go, uneven_test.go and precision_test.go vary
// where a run begins, its ranks, how they communicate, and its number format.
package parity
