package rank

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// state is a store without its network: values, counters, waits.
// It is not safe for concurrent use. It sends answers with reply, which must not
// call back into it.
type state struct {
	size  int          // ranks of the job
	names map[int]Peer // ranks whose host is known, connected or not
	here  map[int]bool // connected now
	gone  map[int]bool // left with opBye
	dead  *departure   // first rank that disconnected without it

	group *membership // nil: a job that lost a rank can only be restarted

	values  map[string][]byte
	held    int // bytes in values
	waits   map[request]*wait
	byKey   map[string]map[request]*wait
	gathers map[string]*gather
	reply   func(request, frame)
	record  func(key string, val []byte) // keeps it in the journal; nil: there is none
}

// departure is a rank that disconnected, and why if that is known.
type departure struct {
	peer Peer
	why  string
}

// request identifies a request: the rank that sent it, and that rank's id for it.
type request struct {
	rank int
	id   uint64
}

// wait is a request that cannot be answered yet.
type wait struct {
	missing map[string]bool // keys not set
	get     string          // key whose value is the answer; "" for an empty answer
	gather  *gather         // or the gather it belongs to
}

type gather struct {
	name    string
	members []int
	vals    map[int][]byte
	open    []request
}

const (
	maxKey    = 1 << 10
	maxValues = 256 << 20 // all values together
)

func newState(size int, roster []Peer, reply func(request, frame)) *state {
	b := &state{
		size: size, names: map[int]Peer{}, here: map[int]bool{}, gone: map[int]bool{},
		values: map[string][]byte{}, waits: map[request]*wait{}, byKey: map[string]map[request]*wait{},
		gathers: map[string]*gather{}, reply: reply,
	}
	for _, p := range roster {
		b.names[p.Rank] = p
	}
	return b
}

func (b *state) join(p Peer) {
	b.names[p.Rank] = p
	b.here[p.Rank] = true
	if g := b.group; g == nil || !slices.Contains(g.members, p.Rank) { // a member that has left stays gone until there is another group
		delete(b.gone, p.Rank)
	}
}

// leave removes a rank. If it did not leave cleanly, all waits end, since a job
// that lost a rank can only be restarted.
func (b *state) leave(rank int, clean bool, why string) {
	d := departure{b.names[rank], why}
	delete(b.here, rank)
	for t := range b.waits {
		if t.rank == rank {
			b.forget(t)
		}
	}
	if b.group != nil {
		delete(b.group.calls, rank)
	}
	if b.group != nil && (!clean || b.deserts(rank)) {
		b.lose(d)
		return
	}
	if !clean {
		if b.dead == nil {
			b.dead = &d
		}
		for t := range b.waits {
			b.end(t, leftFrame(d, false))
		}
		return
	}
	b.gone[rank] = true
	b.endGathers(d, true)
	b.regroup()
}

// endGathers ends the gathers that wait for a rank that has left.
func (b *state) endGathers(d departure, clean bool) {
	for t, w := range b.waits {
		if g := w.gather; g != nil && slices.Contains(g.members, d.peer.Rank) && g.vals[d.peer.Rank] == nil {
			b.end(t, leftFrame(d, clean))
		}
	}
}

func leftFrame(d departure, clean bool) frame {
	return frame{op: opPeerLeft, body: fields{}.peers([]Peer{d.peer}).flag(clean).text(d.why)}
}

func (b *state) ok(t request, body fields) { b.reply(t, frame{op: opOK, id: t.id, body: body}) }

func (b *state) refuse(t request, format string, args ...any) {
	b.reply(t, frame{op: opError, id: t.id, body: fields{}.text(fmt.Sprintf(format, args...))})
}

