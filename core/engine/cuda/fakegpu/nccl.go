package fakegpu

import (
	"encoding/binary"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// clique is a communicator as all its ranks see it.
type clique struct {
	members []*comm // by rank, nil before it has joined
	posted  [][]*launch
}

// comm is one rank's handle.
type comm struct {
	owner    int
	clique   *clique
	rank     int
	state    driver.NCCLResult
	polls    int    // how often it was asked about since the last call
	launched func() // puts the launched work on its stream
	aborted  bool
}

// NCCL is the library at a version, as far as a backend calls it.
func (p *Process) NCCL(version int32) *driver.NCCL {
	m := p.m
	n := &driver.NCCL{Lib: driver.Library{Name: "fake NCCL", Path: "fake libnccl.so.2", Version: driver.NCCLVersion(version)}}
	n.GetVersion = func(v *int32) error { *v = version; return nil }
	n.GetUniqueID = func(id *driver.NCCLUniqueID) error {
		m.locked(func() { binary.LittleEndian.PutUint64(id.Bytes[:], uint64(m.newHandle())) })
		return nil
	}
	n.GetLastError = func(driver.Comm) string { return "fake" }
	n.CommInitRankConfig = func(c *driver.Comm, size int32, id driver.NCCLUniqueID, rank int32, config *driver.NCCLConfig) error {
		return m.replies("ncclCommInitRankConfig", func() driver.NCCLResult { return p.join(c, int(size), id, int(rank), config) })
	}
	n.CommGetAsyncError = func(c driver.Comm, result *driver.NCCLResult) error {
		return m.replies("ncclCommGetAsyncError", func() driver.NCCLResult { return m.state(c, result) })
	}
	n.CommFinalize = func(c driver.Comm) error {
		return m.replies("ncclCommFinalize", func() driver.NCCLResult { return m.begin(c, func(*comm) {}) })
	}
	n.CommDestroy = func(c driver.Comm) error { m.locked(func() { m.leave(c) }); return nil }
	n.CommAbort = func(c driver.Comm) error { m.locked(func() { m.leave(c) }); return nil }
	p.fillCollectives(n)
	return n
}

// replies runs f alone on the machine and makes its code NCCL's error.
func (m *Machine) replies(call string, f func() driver.NCCLResult) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code := f(); code != driver.NCCLSuccess {
		return &driver.CallError{Call: call, Status: code}
	}
	return nil
}

func (p *Process) join(c *driver.Comm, size int, id driver.NCCLUniqueID, rank int, config *driver.NCCLConfig) driver.NCCLResult {
	m := p.m
	if config == nil || config.Blocking != 0 || config.Size != 48 {
		return driver.NCCLInvalidArgument
	}
	q := m.cliques[id]
	if q == nil {
		q = &clique{members: make([]*comm, size), posted: make([][]*launch, size)}
		m.cliques[id] = q
	}
	if len(q.members) != size || rank < 0 || rank >= size || q.members[rank] != nil {
		return driver.NCCLInvalidUsage
	}
	*c = driver.Comm(m.newHandle())
	q.members[rank] = &comm{owner: p.id, clique: q, rank: rank, state: driver.NCCLInProgress}
	m.comms[*c] = q.members[rank]
	return driver.NCCLInProgress
}

// state is the answer to CommGetAsyncError.
func (m *Machine) state(handle driver.Comm, result *driver.NCCLResult) driver.NCCLResult {
	c := m.comms[handle]
	if c == nil {
		return driver.NCCLInvalidArgument
	}
	if code, ok := m.broken[c.rank]; ok {
		*result = code
		return driver.NCCLSuccess
	}
	c.polls++
	if c.state == driver.NCCLInProgress && c.polls > 1 && m.complete(c.clique) {
		c.state = driver.NCCLSuccess
		if c.launched != nil {
			c.launched()
			c.launched = nil
		}
		m.advance()
	}
	*result = c.state
	return driver.NCCLSuccess
}

// complete reports whether all ranks have joined.
func (m *Machine) complete(q *clique) bool {
	for _, c := range q.members {
		if c == nil || m.alone[c.rank] {
			return false
		}
	}
	return true
}

// begin starts a call on a communicator that is not in one.
func (m *Machine) begin(handle driver.Comm, launched func(*comm)) driver.NCCLResult {
	c := m.comms[handle]
	switch {
	case c == nil:
		return driver.NCCLInvalidArgument
	case c.state != driver.NCCLSuccess:
		return driver.NCCLInvalidUsage
	}
	c.state, c.polls = driver.NCCLInProgress, 0
	c.launched = func() { launched(c) }
	return driver.NCCLInProgress
}

// leave ends a rank's handle and takes its work off the streams.
func (m *Machine) leave(handle driver.Comm) {
	c := m.comms[handle]
	if c == nil {
		return
	}
	delete(m.comms, handle)
	c.aborted = true
	c.clique.posted[c.rank] = nil
	for _, s := range m.streams {
		if s.busy == c {
			s.busy = nil
		}
	}
	m.advance()
}
