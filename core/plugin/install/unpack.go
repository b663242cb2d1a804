package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// writer writes files below a folder, and nowhere else.
type writer struct {
	root  *os.Root
	left  Limits
	links []string // symbolic links that were created
}

// archive unpacks a tar archive compressed with gzip, or a zip archive; any other file is
// an executable.
func (w *writer) archive(f *os.File, size int64, name string) error {
	magic := make([]byte, 4)
	n, err := f.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	switch magic = magic[:n]; {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		return w.tar(f)
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		return w.zip(f, size)
	}
	return w.file(name, 0o755, f)
}

func (w *writer) tar(r io.Reader) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("the archive is damaged: %w", err)
	}
	for t := tar.NewReader(unzipped); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the archive is damaged: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = w.folder(h.Name)
		case tar.TypeReg:
			err = w.file(h.Name, h.FileInfo().Mode(), t)
		case tar.TypeSymlink:
			err = w.link(h.Name, h.Linkname)
		case tar.TypeXGlobalHeader:
		default:
			err = fmt.Errorf("%q is neither a file, a folder nor a symbolic link", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (w *writer) zip(f *os.File, size int64) error {
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return fmt.Errorf("the archive is damaged: %w", err)
	}
	for _, entry := range archive.File {
		if err := w.zipped(entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) zipped(entry *zip.File) error {
	mode := entry.Mode()
	if mode.IsDir() {
		return w.folder(entry.Name)
	}
	r, err := entry.Open()
	if err != nil {
		return fmt.Errorf("the archive is damaged: %w", err)
	}
	defer r.Close()
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := io.ReadAll(io.LimitReader(r, 4096))
		if err != nil {
			return fmt.Errorf("the archive is damaged: %w", err)
		}
		return w.link(entry.Name, string(target))
	case mode.IsRegular():
		return w.file(entry.Name, mode, r)
	}
	return fmt.Errorf("%q is neither a file, a folder nor a symbolic link", entry.Name)
}

// copyDir copies a folder, without what version control and Python keep beside the files.
func (w *writer) copyDir(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // WalkDir follows no link, not even at its start
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil || name == "." {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "__pycache__"):
			return filepath.SkipDir
		case d.IsDir():
			return w.folder(name)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			return w.link(name, target)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file, a folder nor a symbolic link", at)
		}
		return w.copyFile(name, at)
	})
}

func (w *writer) copyFile(name, from string) error {
	return reading(from, func(f *os.File, info fs.FileInfo) error { return w.file(name, info.Mode(), f) })
}

// reading calls use with an open file.
func reading(path string, use func(f *os.File, info fs.FileInfo) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return use(f, info)
}

// local returns the path of an entry below the folder, and counts it.
func (w *writer) local(name string) (string, error) {
	if w.left.Files--; w.left.Files < 0 {
		return "", errors.New("it has too many files")
	}
	clean := path.Clean(strings.TrimSuffix(name, "/"))
	if !filepath.IsLocal(clean) || strings.ContainsAny(name, "\\\x00") {
		return "", fmt.Errorf("the path %q leads out of the plugin's folder", name)
	}
	for _, link := range w.links {
		if strings.HasPrefix(clean, link+"/") {
			return "", fmt.Errorf("%q lies below the symbolic link %q", name, link)
		}
	}
	return clean, nil
}

func (w *writer) folder(name string) error {
	name, err := w.local(name)
	if err != nil {
		return err
	}
	return w.root.MkdirAll(name, 0o755)
}

// file writes a file that is not there yet. Of its permissions only that to execute it is
// kept.
func (w *writer) file(name string, mode fs.FileMode, r io.Reader) error {
	name, err := w.local(name)
	if err != nil {
		return err
	}
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("it has the file %q twice", name)
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, w.left.Bytes+1))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the archive is damaged: it ends within %q; fetch it again", name)
	}
	if w.left.Bytes -= n; w.left.Bytes < 0 {
		err = errors.New("its files are too large")
	}
	return errors.Join(err, f.Close())
}

// link creates a symbolic link to something in the folder.
func (w *writer) link(name, target string) error {
	name, err := w.local(name)
	if err != nil {
		return err
	}
	if filepath.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return fmt.Errorf("the link %q leads out of the plugin's folder, to %q", name, target)
	}
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	w.links = append(w.links, name)
	return w.root.Symlink(target, name)
}

// checkLinks refuses symbolic links that lead out of a plugin's folder by way of others, or
// to another folder of the archive.
func checkLinks(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the link %q leads out of the plugin's folder: %w", name, err)
		}
		return nil
	})
}
