package cifar10

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"sync"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/openfile"
	"github.com/trainctl/trainctl/core/sdk"
)

// room is the memory of both splits, one part for each file.
type room struct {
	records int
	splits  [2][]byte
}

func newRoom(records int) *room {
	n := records * recordBytes
	return &room{records: records, splits: [2][]byte{sdk.Train: make([]byte, trainFiles*n), sdk.Test: make([]byte, n)}}
}

func (r *room) section(file int) []byte {
	n := r.records * recordBytes
	if file == trainFiles {
		return r.splits[sdk.Test]
	}
	return r.splits[sdk.Train][file*n : (file+1)*n]
}

// read reads one file and checks the number of records and their classes.
func (r *room) read(file int, from io.Reader, size int64, shown string) error {
	const fix = "fetch " + archive + " again"
	b := r.section(file)
	if size != int64(len(b)) {
		return fmt.Errorf("%s: %d bytes, expected %d records of %d bytes: truncated, or not the binary version of CIFAR-10; %s", shown, size, r.records, recordBytes, fix)
	}
	if _, err := io.ReadFull(from, b); err != nil {
		return fmt.Errorf("%s: %w; %s", shown, err, fix)
	}
	for i := range r.records {
		if class := b[i*recordBytes]; int(class) >= len(classNames) {
			return fmt.Errorf("%s, offset %d: class %d of record %d is not below %d; %s", shown, i*recordBytes, class, i, len(classNames), fix)
		}
	}
	return nil
}

func (r *room) found(source string) *found {
	f := &found{source: source, classes: classNames}
	for i, b := range r.splits {
		f.splits[i] = &split{n: len(b) / recordBytes, records: b}
	}
	return f
}

// loadFolder reads the six files, all at once.
func (s *search) loadFolder(dir string) (*found, error) {
	r := newRoom(s.records)
	var errs [fileCount]error
	var wg sync.WaitGroup
	for i := range fileCount {
		wg.Go(func() { errs[i] = s.loadFile(r, i, filepath.Join(dir, fileName(i))) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return r.found(s.sourceOf(dir)), nil
}

func (s *search) loadFile(r *room, i int, path string) error {
	f, info, err := openfile.WithInfo(s.FS, path)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.read(i, f, info.Size(), path)
}

// loadArchive reads the six files out of the archive.
func (s *search) loadArchive(path string) (*found, error) {
	f, err := s.FS.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := newRoom(s.records)
	if err := r.unpack(f, path); err != nil {
		return nil, err
	}
	return r.found(s.sourceOf(filepath.Dir(path))), nil
}

// unpack reads an archive to its end, so that gzip verifies its checksum.
func (r *room) unpack(f io.Reader, shown string) error {
	damaged := func(err error) error {
		return fmt.Errorf("%s is damaged or not complete: %w; delete it and fetch it again", shown, err)
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return damaged(err)
	}
	var seen [fileCount]bool
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(err)
		}
		for i := range fileCount {
			if path.Base(h.Name) != fileName(i) || seen[i] {
				continue
			}
			if err := r.read(i, t, h.Size, shown+": "+h.Name); err != nil {
				return err
			}
			seen[i] = true
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil {
		return damaged(err)
	}
	for i, ok := range seen {
		if !ok {
			return damaged(fmt.Errorf("it lacks %s", fileName(i)))
		}
	}
	return nil
}

// keep writes the files to a folder. Every file gets its name once it is complete.
func (r *room) keep(fs afero.Fs, dir string) error {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range fileCount {
		path := filepath.Join(dir, fileName(i))
		if err := afero.WriteFile(fs, path+".part", r.section(i), 0o644); err != nil {
			return err
		}
		if err := fs.Rename(path+".part", path); err != nil {
			return err
		}
	}
	return nil
}
