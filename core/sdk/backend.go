package sdk

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Backend is one rank's end of a process group: it moves and reduces memory
// between the ranks of a job.
//
// Order of calls: Open, Attach for every arena, Listen, Connect, then Do in
// the same order on every rank, Close.
type Backend interface {
	Info() Info

	// Open checks the options and stores the group. It must not wait for other
	// ranks.
	Open(ctx context.Context, group Group, options Options) error

	// Attach adds an arena. Collectives use only memory in attached arenas. The
	// arena stays valid until Close returns. An arena with Device is on a GPU, see
	// [DeviceMemory]; Attach sets its Done. After an error the instance must be
	// unchanged: the core may try another kind of handle or continue with host
	// memory.
	Attach(ctx context.Context, arena *Arena) error

	// Listen prepares for connections and returns opaque bytes (an address and
	// whatever else peers need). The core distributes them to all ranks.
	Listen(ctx context.Context) (endpoint []byte, err error)

	// Connect joins the group; endpoints[r] is from rank r's Listen. It returns
	// when this rank can take part in collectives, or an error that names the
	// ranks that could not be reached.
	Connect(ctx context.Context, endpoints [][]byte) error

	// Do runs one collective until it is complete. All ranks make the same sequence
	// of calls; with c.Seq, Op, DType, Count and Bucket a backend can report a
	// mismatch before data moves. The context carries the operation's deadline:
	// after it, return a *StallError with the ranks that did not arrive. If it is
	// canceled, tell the other ranks at once, also those that wait for a third one,
	// for example by closing the connections to them. After an error the group is
	// unusable and only Close may follow. c and ctx are valid until Do returns.
	Do(ctx context.Context, c *Collective) error

	// Close ends the instance. It does not wait for other ranks.
	Close() error
}

// Group describes the process group.
type Group struct {
	JobID      string
	Secret     []byte // known only to the ranks of the job; peers must prove it before anything else is parsed
	Generation int    // number of restarts of the ranks; refuse peers of another generation
	Epoch      int    // number of the group within a generation: when a rank's plugin is replaced, all ranks join a new group; refuse peers of another epoch
	Rank       int
	WorldSize  int
	LocalRank  int
	LocalSize  int
	Timeout    time.Duration // for one collective
	// MasterAddr is the host at which every rank can reach rank 0. A backend can
	// use it to find the interface to listen on.
	MasterAddr string
	// Device is the GPU that the rank computes on: its UUID as "GPU-…" or, for a
	// slice, "MIG-…". "" if it computes on none; a backend for GPUs then selects one
	// by LocalRank.
	Device string
	// InProcess is true if the backend runs in the rank's process; see [Placer].
	InProcess bool
	// Channels is the number of channels for collectives, equal on all ranks; 0 means 1.
	Channels int
}

// Arena is memory that the rank owns and the plugin maps. With Device it is on a
// GPU, and then the embedded arena is nil and there are no Bytes; else on the host.
type Arena struct {
	ID   uint32
	Name string // "gradients", "batches": for messages
	*shm.Arena
	Device *DeviceMemory
}

// Op is a collective operation.
type Op = contract.Op

// The collective operations. n = Count elements, W = world size.
const (
	OpNone          = contract.OpNone
	OpAllReduce     = contract.OpAllReduce     // Buf holds n; afterwards, on every rank, the reduction over all ranks in rank order
	OpBroadcast     = contract.OpBroadcast     // Buf holds n; afterwards, on every rank, a copy of Root's
	OpAllGather     = contract.OpAllGather     // Buf holds W·n; rank r provides the part at r·n; afterwards every rank has all parts
	OpReduceScatter = contract.OpReduceScatter // Buf holds W·n; afterwards rank r has the reduction of the parts at r·n there; its other parts are unspecified
	OpBarrier       = contract.OpBarrier       // no memory; returns when all ranks have called
	OpSend          = contract.OpSend          // Buf holds n, for rank Root
	OpRecv          = contract.OpRecv          // Buf receives n from rank Root
	OpReduce        = contract.OpReduce        // Buf holds n; afterwards Root has the reduction; the others' buffers are unspecified
)

// ReduceOp combines elements of several ranks.
type ReduceOp = contract.ReduceOp

// The reductions. Half types are accumulated in float32 and rounded once; Avg
// is Sum divided by the world size and for float types only. NaN propagates
// through Min and Max.
const (
	Sum  = contract.Sum
	Avg  = contract.Avg
	Min  = contract.Min
	Max  = contract.Max
	Prod = contract.Prod
)

// Collective is one call. Memory is in place: results appear in Buf.
type Collective struct {
	Seq    uint64 // 1, 2, 3, … equal on all ranks
	Op     Op
	Reduce ReduceOp
	DType  tensor.DType
	Count  int // elements, see Op
	Root   int // Broadcast: source; Send, Recv: the other rank
	Bucket int // gradient bucket, -1 for none: for messages

	// Channel is the purpose of the call: ChannelJob, or ChannelStatistics for
	// exchanges of layers in the middle of a pass. It is below Group.Channels. Calls
	// of all channels form one sequence, equal on all ranks. A backend may use separate
	// resources for each channel, so that a small call need not queue behind a bucket,
	// or ignore channels.
	Channel int

	// Arena, Offset: the position of Buf, equal on all ranks (except Send and
	// Recv), so a backend may work on a local peer's mapping of the same arena.
	// With the inline data plane Arena is nil, and Buf is a private copy that is
	// sent back after Do.
	Arena  *Arena
	Offset int
	Buf    []byte // nil in an arena on a GPU

	// Ready and Done are the numbers of the events that order a call in an
	// arena on a GPU, 0 for none; see [DeviceMemory].
	Ready, Done int
}

// The channels that the core uses.
const (
	ChannelJob        = 0 // buckets, broadcasts, totals
	ChannelStatistics = 1 // SyncBatchNorm
)

// MaxChannels bounds Group.Channels.
const MaxChannels = 8

// StallError is returned by Do when its deadline passes, and by Connect, without an Op, for ranks that it did not reach in
// time.
type StallError struct {
	Seq     uint64
	Op      Op
	Bucket  int
	Missing []int         // ranks that did not arrive, ascending; empty if all arrived and the collective did not end
	Waited  time.Duration // time since this rank entered; 0: not measured
}

// MismatchError is returned by Do when ranks called different collectives.
type MismatchError struct {
	Rank, Peer int
	Mine, Its  string // both calls in words: "#12 all_reduce f32[4096] sum, bucket 1"
}

// PeerError reports that another rank is gone or misbehaved.
type PeerError struct {
	Peer  int
	Seq   uint64
	Cause string
}
