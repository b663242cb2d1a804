package faultfs

import (
	"maps"
	"math/rand/v2"
	"os"
	"time"
)

// inode is a file or a directory in two versions: what processes see, and
// what a loss of power leaves.
type inode struct {
	dir  bool
	mode os.FileMode
	time time.Time

	data    []byte
	durable []byte // data at the last Sync

	entries map[string]*inode
	synced  map[string]*inode // entries at the last SyncDir
	journal []func(map[string]*inode)
}

func newFile(mode os.FileMode) *inode { return &inode{mode: mode} }

func newDir(mode os.FileMode) *inode {
	return &inode{dir: true, mode: mode | os.ModeDir, entries: map[string]*inode{}, synced: map[string]*inode{}}
}

// change applies one operation to a directory and remembers it until SyncDir.
// An operation is atomic: after a loss of power it happened or it did not.
func (d *inode) change(op func(map[string]*inode)) {
	op(d.entries)
	d.journal = append(d.journal, op)
}

func (d *inode) sync() {
	if d.dir {
		d.synced, d.journal = maps.Clone(d.entries), nil
		return
	}
	d.durable = append([]byte(nil), d.data...)
}

// survivor is the inode after a loss of power, with everything below it. Of
// the operations on a directory since its last sync, any number from the first
// on may have reached the disk, and of what was written to a file any part.
// Without rnd nothing did.
func (d *inode) survivor(rnd *rand.Rand, done map[*inode]*inode) *inode {
	if s, ok := done[d]; ok {
		return s
	}
	s := &inode{dir: d.dir, mode: d.mode, time: d.time}
	done[d] = s
	if !d.dir {
		s.data = survivingData(d, rnd)
		s.durable = append([]byte(nil), s.data...)
		return s
	}
	kept := maps.Clone(d.synced)
	if rnd != nil && len(d.journal) > 0 {
		for _, op := range d.journal[:rnd.IntN(len(d.journal)+1)] {
			op(kept)
		}
	}
	s.entries = make(map[string]*inode, len(kept))
	for name, child := range kept {
		s.entries[name] = child.survivor(rnd, done)
	}
	s.synced = maps.Clone(s.entries)
	return s
}

func survivingData(f *inode, rnd *rand.Rand) []byte {
	if rnd == nil || rnd.IntN(2) == 0 {
		return append([]byte(nil), f.durable...)
	}
	out := append([]byte(nil), f.data...)
	if n := len(out); n > len(f.durable) && rnd.IntN(2) == 0 { // grown, but the tail was never written
		for i := len(f.durable) + rnd.IntN(n-len(f.durable)); i < n; i++ {
			out[i] = 0
		}
	}
	return out
}
