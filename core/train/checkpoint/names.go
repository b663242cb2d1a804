package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A name is one entry of the checkpoints directory that belongs to a step.
type name struct {
	base string
	step int
	kind kind
}

type kind uint8

const (
	complete  kind = iota // step-7
	replaced              // step-7.old-…: was complete when it got this name
	temporary             // step-7.tmp-…, latest.tmp-…: never to be read
)

func dirName(step int) string { return "step-" + strconv.Itoa(step) }

func (n name) path(dir string) string { return filepath.Join(dir, n.base) }

func parseName(base string) (name, bool) {
	if strings.Contains(base, ".tmp-") {
		return name{base: base, kind: temporary}, true
	}
	n := name{base: base}
	digits, isStep := strings.CutPrefix(base, "step-")
	if before, _, ok := strings.Cut(digits, ".old-"); ok {
		n.kind, digits = replaced, before
	}
	step, err := strconv.Atoi(digits)
	n.step = step
	return n, isStep && err == nil && strconv.Itoa(step) == digits && step >= 0
}

// suffix makes names of temporary directories unlike any other.
func (s *Store) suffix(kind string) string {
	s.tries++
	return fmt.Sprintf(".%s-%d-%d", kind, os.Getpid(), s.tries)
}

func (s *Store) list() ([]name, error) { return listNames(s.fs, s.dir) }

func listNames(fsys FS, dir string) ([]name, error) {
	d, err := fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	bases, err := d.Readdirnames(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	var names []name
	for _, b := range bases {
		if n, ok := parseName(b); ok {
			names = append(names, n)
		}
	}
	return names, nil
}
