package geometry

import (
	"sync"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Memo keeps what follows from a shape and takes too long to be worked out in every call. Its zero value is empty; any
// goroutines may use it. A process has few shapes, so it forgets none.
type Memo[V any] struct {
	lock  sync.RWMutex
	known map[memoKey]V
}

// memoKey is all that what is kept may depend on.
type memoKey struct {
	Shape
	Direction
	level               kernel.Level
	halves, bf16, tiles bool
}

// Of is what workOut gives for a direction of p. It must not depend on how many images p has.
func (m *Memo[V]) Of(p *Shape, d Direction, workOut func() V) V {
	return m.ofImages(p, 0, d, workOut)
}

// OfBatch is Of for what depends on how many images a batch has, up to most. workOut gets p with so many.
func (m *Memo[V]) OfBatch(p *Shape, most int, d Direction, workOut func(p *Shape) V) V {
	images := min(p.Images(), most)
	return m.ofImages(p, images, d, func() V {
		batch := *p
		batch.N, batch.Batch = images, 0
		return workOut(&batch)
	})
}

func (m *Memo[V]) ofImages(p *Shape, images int, d Direction, workOut func() V) V {
	key := memoKey{*p, d, kernel.Current(), kernel.Halves(), kernel.HasBF16(), kernel.HasTiles()}
	key.N, key.Batch = images, 0
	m.lock.RLock()
	v, ok := m.known[key]
	m.lock.RUnlock()
	if ok {
		return v
	}
	v = workOut()
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.known == nil {
		m.known = map[memoKey]V{}
	}
	m.known[key] = v
	return v
}
