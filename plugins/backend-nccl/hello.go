package nccl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/trainctl/trainctl/core/sdk"
)

// A line begins with both ends proving that they know the job's secret:
// magic and a nonce from the rank; a nonce and a proof from the hub; who the
// rank is and a proof of it. Nothing is parsed before it is proven.
const (
	magic     = "tcnccl1\n"
	nonceSize = 32
	helloSize = sha256.Size + 4*4
)

// errStranger refuses whoever is not of this job, generation and epoch.
var errStranger = errors.New("it does not belong to this group: another job, generation, epoch or world size")

func proof(secret []byte, who string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(who))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// helloOf says which rank of which group somebody is.
func helloOf(g sdk.Group, rank int) []byte {
	job := sha256.Sum256([]byte(g.JobID))
	raw := job[:]
	for _, v := range []int{g.Generation, g.Epoch, g.WorldSize, rank} {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
	}
	return raw
}

// greet is the rank's half.
func greet(c net.Conn, g sdk.Group) error {
	mine := make([]byte, nonceSize)
	rand.Read(mine)
	if _, err := c.Write(append([]byte(magic), mine...)); err != nil {
		return err
	}
	var reply [nonceSize + sha256.Size]byte
	if _, err := io.ReadFull(c, reply[:]); err != nil {
		return err
	}
	its := reply[:nonceSize]
	if !hmac.Equal(reply[nonceSize:], proof(g.Secret, "hub", mine, its)) {
		return errors.New("it does not know the job's secret")
	}
	hello := helloOf(g, g.Rank)
	_, err := c.Write(append(hello, proof(g.Secret, "rank", mine, its, hello)...))
	return err
}

// receive is the hub's half. It returns the caller's rank.
func receive(c net.Conn, g sdk.Group) (int, error) {
	var first [len(magic) + nonceSize]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return 0, err
	}
	if string(first[:len(magic)]) != magic {
		return 0, errors.New("it does not speak this protocol")
	}
	its, mine := first[len(magic):], make([]byte, nonceSize)
	rand.Read(mine)
	if _, err := c.Write(append(mine, proof(g.Secret, "hub", its, mine)...)); err != nil {
		return 0, err
	}
	var second [helloSize + sha256.Size]byte
	if _, err := io.ReadFull(c, second[:]); err != nil {
		return 0, err
	}
	hello := second[:helloSize]
	if !hmac.Equal(second[helloSize:], proof(g.Secret, "rank", its, mine, hello)) {
		return 0, errors.New("it does not know the job's secret")
	}
	rank := int(binary.LittleEndian.Uint32(hello[helloSize-4:]))
	if rank >= g.WorldSize || !hmac.Equal(hello, helloOf(g, rank)) {
		return 0, errStranger
	}
	return rank, nil
}