// ask answers a request or adds it to the waits. An error means that the peer
// violated the protocol.
func (b *state) ask(t request, f frame) error {
	p := &parser{rest: f.body}
	switch f.op {
	case opSet:
		key, val := p.text(), p.bytes()
		return b.then(p, func() { b.set(t, key, val) })
	case opGet:
		key := p.text()
		return b.then(p, func() { b.await(t, key, key) })
	case opWait:
		keys := p.list()
		return b.then(p, func() { b.await(t, "", texts(keys)...) })
	case opAdd:
		key, delta := p.text(), p.number()
		return b.then(p, func() { b.add(t, key, delta) })
	case opCompareAndSet:
		key, old, val := p.text(), p.bytes(), p.bytes()
		return b.then(p, func() { b.compareAndSet(t, key, old, val) })
	case opDelete:
		key := p.text()
		return b.then(p, func() { b.remove(t, key) })
	case opGather, opGatherAmong, opRegroup:
		return b.askMembers(t, f.op, p)
	case opPong:
		return p.end()
	case opEnough:
		return b.then(p, func() { b.enough(t) })
	case opPoll, opCancel:
		id := p.number()
		return b.then(p, func() { b.report(request{t.rank, uint64(id)}, f.op == opCancel) })
	}
	return fmt.Errorf("%w: unknown operation %d", errFrame, f.op)
}

// askMembers is ask for what waits for other ranks.
func (b *state) askMembers(t request, o op, p *parser) error {
	switch o {
	case opRegroup:
		entry, val := Entry(p.number()), p.bytes()
		return b.then(p, func() { b.callRegroup(t, entry, val) })
	case opGatherAmong:
		name, members, val := p.text(), p.numbers(), p.bytes()
		return b.then(p, func() { b.meet(t, name, members, val) })
	}
	name, rank, size, val := p.text(), p.small(), p.small(), p.bytes()
	reason := b.misplaced(t, name, rank, size)
	if reason != "" {
		return b.then(p, func() { b.refuse(t, "%s", reason) })
	}
	return b.then(p, func() { b.meet(t, name, upTo(size), val) })
}

func (b *state) then(p *parser, act func()) error {
	if err := p.end(); err != nil {
		return err
	}
	act()
	return nil
}

func texts(l [][]byte) []string {
	s := make([]string, len(l))
	for i := range l {
		s[i] = string(l[i])
	}
	return s
}

// put stores a value and answers the waits that it completes.
func (b *state) put(t request, key string, val []byte) bool {
	held := b.held - len(b.values[key]) + len(val)
	if len(key) > maxKey || held > maxValues {
		b.refuse(t, "key of %d bytes, all values %d bytes: at most %d and %d", len(key), held, maxKey, maxValues)
		return false
	}
	b.held, b.values[key] = held, val
	if b.record != nil && strings.HasPrefix(key, published) {
		b.record(key, val)
	}
	for t, w := range b.byKey[key] {
		delete(w.missing, key)
		if len(w.missing) == 0 {
			b.end(t, frame{op: opOK, body: b.answer(w.get)})
		}
	}
	delete(b.byKey, key)
	return true
}

func (b *state) answer(key string) fields {
	if key == "" {
		return nil
	}
	return fields{}.bytes(b.values[key])
}

func (b *state) set(t request, key string, val []byte) {
	if b.put(t, key, val) {
		b.ok(t, nil)
	}
}

func (b *state) add(t request, key string, delta int64) {
	sum := delta
	if old, there := b.values[key]; there {
		if len(old) != 8 {
			b.refuse(t, "key %q holds a value of %d bytes, not a counter", key, len(old))
			return
		}
		sum += int64(binary.BigEndian.Uint64(old))
	}
	if b.put(t, key, binary.BigEndian.AppendUint64(nil, uint64(sum))) {
		b.ok(t, fields{}.number(sum))
	}
}

func (b *state) compareAndSet(t request, key string, old, val []byte) {
	now, there := b.values[key]
	match := bytes.Equal(now, old) && (there || len(old) == 0)
	if match && !b.put(t, key, val) {
		return
	}
	b.ok(t, fields{}.bytes(b.values[key]).flag(match))
}

func (b *state) remove(t request, key string) {
	val, there := b.values[key]
	b.held -= len(val)
	delete(b.values, key)
	b.ok(t, fields{}.flag(there))
}

func (b *state) await(t request, get string, keys ...string) {
	w := &wait{get: get, missing: map[string]bool{}}
	for _, k := range keys {
		if _, there := b.values[k]; !there {
			w.missing[k] = true
		}
	}
	switch {
	case len(w.missing) == 0:
		b.ok(t, b.answer(get))
		return
	case b.dead != nil:
		b.end(t, leftFrame(*b.dead, false))
		return
	}
	b.waits[t] = w
	for k := range w.missing {
		if b.byKey[k] == nil {
			b.byKey[k] = map[request]*wait{}
		}
		b.byKey[k][t] = w
	}
}

