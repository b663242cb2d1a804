package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"

	"github.com/trainctl/trainctl/core/sdk"
)

// maxMessage bounds the length of a message.
const maxMessage = 16 << 10

// send writes a value as JSON with its length before it.
func send(conn net.Conn, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receive reads what send wrote.
func receive(conn net.Conn, value any) error {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxMessage {
		return errors.New("it sent an invalid message")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

// verdict is rank 0's result of comparing the calls.
type verdict struct {
	Kind  string
	Ranks []int  // stalled: missing ranks; differ: the two ranks; gone: the rank
	First string // differ: the call of Ranks[0]; gone: the cause
	Other string // differ: the call of Ranks[1]
}

const (
	agreed  = "agreed"
	stalled = "stalled"
	differ  = "differ"
	gone    = "gone"
)

// judge compares the calls with rank 0's. A closed connection takes precedence over a
// different call, and that over a late rank.
func judge(calls []string, errs []error) verdict {
	v := verdict{Kind: agreed}
	for r, err := range errs {
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if v.Kind == agreed || v.Kind == stalled {
				v.Kind, v.Ranks = stalled, append(v.Ranks, r)
			}
		case err != nil:
			return verdict{Kind: gone, Ranks: []int{r}, First: err.Error()}
		case calls[r] != calls[0]:
			v = verdict{Kind: differ, Ranks: []int{0, r}, First: calls[0], Other: calls[r]}
		}
	}
	return v
}

// error returns the verdict as one rank's error.
func (v verdict) error(c *sdk.Collective, rank int) error {
	switch {
	case v.Kind == agreed:
		return nil
	case v.Kind == differ && len(v.Ranks) == 2:
		return &sdk.MismatchError{Rank: v.Ranks[0], Peer: v.Ranks[1], Mine: v.First, Its: v.Other}
	case v.Kind == stalled:
		return &sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: v.Ranks}
	case v.Kind == gone && len(v.Ranks) == 1 && v.Ranks[0] != rank:
		return &sdk.PeerError{Peer: v.Ranks[0], Seq: c.Seq, Cause: v.First}
	}
	return &sdk.PeerError{Peer: 0, Seq: c.Seq, Cause: "it gave up: " + v.First}
}
