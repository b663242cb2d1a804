package geometry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Memo keeps what follows from a shape for any number of images, and takes too long to be worked out in every call. Its
// zero value is empty; any goroutines may use it. A process has few shapes, so it forgets none.
type Memo[V any] struct {
	known atomic.Pointer[map[memoKey]V] // replaced by a larger one, never changed
	lock  sync.Mutex                    // of who replaces it
}

// memoKey is all that what is kept may depend on.
type memoKey struct {
	Shape
	Direction
	level  kernel.Level
	halves bool
}

// Of is what workOut gives for a direction of p. It must not depend on how many images p has.
func (m *Memo[V]) Of(p *Shape, d Direction, workOut func() V) V {
	key := memoKey{*p, d, kernel.Current(), kernel.Halves()}
	key.N = 0
	if known := m.known.Load(); known != nil {
		if v, ok := (*known)[key]; ok {
			return v
		}
	}
	v := workOut()
	m.add(key, v)
	return v
}

func (m *Memo[V]) add(key memoKey, v V) {
	m.lock.Lock()
	defer m.lock.Unlock()
	larger := map[memoKey]V{}
	if known := m.known.Load(); known != nil {
		maps.Copy(larger, *known)
	}
	larger[key] = v
	m.known.Store(&larger)
}
