// Package isa emits vector instructions: isa.go begins functions and loads their arguments,
// x86.go has the instruction sets and how each spells an operation, bf16.go what multiplies
// bfloat16, loops.go loops over vectors. family.go describes a pair of generated files.
package isa
