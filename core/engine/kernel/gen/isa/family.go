package isa

// Family is the kernels of one pair of generated files, which lie in one package
// below core/engine/kernel.
type Family struct {
	Folder, Name string
	Emit         func(*Asm) // emits them for one instruction set
	ISAs         []ISA      // the narrowest first
	// Choose asks for Go functions that call the kernel of the active level. Without it, a
	// written function chooses, by height or width of a tile, too.
	Choose bool
	// Lanes is for those functions to be told the size of vectors: narrow rows may take AVX2's where there are wider ones.
	Lanes bool
}

// In are families of one folder.
func In(folder string, families ...Family) []Family {
	for i := range families {
		families[i].Folder = folder
	}
	return families
}

// Instruction sets of a family. Those for AVX2 are compiled to NEON as well.
var (
	Each   = []ISA{AVX2, AVX512}
	Wide   = []ISA{AVX512}     // needs more registers than AVX2 has
	Narrow = []ISA{AVX2}       // replaces a wide one there
	BF16   = []ISA{AVX512BF16} // multiplies bfloat16
	BFDOT  = []ISA{NEONBF16}   // does so on arm64
)

// Field is a field of a struct, and the offset at which the assembly reads it.
type Field struct {
	Name   string
	Offset int
}

// Layout is a struct that assembly of a folder's package reads.
type Layout struct {
	Folder, Name string
	Fields       []Field
}

// Numbered are kernels of one purpose for the numbers 1 to Most, such as the rows of a tile, for AVX2 and
// AVX-512. A generated function, runX for the base x, chooses between them on every architecture.
type Numbered struct {
	Folder, Base, Doc string
	Struct            string // that it takes, or "" for one of the base's name
	Most              int
	NarrowMost        int  // of the kernels for AVX2, or 0 for as many
	Wide              bool // exist for AVX-512 alone
}
