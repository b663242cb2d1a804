package arm64

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// everyWord emits each instruction that is printed as a word.
func everyWord() []inst {
	c := newCode(nil)
	regs := []Reg{c.temp(), c.temp(), c.temp()}
	var names []string
	for name := range ops {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := 3
		if unary[strings.Fields(name)[0]] {
			n = 2
		}
		c.neon(name, regs[:n]...)
	}
	for _, name := range []string{"fmla", "fmls", "fmul", "bfdot"} {
		c.byElement(name, regs[0], regs[1], regs[2])
	}
	for _, name := range []string{"shl", "ushr", "sshr"} {
		c.shift(name, 32, 7, regs[0], regs[1])
		c.shift(name, 64, 52, regs[0], regs[1])
	}
	return slices.DeleteFunc(c.insts, func(i inst) bool { return i.encoding == nil })
}

var unary = map[string]bool{
	"fsqrt": true, "frintn": true, "scvtf": true, "fcvtns": true, "fcvtzs": true, "neg": true, "mvn": true, "rev64": true,
	"fcvtl": true, "fcvtl2": true, "fcvtn": true, "fcvtn2": true, "ushll": true, "ushll2": true, "sshll": true, "sshll2": true,
	"sqxtun": true, "sqxtun2": true, "xtn": true,
}

// The words are those of LLVM's assembler for the same text: testdata/encodings.txt is
// what `llvm-mc -triple=aarch64 -show-encoding` makes of its second column.
func TestWordsAreWhatAnotherAssemblerWrites(t *testing.T) {
	text, err := os.ReadFile("testdata/encodings.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[text] = word
	}
	number := func(r Reg) int { return []int{3, 18, 29}[r] }
	for _, i := range everyWord() {
		word, text, _ := strings.Cut(strings.TrimPrefix(i.print(number), "\tWORD\t$0x"), " // ")
		if want[text] != word {
			t.Errorf("%s is %s, want %q", text, word, want[text])
		}
	}
}
