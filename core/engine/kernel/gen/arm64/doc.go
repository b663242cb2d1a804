// Package arm64 is the back end of the generator for arm64: it compiles what a kernel's
// description emits for AVX2 to NEON and prints Go's arm64 assembly.
//
// avo knows x86 alone, so its instructions in their AVX2 spelling are the intermediate
// form: a vector register of 8 float32 is a pair of NEON registers of 4, and the 16
// registers of AVX2 are the 32 of NEON. Everything that AVX2 does within each half of a
// register takes one instruction per half here, and every kernel written for AVX2 with
// instructions that this package knows exists for NEON without another line.
//
//	compile.go    a file of avo's functions to the text of an assembly file
//	registers.go  avo's registers as those of the code below
//	code.go       the code being built: instructions over virtual registers
//	encode.go     NEON instructions, most of which Go's assembler does not know
//	scalar.go     integers, addresses, comparisons and branches
//	memory.go     addresses, loads and stores
//	lanes.go      loads and stores of the first lanes of a vector
//	vector.go     what works on each lane alone
//	shuffle.go    what moves lanes
//	flow.go       which registers are live where, and dead code
//	color.go      virtual registers to those of the machine
//
// Three things are better on NEON than instruction by instruction: a vector whose lanes
// are all the same takes one register and not two; a factor that is only broadcast
// for multiply-adds stays a scalar, which NEON multiplies a vector with directly; and
// the mask of a masked move is a number of lanes, tested by a branch that is predicted.
//
// Start with compile.go.
package arm64
