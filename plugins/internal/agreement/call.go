package agreement

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// call is what a rank sends to the coordinator about its collective.
type call struct {
	Seq     uint64
	Op      sdk.Op
	Reduce  sdk.ReduceOp
	DType   tensor.DType
	Count   int
	Root    int
	Bucket  int
	Channel int `json:",omitempty"`

	// Round counts the group's exchanges, the one of this call included, where the library
	// exchanges calls. Of two calls the one of the earlier round has ended.
	Round uint64 `json:",omitempty"`
}

// collective is the call without its memory.
func (k call) collective() sdk.Collective {
	return sdk.Collective{Seq: k.Seq, Op: k.Op, Reduce: k.Reduce, DType: k.DType, Count: k.Count, Root: k.Root, Bucket: k.Bucket, Channel: k.Channel}
}

func callOf(c *sdk.Collective) call {
	return call{Seq: c.Seq, Op: c.Op, Reduce: c.Reduce, DType: c.DType, Count: c.Count, Root: c.Root, Bucket: c.Bucket, Channel: c.Channel}
}

// frameSize is the length of an encoded call.
const frameSize = 40

// encode writes a call for an exchange.
func (k call) encode(to []byte) {
	le := binary.LittleEndian
	le.PutUint64(to[0:], k.Seq)
	le.PutUint64(to[8:], uint64(k.Count))
	le.PutUint32(to[16:], uint32(k.Root))
	le.PutUint32(to[20:], uint32(k.Bucket))
	le.PutUint32(to[24:], uint32(k.Channel))
	to[28], to[29], to[30] = byte(k.Op), byte(k.Reduce), byte(k.DType)
}

func parseCall(from []byte) call {
	le := binary.LittleEndian
	return call{Seq: le.Uint64(from[0:]), Count: int(le.Uint64(from[8:])), Root: int(int32(le.Uint32(from[16:]))), Bucket: int(int32(le.Uint32(from[20:]))),
		Channel: int(le.Uint32(from[24:])), Op: sdk.Op(from[28]), Reduce: sdk.ReduceOp(from[29]), DType: tensor.DType(from[30])}
}

func (k call) String() string {
	c := k.collective()
	return c.String()
}

func pairwise(op sdk.Op) bool { return op.Definition().Kind == contract.OfPair }

// concerns reports whether two waiting calls must match: two transfers only if each names
// the other rank, all others always.
func (k call) concerns(me int, o call, peer int) bool {
	if k.Round != o.Round {
		return false
	}
	toPeer, toMe := !pairwise(k.Op) || k.Root == peer, !pairwise(o.Op) || o.Root == me
	if pairwise(k.Op) && pairwise(o.Op) || !pairwise(k.Op) && !pairwise(o.Op) {
		return toPeer && toMe
	}
	return pairwise(k.Op) && toPeer || pairwise(o.Op) && toMe
}

// matches reports whether two calls that concern each other belong to one collective. Each rank
// numbers its transfers for itself.
func (k call) matches(o call) bool {
	mine, its := k.collective(), o.collective()
	return k.Channel == o.Channel && (mine.Matches(&its) || mine.Answers(&its))
}

// partners are the ranks that a call needs besides the caller.
func (k call) partners(me, world int) (ranks []int) {
	if pairwise(k.Op) {
		return []int{k.Root}
	}
	for r := range world {
		if r != me {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// message is one JSON value between a rank and the coordinator.
type message struct {
	Kind  string    // "hello", "call", "done", "late", "leave" and "fail" to the coordinator; "welcome", "refused", "go" and "fail" from it
	Hello *hello    `json:",omitempty"`
	Call  *call     `json:",omitempty"` // of "call" and "done"; of "go": the one that may start, none if the ranks may leave
	Cause string    `json:",omitempty"` // of "fail": "stall", "mismatch" or "peer"
	From  int       // of "fail": the rank that reports it, or that is gone
	Ranks []int     `json:",omitempty"` // stall: missing ranks, From itself if it is the one that is late; mismatch: both ranks
	Calls [2]string // mismatch: both calls
	Text  string    `json:",omitempty"` // of "fail" from a rank, and of "refused": the reason
}

// permits reports whether a "go" is for a call, or for leaving if k is nil.
func (m *message) permits(k *call) bool {
	if m.Call == nil || k == nil {
		return m.Call == nil && k == nil
	}
	return *m.Call == *k
}

var errAborted = errors.New("the group has failed")

// failure returns this rank's error for the coordinator's report. stalled returns the error of
// a call that waits for ranks.
func (m *message) failure(me int, seq uint64, stalled Stalled) error {
	switch {
	case m.Cause == "stall" && m.From == me && slices.Contains(m.Ranks, me):
		return fmt.Errorf("%w (%s)", stalled(m.Ranks), m.Text) // what this rank is late with
	case m.Cause == "stall" && slices.Contains(m.Ranks, me):
		return &sdk.PeerError{Peer: m.From, Seq: seq, Cause: "it timed out waiting for this rank"}
	case m.Cause == "stall":
		return stalled(m.Ranks)
	case m.Cause == "mismatch" && len(m.Ranks) == 2:
		return &sdk.MismatchError{Rank: m.Ranks[0], Peer: m.Ranks[1], Mine: m.Calls[0], Its: m.Calls[1]}
	}
	if m.From == me {
		return fmt.Errorf("%w: %s", errAborted, m.Text)
	}
	return &sdk.PeerError{Peer: m.From, Seq: seq, Cause: m.Text}
}
