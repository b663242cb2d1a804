package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Every message of the handshake has a fixed size, so a peer without the secret
// can make this process read only a few dozen bytes:
//
//	dialer    magic, nonce D
//	listener  nonce L, HMAC(secret, "listener" D L)
//	dialer    hello, HMAC(secret, "dialer" D L hello)
//	listener  reply, HMAC(secret, "verdict" D L reply)
//
// Only the third message is parsed, and only after its proof was verified.
// Both nonces are in every proof, so a recorded message cannot be used again. With
// the option tls, TLS 1.3 then starts on the connection (tls.go).

const (
	magic     = "trainctl-tcp/2\r\n"
	nonceSize = 32
	macSize   = sha256.Size
	helloSize = sha256.Size + 4*8
)

// hello names the job, the generation, and both ranks of a connection.
type hello struct {
	job                                [sha256.Size]byte
	generation, epoch, world, from, to uint32
	stream, streams                    uint32 // which of how many connections; both 0: opened for a transfer, see pair.go
	tls                                uint32 // 1: TLS follows
}

func (b *Backend) hello(to, stream int) hello {
	h := hello{
		job:        sha256.Sum256([]byte(b.group.JobID)),
		generation: uint32(b.group.Generation), epoch: uint32(b.group.Epoch), world: uint32(b.group.WorldSize),
		from: uint32(b.group.Rank), to: uint32(to),
	}
	if stream != pairStream {
		h.stream, h.streams = uint32(stream), uint32(b.streams(to))
	}
	if b.usesTLS(to) {
		h.tls = 1
	}
	return h
}

// pair reports whether the connection is for transfers from one rank to the other.
func (h *hello) pair() bool { return h.streams == 0 }

// number is the stream, or pairStream.
func (h *hello) number() int {
	if h.pair() {
		return pairStream
	}
	return int(h.stream)
}

func (h *hello) numbers() []*uint32 {
	return []*uint32{&h.generation, &h.epoch, &h.world, &h.from, &h.to, &h.stream, &h.streams, &h.tls}
}

func (h hello) encode() []byte {
	raw := h.job[:]
	for _, v := range h.numbers() {
		raw = binary.LittleEndian.AppendUint32(raw, *v)
	}
	return raw
}

func parseHello(raw []byte) (h hello) {
	copy(h.job[:], raw)
	for i, v := range h.numbers() {
		*v = binary.LittleEndian.Uint32(raw[sha256.Size+4*i:])
	}
	return h
}

// reply is the listener's answer.
type reply byte

const (
	welcome reply = 1 + iota
	wrongJob
	wrongGeneration
	wrongEpoch
	wrongWorld
	wrongRank
	wrongOptions
	duplicate
)

func (v reply) String() string {
	names := [...]string{welcome: "welcome", wrongJob: "another job", wrongGeneration: "another generation of the job",
		wrongEpoch: "another epoch, from before or after a restart of a backend",
		wrongWorld: "another world size", wrongRank: "a rank that is not expected here",
		wrongOptions: "a rank with other options: connections or tls", duplicate: "a rank that is already connected"}
	if int(v) < len(names) && v > 0 {
		return names[v]
	}
	return fmt.Sprintf("reply %d", byte(v))
}

// replyTo compares a caller's hello with what this rank expects.
func (b *Backend) replyTo(h hello) reply {
	mine := b.hello(int(h.from), h.number())
	switch {
	case h.job != mine.job:
		return wrongJob
	case h.generation != mine.generation:
		return wrongGeneration
	case h.epoch != mine.epoch:
		return wrongEpoch
	case h.world != mine.world:
		return wrongWorld
	case h.to != mine.from || h.from >= h.world || h.from == mine.from || h.from < mine.from && !h.pair():
		return wrongRank
	case h.streams != mine.streams || h.stream >= h.streams && !h.pair() || h.tls != mine.tls:
		return wrongOptions
	}
	return welcome
}

var (
	errNoProof  = errors.New("it does not know the job's secret")
	errProtocol = errors.New("it does not use this protocol")
	errHungUp   = errors.New("it closed the connection")
)

// dialHandshake is the dialer's half, towards rank to.
func (b *Backend) dialHandshake(c net.Conn, to, stream int) error {
	var nonces [2 * nonceSize]byte
	rand.Read(nonces[:nonceSize])
	if _, err := c.Write(append([]byte(magic), nonces[:nonceSize]...)); err != nil {
		return err
	}
	var challenge [nonceSize + macSize]byte
	if _, err := io.ReadFull(c, challenge[:]); err != nil {
		return hungUp(err)
	}
	copy(nonces[nonceSize:], challenge[:nonceSize])
	if !hmac.Equal(challenge[nonceSize:], b.proof("listener", nonces[:], nil)) {
		return errNoProof
	}
	h := b.hello(to, stream).encode()
	if _, err := c.Write(append(h, b.proof("dialer", nonces[:], h)...)); err != nil {
		return err
	}
	var answer [1 + macSize]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return hungUp(err)
	}
	if !hmac.Equal(answer[1:], b.proof("verdict", nonces[:], answer[:1])) {
		return errNoProof
	}
	if v := reply(answer[0]); v != welcome {
		return refusal{v}
	}
	return nil
}

// refusal is final: another attempt would get the same answer.
type refusal struct{ reply }

func (r refusal) Error() string { return "it refused this rank as " + r.String() }

// receive is the listener's half. claim is called last; if it returns false, the rank
// is refused as a duplicate.
func (b *Backend) receive(c net.Conn, claim func(rank, stream int) bool) (h hello, err error) {
	var first [len(magic) + nonceSize]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return h, hungUp(err)
	}
	if !strings.HasPrefix(string(first[:]), magic) {
		return h, errProtocol
	}
	var nonces [2 * nonceSize]byte
	copy(nonces[:], first[len(magic):])
	rand.Read(nonces[nonceSize:])
	if _, err := c.Write(append(nonces[nonceSize:len(nonces):len(nonces)], b.proof("listener", nonces[:], nil)...)); err != nil {
		return h, err
	}
	var second [helloSize + macSize]byte
	if _, err := io.ReadFull(c, second[:]); err != nil {
		return h, hungUp(err)
	}
	if !hmac.Equal(second[helloSize:], b.proof("dialer", nonces[:], second[:helloSize])) {
		return h, errNoProof
	}
	h = parseHello(second[:helloSize])
	v := b.replyTo(h)
	if v == welcome && !claim(int(h.from), h.number()) {
		v = duplicate
	}
	answer := []byte{byte(v)}
	if _, err := c.Write(append(answer, b.proof("verdict", nonces[:], answer)...)); err != nil {
		return h, err
	}
	if v != welcome {
		return h, refusal{v}
	}
	return h, nil
}

func (b *Backend) proof(label string, nonces, message []byte) []byte {
	m := hmac.New(sha256.New, b.group.Secret)
	m.Write([]byte(label))
	m.Write(nonces)
	m.Write(message)
	return m.Sum(nil)
}

func hungUp(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errHungUp
	}
	return err
}
