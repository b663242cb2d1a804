package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TreeSum returns the SHA-256 sum in hexadecimal of everything that a plugin consists of:
// of the lines "MODE SUM PATH" of its files, ordered by path. MODE is x for a file that can
// be executed, - for another and l for a symbolic link, whose sum is that of its target. The
// executable is read through links: its sum is always that of its content. A single file has
// the sum of a folder that contains it under its name without a version.
func (p *Plugin) TreeSum() (string, error) {
	f, sum, err := p.openTree()
	if err != nil {
		return "", err
	}
	return sum, f.Close()
}

// OpenTree opens the executable of a plugin and verifies the sum of everything that it
// consists of. The caller executes this open file; the plugin's other files are only
// compared. The error is a *Problem.
func (p *Plugin) OpenTree(want string) (*os.File, error) {
	f, sum, err := p.openTree()
	if err == nil && sum != want {
		err = errors.Join(fmt.Errorf("the SHA-256 sum of its files is %s, expected %s", sum, want), f.Close())
	}
	if err != nil {
		return nil, &Problem{err.Error(), "install the version that was locked, or lock this one with trainctl plugins lock CONFIG", err}
	}
	return f, nil
}

// openTree returns the open executable and the sum of the tree.
func (p *Plugin) openTree() (*os.File, string, error) {
	exe, err := os.Open(p.Path)
	if err != nil {
		return nil, "", err
	}
	t := tree{lines: sha256.New()}
	bare := Plugin{Kind: p.Kind, Name: p.Name}
	if p.Root == "" {
		err = t.file(bare.ID(), 0o111, exe)
	} else {
		err = p.Walk(func(name, path string, d fs.DirEntry) error {
			if name == bare.ID() {
				return t.executable(name, exe)
			}
			return t.entry(name, path, d)
		})
	}
	if err != nil {
		return nil, "", errors.Join(err, exe.Close())
	}
	return exe, hex.EncodeToString(t.lines.Sum(nil)), nil
}

// Walk calls f with every file and symbolic link in the plugin's folder: its name relative to
// the folder, with slashes, and its path. The folder itself may be a symbolic link.
func (p *Plugin) Walk(f func(name, path string, d fs.DirEntry) error) error {
	root, err := filepath.EvalSymlinks(p.Root) // WalkDir follows no link, not even at its start
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(name), path, d)
	})
}

// tree adds up the lines of a sum.
type tree struct{ lines hash.Hash }

// executable adds the executable, which is read from the file that is open.
func (t tree) executable(name string, open *os.File) error {
	info, err := open.Stat()
	if err != nil {
		return err
	}
	return t.file(name, info.Mode(), open)
}

// entry adds one entry of a folder.
func (t tree) entry(name, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return t.line("l", sha256.Sum256([]byte(target)), name)
	case !d.Type().IsRegular():
		return fmt.Errorf("%s is neither a file, a folder nor a symbolic link", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(t.file(name, info.Mode(), f), f.Close())
}

func (t tree) file(name string, mode fs.FileMode, r io.Reader) error {
	sum, err := digest(r)
	if err != nil {
		return err
	}
	kind := "-"
	if mode&0o111 != 0 {
		kind = "x"
	}
	return t.line(kind, sum, name)
}

func (t tree) line(kind string, sum [sha256.Size]byte, name string) error {
	if strings.Contains(name, "\n") {
		return fmt.Errorf("the file name %q has a line break, which the list of sums cannot show; rename it", name)
	}
	_, err := fmt.Fprintf(t.lines, "%s %x %s\n", kind, sum, name)
	return err
}
