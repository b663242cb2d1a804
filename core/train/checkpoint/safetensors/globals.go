package safetensors

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxPickle bounds how much of a pickle is searched for the functions that it would call.
const maxPickle = 8 << 20

// foreignGlobal names the first thing, as "os.system", that reading the pickle
// would import and that weights have no use for; "" if it finds none. It walks
// over the instructions of the pickle machine (Python's pickletools documents
// them) and executes none.
func foreignGlobal(r io.ReaderAt, size int64) string {
	raw := io.Reader(io.NewSectionReader(r, 0, size))
	if z, err := zip.NewReader(r, size); err == nil {
		i := slices.IndexFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, string(zipEntry)) })
		if i < 0 {
			return ""
		}
		f, err := z.File[i].Open()
		if err != nil {
			return ""
		}
		defer f.Close()
		raw = f
	}
	w := pickleWalk{r: bufio.NewReader(io.LimitReader(raw, maxPickle)), memo: map[int]string{}}
	for {
		module, name, err := w.nextGlobal()
		if err != nil {
			return ""
		}
		if !ofWeights(module) {
			return module + "." + name
		}
	}
}

// ofWeights says whether a state dict's pickle may name things of a module.
func ofWeights(module string) bool {
	root, _, _ := strings.Cut(module, ".")
	return slices.Contains([]string{"torch", "numpy", "collections", "_codecs"}, root)
}

// pickleWalk reads a pickle's instructions one after the other. Of the machine's
// stack it keeps the last two strings, which is what STACK_GLOBAL takes.
type pickleWalk struct {
	r      *bufio.Reader
	last   [2]string
	memo   map[int]string
	stored int // what MEMOIZE has stored so far
}

var errPickle = errors.New("not a pickle file")

// Instructions by the form of what follows them: so many bytes, a length of so
// many bytes and then as much, or lines of text.
var (
	fixedArg   = map[byte]int{'K': 1, 0x80: 1, 0x82: 1, 'M': 2, 0x83: 2, 'J': 4, 0x84: 4, 'G': 8, 0x95: 8}
	countedArg = map[byte]int{'U': 1, 'C': 1, 0x8c: 1, 0x8a: 1, 'T': 4, 'B': 4, 'X': 4, 0x8b: 4, 0x8d: 8, 0x8e: 8, 0x96: 8}
)

const (
	lineArg = "ILFSVP"
	noArg   = ".(012NQR]abde}lostu)" + "\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x97\x98"
)

// nextGlobal advances to the next instruction that imports something.
func (w *pickleWalk) nextGlobal() (module, name string, err error) {
	for {
		op, err := w.r.ReadByte()
		if err != nil {
			return "", "", err
		}
		switch op {
		case 'c', 'i': // GLOBAL, INST
			module, err1 := w.line()
			name, err2 := w.line()
			w.push("")
			return module, name, errors.Join(err1, err2)
		case 0x93: // STACK_GLOBAL
			module, name = w.last[0], w.last[1]
			w.push("")
			return module, name, nil
		}
		if err := w.step(op); err != nil {
			return "", "", err
		}
	}
}

// step reads what follows an instruction that imports nothing.
func (w *pickleWalk) step(op byte) error {
	if n, ok := fixedArg[op]; ok {
		_, err := w.r.Discard(n)
		return err
	}
	if n, ok := countedArg[op]; ok {
		text, err := w.counted(n)
		w.push(text)
		return err
	}
	switch {
	case strings.IndexByte(lineArg, op) >= 0:
		text, err := w.line()
		w.push(strings.Trim(text, `'"`))
		return err
	case strings.IndexByte(noArg, op) >= 0:
		return nil
	}
	return w.remember(op)
}

// remember handles the instructions of the memo, from which strings come back.
func (w *pickleWalk) remember(op byte) error {
	var n int
	var err error
	switch op {
	case 0x94: // MEMOIZE
		n = w.stored
	case 'q', 'h':
		n, err = w.number(1)
	case 'r', 'j':
		n, err = w.number(4)
	case 'p', 'g':
		var text string
		text, err = w.line()
		n, _ = strconv.Atoi(text)
	default:
		return errPickle
	}
	if op == 'h' || op == 'j' || op == 'g' {
		w.push(w.memo[n])
		return err
	}
	w.memo[n] = w.last[1]
	w.stored++
	return err
}

func (w *pickleWalk) push(text string) { w.last[0], w.last[1] = w.last[1], text }

// line reads the text up to the next newline.
func (w *pickleWalk) line() (string, error) {
	text, err := w.r.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

// number reads a little-endian number of n bytes.
func (w *pickleWalk) number(n int) (int, error) {
	var b [8]byte
	_, err := io.ReadFull(w.r, b[:n])
	return int(binary.LittleEndian.Uint64(b[:])), err
}

// counted reads a length of n bytes and as many bytes, of which a name's worth
// is kept.
func (w *pickleWalk) counted(n int) (string, error) {
	size, err := w.number(n)
	if err != nil || size < 0 || size > maxPickle {
		return "", errPickle
	}
	kept := make([]byte, min(size, 256))
	if _, err = io.ReadFull(w.r, kept); err == nil {
		_, err = w.r.Discard(size - len(kept))
	}
	return string(kept), err
}
