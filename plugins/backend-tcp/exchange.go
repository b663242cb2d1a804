package tcp

import (
	"errors"
	"sync"
	"time"
)

// exchange says which bytes of a collective go where. Each function returns
// nil where nothing travels; peers' functions mirror each other.
//
// Small collectives travel attached to the call. Large ones go in two
// movements, cut into segments: scatter brings every rank its part from the
// others, combine finishes the part, gather hands it round.
type exchange struct {
	attached    int                   // largest attachment in bytes
	attach      func(to int) []byte   // sent with the call
	attachments func(from int) []byte // where it is received
	finish      func()                // runs when all attachments are there

	segments  int
	scatter   func(s, to int) []byte
	scattered func(s, from int) []byte
	combine   func(s int)
	gather    func(s, to int) []byte
	gathered  func(s, from int) []byte
}

func (x *exchange) attachTo(rank int) []byte {
	if x.attach == nil {
		return nil
	}
	return x.attach(rank)
}

func (x *exchange) attachFrom(rank int) []byte {
	if x.attachments == nil {
		return nil
	}
	return x.attachments(rank)
}

// trade runs the large movements, sending and receiving at once. Segment s is
// handed round while segment s+1 is being collected.
func (b *Backend) trade(x *exchange) error {
	if x.segments == 0 {
		return nil
	}
	combined, scattered := make(chan struct{}, x.segments), make(chan struct{}, x.segments)
	return b.both(
		func() error { return b.sendAll(x, combined, scattered) },
		func() error { return b.receiveAll(x, combined, scattered) })
}

// await takes a token that the other half of an exchange leaves. A segment
// that comes back overwrites what went out: the answer shows that the bytes
// have gone, the token that their sender has let go of them.
func (b *Backend) await(tokens <-chan struct{}) error {
	select {
	case <-tokens:
		return nil
	case <-b.op.quit:
		return errQuit
	}
}

func (b *Backend) sendAll(x *exchange, combined <-chan struct{}, scattered chan<- struct{}) error {
	for s := range x.segments + 1 {
		if s < x.segments {
			if err := b.sendSegment(s, x.scatter); err != nil {
				return err
			}
			scattered <- struct{}{}
		}
		if s == 0 {
			continue
		}
		if err := b.await(combined); err != nil {
			return err
		}
		if err := b.sendSegment(s-1, x.gather); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) receiveAll(x *exchange, combined chan<- struct{}, scattered <-chan struct{}) error {
	for s := range x.segments + 1 {
		if s < x.segments {
			if err := b.receiveSegment(s, x.scattered); err != nil {
				return err
			}
			if x.combine != nil {
				x.combine(s)
			}
			combined <- struct{}{}
		}
		if s == 0 {
			continue
		}
		if err := b.await(scattered); err != nil {
			return err
		}
		if err := b.receiveSegment(s-1, x.gathered); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) sendSegment(s int, bytes func(s, to int) []byte) error {
	if bytes == nil {
		return nil
	}
	for k := 1; k < b.group.WorldSize; k++ {
		p := b.right(k)
		if part := bytes(s, p.rank); len(part) > 0 {
			if err := b.write(p, kindData, nil, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Backend) receiveSegment(s int, bytes func(s, from int) []byte) error {
	if bytes == nil {
		return nil
	}
	for k := 1; k < b.group.WorldSize; k++ {
		p := b.left(k)
		if part := bytes(s, p.rank); len(part) > 0 {
			if err := b.readData(p, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// sender is the one goroutine that writes while Do reads.
type sender struct {
	jobs chan func() error
	done chan error
}

func startSender() *sender {
	s := &sender{jobs: make(chan func() error), done: make(chan error, 1)}
	go func() {
		for job := range s.jobs {
			s.done <- job()
		}
	}()
	return s
}

func (s *sender) stop() { close(s.jobs) }

// both runs send in the sender and receive here, and returns when both ended.
// When one fails the other is stopped, and the first failure counts.
func (b *Backend) both(send, receive func() error) error {
	quit := make(chan struct{})
	b.op.quit = quit
	stop := sync.OnceFunc(func() { close(quit); b.poke() })
	b.sender.jobs <- func() error {
		err := send()
		if err != nil {
			stop()
		}
		return err
	}
	err := receive()
	if err != nil {
		stop()
	}
	sent := <-b.sender.done
	b.op.quit = nil
	if err == nil || errors.Is(err, errQuit) {
		return sent
	}
	return err
}

// poke makes every read and write look up at once.
func (b *Backend) poke() {
	for _, p := range b.peers {
		if p != nil {
			p.conn.SetDeadline(time.Unix(1, 0))
		}
	}
}