// meet adds one rank to a gather and completes it with the last one.
func (b *state) meet(t request, name string, members []int, val []byte) {
	g := b.gathers[name]
	if g == nil {
		g = &gather{name: name, members: members, vals: map[int][]byte{}}
	}
	if reason := b.misfit(t, g, members, val); reason != "" {
		b.refuse(t, "%s", reason)
		return
	}
	b.gathers[name] = g
	g.vals[t.rank] = val
	g.open = append(g.open, t)
	if len(g.vals) == len(g.members) {
		b.complete(g)
		return
	}
	b.waits[t] = &wait{gather: g}
	if b.dead != nil {
		b.end(t, leftFrame(*b.dead, false))
		return
	}
	for _, r := range g.members {
		if g.vals[r] != nil {
			continue
		}
		if d, lost := b.lost(r); lost || b.gone[r] {
			b.end(t, leftFrame(d, !lost))
			return
		}
		if b.broken(r) {
			b.end(t, brokenFrame(name, r))
			return
		}
	}
}

// misplaced says why a rank has no place in a gather of the ranks from 0 to size−1.
func (b *state) misplaced(t request, name string, rank, size int) string {
	switch {
	case rank != t.rank:
		return fmt.Sprintf("%q: rank %d cannot call it as rank %d", name, t.rank, rank)
	case size < 1 || size > b.size || rank >= size:
		return fmt.Sprintf("%q: rank %d of %d in a job of %d", name, rank, size, b.size)
	}
	return ""
}

func (b *state) misfit(t request, g *gather, members []int, val []byte) string {
	rank, size := t.rank, len(members)
	switch {
	case size != len(g.members):
		return fmt.Sprintf("%q: rank %d expects %d ranks, the others expect %d", g.name, rank, size, len(g.members))
	case !slices.Equal(members, g.members) || !slices.Contains(members, rank):
		return fmt.Sprintf("%q: rank %d expects %v, the others expect %v", g.name, rank, members, g.members)
	case g.vals[rank] != nil:
		return fmt.Sprintf("%q: rank %d has already called it", g.name, rank)
	case len(val) > maxFrame/(size+1):
		return fmt.Sprintf("%q: %d bytes of each of %d ranks do not fit into one frame of %d", g.name, len(val), size, maxFrame)
	}
	return ""
}

func (b *state) complete(g *gather) {
	vals := make([][]byte, len(g.members))
	for i, r := range g.members {
		vals[i] = g.vals[r]
	}
	body := fields{}.list(vals)
	delete(b.gathers, g.name)
	for _, t := range g.open {
		delete(b.waits, t)
		b.reply(t, frame{op: opOK, id: t.id, body: body})
	}
}

// report sends the progress of a wait, and cancels it if asked to. A wait that no
// longer exists has been answered.
func (b *state) report(t request, cancel bool) {
	w, open := b.waits[t]
	if !open {
		return
	}
	arrived, missing := b.attendance(w)
	f := frame{op: opProgress, id: t.id, body: fields{}.peers(arrived).peers(missing)}
	if cancel {
		f.op = opCancelled
		b.forget(t)
		if g := b.group; g != nil && g.calls[t.rank].request == t {
			delete(g.calls, t.rank)
		}
	}
	b.reply(t, f)
}

// attendance lists the ranks that have arrived at a wait and those missing.
func (b *state) attendance(w *wait) (arrived, missing []Peer) {
	ranks, there := upTo(b.size), func(r int) bool { return b.here[r] }
	if g := w.gather; g != nil {
		ranks, there = g.members, func(r int) bool { return g.vals[r] != nil }
	}
	for _, r := range ranks {
		p := b.names[r]
		p.Rank = r
		if there(r) {
			arrived = append(arrived, p)
		} else {
			missing = append(missing, p)
		}
	}
	return arrived, missing
}

// end removes a wait and sends its final answer.
func (b *state) end(t request, f frame) {
	b.forget(t)
	f.id = t.id
	b.reply(t, f)
}

func (b *state) forget(t request) {
	if w := b.waits[t]; w != nil {
		for k := range w.missing {
			delete(b.byKey[k], t)
			if len(b.byKey[k]) == 0 {
				delete(b.byKey, k)
			}
		}
	}
	delete(b.waits, t)
}
